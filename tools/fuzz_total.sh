#!/usr/bin/env bash
# Fuzz targets until each has had COUNT executions in all runs together; ended at any time, the next run goes on.
# usage: tools/fuzz_total.sh FOLDER COUNT TARGET...     TARGET: a program of build/fuzz/fuzz/, such as codec_zstd
# FOLDER keeps executions.txt (a line a piece: target, executions), corpora, logs, and inputs that broke something.
# JOBS processes at a time (the number of cores), PIECE executions each (200000), MAX_LEN bytes of input (1024).
set -uo pipefail
[[ $# -ge 3 ]] || { sed -n '2,/^# JOBS/s/^# \{0,1\}//p' "$0"; exit 2; }
cd "$(dirname "$0")/.."
folder="$(mkdir -p "$1" && cd "$1" && pwd)" count="$2" jobs="${JOBS:-$(nproc)}" piece="${PIECE:-200000}"
programs="${PROGRAMS:-build/fuzz/fuzz}"
shift 2

executed() {  # executed TARGET
  awk -v target="$1" '$1 == target { sum += $2 } END { print sum + 0 }' "$folder/executions.txt"
}

run_piece() {  # run_piece TARGET
  local log="$folder/$1.$BASHPID.log" corpus="$folder/corpus/$1" seeds=() code=0 done
  mkdir -p "$corpus"
  [[ ! -d "fuzz/corpus/$1" ]] || seeds=("fuzz/corpus/$1")
  "$programs/$1" -runs="$piece" -max_len="${MAX_LEN:-1024}" -timeout=60 -rss_limit_mb=3000 -print_final_stats=1 \
    -artifact_prefix="$folder/$1-" "$corpus" "${seeds[@]}" >"$log" 2>&1 || code=1
  done="$(sed -n 's/stat::number_of_executed_units: *//p' "$log")"
  echo "$1 ${done:-0}" >>"$folder/executions.txt"  # short lines: processes do not mix them
  [[ $code == 0 ]] && rm -f "$log" || { tail -30 "$log"; touch "$folder/broken"; }
}

touch "$folder/executions.txt"
rm -f "$folder/broken"
for target in "$@"; do
  while (($(executed "$target") < count)) && [[ ! -e "$folder/broken" ]]; do
    for ((i = 0; i < jobs; i++)); do run_piece "$target" & done
    wait
  done
  echo "$target: $(executed "$target") executions"
done
[[ ! -e "$folder/broken" ]] || { echo "something broke: see $folder"; exit 1; }
