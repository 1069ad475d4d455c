#!/usr/bin/env bash
# Checks that the kernels are safe on any input: mutated frames between canaries, then compute-sanitizer. Run it in the
# root of a checkout on a machine with a GPU. It uses these programs in .gpu/bin/ (or build/bench/):
#   codec_bench      of bench/codec/build.sh       copy_cuda_check  of bench/copy/build.sh, may be missing
#   codec_tests, device_tests, stage_check         built with CUDA, may be missing
#
# usage: tools/gpu_checks.sh OUT SECONDS     SECONDS for each of zstd, LZ4 and blosc mutated, zstd and LZ4 generated;
# 0: only sanitizers. Results: OUT/checks.jsonl, OUT/*.log, and OUT/frames.txt, which keeps the totals of all runs: use
# the same OUT again to continue.
# SANITIZE=0 leaves the sanitizers out. The status is 0 if nothing was found.
set -uo pipefail
[[ $# == 2 ]] || { sed -n '2,/^# SANITIZE/s/^# \{0,1\}//p' "$0"; exit 2; }
cd "$(dirname "$0")/.."
out="$(mkdir -p "$1" && cd "$1" && pwd)" seconds="$2" failed=0

program() {  # program NAME: where it is, or nothing
  local folder
  for folder in .gpu/bin build/bench build/cuda; do
    [[ ! -x "$folder/$1" ]] || { echo "$PWD/$folder/$1"; return; }
  done
}

step() {  # step LIMIT NAME COMMAND...
  local limit="$1" name="$2" begin=$SECONDS code
  shift 2
  timeout -k 5 "$limit" "$@" >"$out/$name.log" 2>&1
  code=$?
  grep -h '^{' "$out/$name.log" | tail -1 | tee -a "$out/checks.jsonl"
  [[ $code == 0 ]] && { echo "== $name: good, $((SECONDS - begin)) s"; return; }
  echo "== $name: FAILED ($code), $((SECONDS - begin)) s"
  tail -20 "$out/$name.log"
  failed=1
}

# Status 137 or 124 of a mutated run means a hang: a kernel that does not end.
mutated() {  # mutated SUBJECT
  step "$((seconds + 60))" "mutated-$1" "$bench" mutated --subject "$1" --largest 4096 --seconds "$seconds" \
    --ledger "$out/frames.txt" --checked 0.02
}

# Frames of levels -5 to 22 that the libraries wrote, with known contents.
generated() {  # generated SUBJECT
  step "$((seconds + 60))" "generated-$1" "$bench" generated --subject "$1" --largest 4096 --seconds "$seconds" \
    --ledger "$out/frames.txt"
}

sanitized() {  # sanitized TOOL
  local under=("$tool" --tool "$1" --error-exitcode 9 --print-limit 20) name more=()
  for name in zstd lz4; do
    step 120 "$1-$name" "${under[@]}" "$bench" generated --subject "$name" --frames 40 --largest 3000 --seconds 0 --threads 4
    step 120 "$1-$name-mutated" "${under[@]}" "$bench" mutated --subject "$name" --frames 200 --largest 1500 --seconds 0 \
      --checked 1 --threads 4
  done
  step 120 "$1-blosc-mutated" "${under[@]}" "$bench" mutated --subject blosc --frames 60 --largest 1500 --seconds 0 \
    --checked 1 --threads 4
  [[ $1 == racecheck ]] && more=(--placements 20) || more=(--placements 200)
  name="$(program copy_cuda_check)"
  [[ -z "$name" ]] || step 120 "$1-copy" "${under[@]}" "$name" check --seconds 5 --exact "${more[@]}"
  [[ $1 != racecheck ]] || return 0  # racecheck takes hours for whole suites
  for name in codec_tests device_tests; do
    [[ -z "$(program $name)" ]] || step 180 "$1-$name" "${under[@]}" "$(program $name)" --gtest_brief=1 \
      --gtest_filter='CudaFrames*:*Gpu*:-*graph*:*too_much*'
  done
}

bench="$(program codec_bench)"
[[ -n "$bench" ]] || { echo "there is no codec_bench"; exit 2; }
if [[ "$seconds" != 0 ]]; then
  for subject in zstd lz4 blosc; do mutated "$subject"; done
  for subject in zstd lz4; do generated "$subject"; done
  cat "$out/frames.txt"
fi
# Compares staging, decoding and placing with the host's decoder: 10 million chunks, some minutes on 16 cores.
name="$(program stage_check)"
if [[ -n "$name" && "$seconds" != 0 ]]; then
  step 600 stage-check "$name" --device cuda --chunks "${STAGE_CHUNKS:-10000000}" --seconds 500
fi
if [[ "${SANITIZE:-1}" == 1 ]]; then
  tool="$(command -v compute-sanitizer || find /usr/local/cuda*/bin -name compute-sanitizer 2>/dev/null | head -1)"
  if [[ -n "$tool" ]]; then
    for kind in memcheck initcheck racecheck; do sanitized "$kind"; done
  else
    echo "== there is no compute-sanitizer"
    failed=1
  fi
fi
echo "== $([[ $failed == 0 ]] && echo all good || echo something failed)"
exit "$failed"
