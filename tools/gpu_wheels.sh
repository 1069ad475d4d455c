#!/usr/bin/env bash
# Compares the wheel built by CUDA 12.4 with the one built by CUDA 13 on this GPU. Run it in the root of a checkout with the
# folder .gpu12/ that `make gpu-wheels` fills. Downloads nothing. Results go to $OUT (else build/gpu), a folder per part.
#
# usage: tools/gpu_wheels.sh PART...      the status is 0 if all parts passed
#   tests        all tests marked gpu, with the CUDA 12.4 wheel (at most 520 s)
#   cases        2,000 random cases (CASES) with it (420 s)
#   turns        throughput, micro, blosc-lz4 and smoke with both, in turns: 12, 13, 12, 13 (LIMIT=145 s each)
#   ptx75 ptx80  tests marked gpu (SELECT: pytest's -k) with only PTX of 7.5 or 8.0, which the driver compiles (520 s)
set -uo pipefail
cd "$(dirname "$0")/.."
[[ $# -gt 0 ]] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" | head -n -1; exit 2; }
out="${OUT:-build/gpu}" failed=0

with() {  # with WHEEL NAME PART...: tools/gpu_run.sh with that wheel and an environment of its own
  local wheel="$1" name="$2"
  shift 2
  echo "==== $name, by the wheel $wheel"
  WHEELS=".gpu12/$wheel .gpu12/more" SITE="build/gpu-site-$wheel" OUT="$out/$name" tools/gpu_run.sh "$@" || failed=1
}

throughput() {  # throughput FILE: GB/s of each scenario
  python3 - "$1" <<'PYTHON'
import json, sys
for scenario in json.load(open(sys.argv[1]))["scenarios"]:
    print(f"{scenario['scenario']:12} {scenario['loaders']['damacy']['bytes_per_s'] / 1e9:6.1f} GB/s")
PYTHON
}

for part in "$@"; do
  case "$part" in
    tests) with cuda12 tests tests=520 ;;
    cases) with cuda12 cases cases=420 ;;
    turns)
      for turn in 1 2; do
        for wheel in cuda12 cuda13; do
          PEERS="" with "$wheel" "turn-$turn-$wheel" "bench=${LIMIT:-145}"
          throughput "$out/turn-$turn-$wheel/bench.json"
        done
      done
      ;;
    ptx75 | ptx80) with "$part" "$part" tests=520 ;;
    *) echo "unknown part $part; choose from tests, cases, turns, ptx75, ptx80"; exit 2 ;;
  esac
done
exit "$failed"
