#!/usr/bin/env bash
# Runs tests and benchmarks on a machine with a GPU, in the root of a checkout with the folder .gpu/ copied into it:
#   .gpu/whl/*.whl   damacy for that machine's Python, and packages that the tests need: numcodecs, google_crc32c, zarr …
#   .gpu/site/       packages without a wheel, searched after those with one
#   .gpu/bin/*       C++ test programs built with CUDA, optional; .gpu/lib/*.so*: their libraries
# `make gpu-folder` fills it. Downloads nothing. Parts run in the given order, each for at most its seconds; results go to
# $OUT (else build/gpu).
#
# usage: tools/gpu_run.sh PART[=SECONDS]...      the status is 0 if all parts passed
#   tests=520      all tests marked gpu; SELECT: pytest's -k
#   native=120     the C++ tests
#   cases=420      2,000 random cases (CASES) in JOBS processes: bytes of CUDA and host must be equal
#   pipelines=500  2,000 random pipelines (PIPELINES) over chunks of 4 KiB to 4 MiB, in JOBS processes: rows are as stored
#   races=300      1,000 rounds (ROUNDS) of each delayed reader
#   bench=500      scenarios (SCENARIOS) with their ceilings, compared with PEERS; SET: more settings, FIELD=VALUE …
#   training=150   how much a loop of matrix products slows down while batches are delivered
#   sanitize=400   memcheck, initcheck and racecheck on a selection of tests and on the C++ tests
#   soak=500       new random cases (from FIRST_CASE) until the time is over
# WHEELS: folders of wheels to use instead of .gpu.
# WITHOUT_GPU=1 tests the script itself on a machine without a GPU.
set -uo pipefail
cd "$(dirname "$0")/.."
me="tools/${0##*/}"

export OUT="${OUT:-build/gpu}" SITE="${SITE:-build/gpu-site}" JOBS="${JOBS:-8}"
declare -A LIMITS=([tests]=520 [native]=120 [cases]=420 [pipelines]=500 [races]=300 [bench]=500 [training]=150 [sanitize]=400 [soak]=500)

install() {
  local wheels
  mapfile -t wheels < <(find ${WHEELS:-.gpu} -maxdepth 2 -name '*.whl' 2>/dev/null | sort)
  [[ ${#wheels[@]} == 0 ]] || python3 -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --upgrade \
    --disable-pip-version-check --target "$SITE" "${wheels[@]}" || exit 1
  export PYTHONPATH="$(realpath "$SITE"):$PWD/.gpu/site:$PWD${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
  export LD_LIBRARY_PATH="$PWD/.gpu/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  python3 -c 'import damacy; print("damacy", damacy.__version__, damacy._native.backend_info())' || exit 1
  python3 -c 'import damacy; assert damacy._native.backend_info()["cuda"], "no usable GPU: nothing would be shown"' ||
    [[ -n "${WITHOUT_GPU:-}" ]] || exit 1
}

# --- the parts: this script runs each in a process of its own, for at most LIMIT seconds ------------------------------

gpu_pytest() {  # without the plug-ins that pyproject.toml expects
  python3 -m pytest -m gpu -o addopts= -p no:cacheprovider -q -rfE "$@"
}

part_tests() {
  gpu_pytest tests/gpu --durations=10 --junitxml "$OUT/tests.xml" ${SELECT:+-k "$SELECT"}
}

part_native() {
  local program code=0
  for program in .gpu/bin/*_tests; do
    [[ -x "$program" ]] || { echo "there are no test programs in .gpu/bin"; return 0; }
    "$program" --gtest_brief=1 || code=1
  done
  return "$code"
}

cases_from() {  # cases_from FIRST COUNT
  gpu_pytest -n "$JOBS" --maxfail=5 tests/gpu/test_random_cases_gpu.py tests/gpu/test_finish_cases_gpu.py \
    --first-case "$1" --cases "$2"
}

part_cases() {
  cases_from "${FIRST_CASE:-0}" "${CASES:-2000}"
}

part_pipelines() {
  gpu_pytest -n "$JOBS" --maxfail=5 tests/end_to_end/test_random_pipelines.py --pipelines "${PIPELINES:-2000}"
}

part_soak() {
  local first="${FIRST_CASE:-100000}" done=0
  while ((SECONDS < LIMIT - 40)); do
    cases_from $((first + done)) $((50 * JOBS)) || return 1
    done=$((done + 50 * JOBS))
  done
  echo "$done cases from $first on, none differs"
}

part_races() {
  gpu_pytest tests/gpu/test_reuse_of_slots.py --rounds "${ROUNDS:-1000}" --durations=5
}

part_bench() {
  local field more=()
  for field in ${SET:-}; do more+=(--set "$field"); done
  python3 -m bench --scenario "${SCENARIOS:-throughput,micro,blosc-lz4,smoke}" --size full --threads 16 --device cuda \
    --peers "${PEERS-tensorstore-gpu}" --reps 3 --set n_compute_threads=15 --set "host_buffer_bytes=2<<30" \
    --set "device_buffer_bytes=6<<30" "${more[@]}" --out "$OUT/bench.json"
}

part_training() {
  python3 -m bench.gpu_training --out "$OUT/training.json"
}

find_tool() {
  command -v "$1" || find /usr/local/cuda*/bin -name "$1" 2>/dev/null | head -1
}

part_sanitize() {
  local tool kind program code=0
  tool="$(find_tool compute-sanitizer)"
  [[ -n "$tool" ]] || { echo "there is no compute-sanitizer"; return 1; }
  for kind in memcheck initcheck racecheck; do
    local under=("$tool" --tool "$kind" --error-exitcode 9 --print-limit 20)
    echo "-- $kind"
    "${under[@]}" python3 -m pytest -m gpu -o addopts= -p no:cacheprovider -q \
      tests/gpu/test_random_cases_gpu.py --cases "${CASES:-$([[ $kind == racecheck ]] && echo 3 || echo 20)}" || code=1
    for program in .gpu/bin/co*_tests; do
      [[ ! -x "$program" ]] || "${under[@]}" "$program" --gtest_brief=1 --gtest_filter="${FILTER:-*uda*:*evice*}" || code=1
    done
  done
  return "$code"
}

# --- running them -----------------------------------------------------------------------------------------------------

note() { echo "== $*" | tee -a "$OUT/summary.txt"; }

run_part() {  # run_part NAME SECONDS
  local begin=$SECONDS code
  LIMIT="$2" timeout -k 10 "$2" bash "$me" --inside "$1" 2>&1 | tee "$OUT/$1.log"
  code="${PIPESTATUS[0]}"
  case "$code" in
    0) note "$1: good, $((SECONDS - begin)) s"; return 0 ;;
    124 | 137) note "$1: not done after $2 s" ;;
    *) note "$1: FAILED ($code), $((SECONDS - begin)) s" ;;
  esac
  return 1
}

if [[ "${1:-}" == --inside ]]; then
  "part_$2"
  exit
fi
[[ $# -gt 0 ]] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$me"; exit 2; }
for argument in "$@"; do
  [[ -n "${LIMITS[${argument%%=*}]:-}" ]] || { echo "unknown part ${argument%%=*}; choose from ${!LIMITS[*]}"; exit 2; }
done
mkdir -p "$OUT" "$SITE"
: >"$OUT/summary.txt"
install
failed=0
for argument in "$@"; do
  part="${argument%%=*}" limit="${argument#*=}"
  [[ "$argument" == *=* ]] || limit="${LIMITS[$part]}"
  run_part "$part" "$limit" || failed=1
done
note "$([[ $failed == 0 ]] && echo all good || echo something failed)"
exit "$failed"
