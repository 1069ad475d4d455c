#!/usr/bin/env bash
# Correctness, speed, profile and safety of the GPU decoder in about five minutes. Every line of output is one JSON
# object, or starts with '#'. Stops if the first check of all launch shapes fails: speed of wrong results means nothing.
# usage: on_gpu.sh CODEC_BENCH [NVCOMP_LIBRARY]        results also go to $OUT/codec.jsonl and codec.json if OUT is set;
# NVCOMP_LIBRARY is a libnvcomp.so.5 or .6, timed together with ours on the same frames. COMMIT: the commit of the sources.
set -uo pipefail
bench="$1"
nvcomp=()
[[ $# -lt 2 ]] || nvcomp=(--nvcomp "$2")
out="${OUT:-$(mktemp -d)}"
log="$out/codec.jsonl"
failed=0

step() {  # step SECONDS NAME COMMAND...
  local limit="$1" name="$2" begin=$SECONDS
  shift 2
  timeout -k 3 "$limit" "$@" 2>&1 | tee -a "$log"
  local code="${PIPESTATUS[0]}"
  echo "# $name: $((SECONDS - begin)) s"
  [[ "$code" == 0 ]] || { echo "# FAILED ($code): $name"; failed=1; }
}

find_tool() { command -v "$1" || ls /usr/local/cuda*/bin/"$1" /opt/nvidia/nsight-compute/*/"$1" 2>/dev/null | head -1; }

sanitize() {  # sanitize SECONDS TOOL
  local tool
  tool="$(find_tool compute-sanitizer)"
  [[ -n "$tool" ]] || { echo "# no compute-sanitizer"; return; }
  step "$1" "$2" "$tool" --tool "$2" --error-exitcode 9 "$bench" generated --frames 60 --largest 3000 --seconds 0 --threads 4
  step "$1" "$2, mutated" "$tool" --tool "$2" --error-exitcode 9 "$bench" mutated --frames 300 --largest 1500 --seconds 0 --checked 1 --threads 4
}

profile() {  # profile SECONDS ROW COUNT
  local tool
  tool="$(find_tool ncu)"
  [[ -n "$tool" ]] || { echo "# no ncu"; return; }
  timeout -k 3 "$1" "$tool" --clock-control none --launch-count 5 --section SpeedOfLight --section WarpStateStats \
    --section Occupancy --section LaunchStats --section InstructionStats --section MemoryWorkloadAnalysis \
    -o "$out/profile" -f "$bench" table --quick --no-stages --no-lz4 --only "$2" --count "$3" >"$out/ncu.log" 2>&1 ||
    { echo "# profile failed"; tail -3 "$out/ncu.log"; }
  "$tool" --import "$out/profile.ncu-rep" --page raw --csv >"$out/profile.csv" 2>/dev/null
}

step 30 "every launch shape, small" "$bench" generated --frames 3000 --seconds 0 --all-shapes
step 30 "every launch shape, large" "$bench" generated --frames 150 --largest 400000 --seconds 0 --seed 2 --all-shapes
step 30 "every launch shape, mutated" "$bench" mutated --frames 2000 --seconds 0 --seed 3 --all-shapes
[[ $failed == 0 ]] || { echo "# stopped"; exit 1; }
step 90 "table, the rows asked for" "$bench" table --quick "${nvcomp[@]}"
profile 40 zstd/micro/256 8192
step 30 "mutated, small" "$bench" mutated --seconds 12
step 30 "mutated, large" "$bench" mutated --frames 1000 --largest 300000 --seconds 8 --checked 1 --seed 4
for tool in memcheck racecheck initcheck; do sanitize 20 "$tool"; done
! command -v python3 >/dev/null ||
  python3 "$(dirname "$0")/keep_results.py" "$log" "${COMMIT:-unknown}" "$out/codec.json" "$0 $*"
echo "# $([[ $failed == 0 ]] && echo all good || echo something failed)"
exit "$failed"
