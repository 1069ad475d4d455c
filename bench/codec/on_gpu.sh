#!/usr/bin/env bash
# Correctness, speed and safety of the GPU decoder in under six minutes. Every line of output is one JSON object, or
# starts with '#'.
# usage: on_gpu.sh CODEC_BENCH [NVCOMP_LIBRARY]        results also go to $OUT/codec.jsonl when OUT is set
set -uo pipefail
bench="$1"
nvcomp=()
[[ $# -lt 2 ]] || nvcomp=(--nvcomp "$2")
log="${OUT:-$(mktemp -d)}/codec.jsonl"
failed=0

step() {  # step SECONDS NAME COMMAND...
  local limit="$1" name="$2"
  shift 2
  echo "# $name"
  timeout "$limit" "$@" 2>&1 | tee -a "$log"
  local code="${PIPESTATUS[0]}"
  [[ "$code" == 0 ]] || { echo "# FAILED ($code): $name"; failed=1; }
}

sanitize() {  # sanitize TOOL
  local tool
  tool="$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | head -1)"
  [[ -n "$tool" ]] || { echo "# no compute-sanitizer"; return; }
  step 50 "$1" "$tool" --tool "$1" --error-exitcode 9 "$bench" generated --frames 60 --largest 3000 --seconds 0 --threads 4
  step 50 "$1 mutated" "$tool" --tool "$1" --error-exitcode 9 "$bench" mutated --frames 300 --largest 1500 --seconds 0 --checked 1 --threads 4
}

step 40 "generated, small" "$bench" generated --frames 50000 --seconds 5
step 60 "generated, large" "$bench" generated --frames 600 --largest 500000 --seconds 5 --seed 2
step 40 "mutated, small" "$bench" mutated --seconds 15
step 60 "mutated, large" "$bench" mutated --frames 1000 --largest 300000 --seconds 10 --checked 1 --seed 3
step 90 "table, the rows asked for" "$bench" table --quick "${nvcomp[@]}"
for tool in memcheck racecheck initcheck; do sanitize "$tool"; done
echo "# $([[ $failed == 0 ]] && echo all good || echo something failed)"
exit "$failed"
