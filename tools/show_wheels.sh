#!/usr/bin/env bash
# Prints the properties of wheels (name, size, tags, versions of symbols, architectures of kernels) and tests them:
# installs each into an environment of its own, with dependencies from PyPI, runs the README's first program and
# `damacy doctor`, and reads arrays (try_wheel.py). Needs auditwheel and cuobjdump on PATH.
#
# usage: tools/show_wheels.sh PYTHON WHEEL...
set -euo pipefail
[[ $# -ge 2 ]] || { sed -n '2,/^# usage/s/^# \{0,1\}//p' "$0"; exit 2; }
python="$1" tools="$(realpath "$(dirname "$0")")"
shift
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
for wheel in "$@"; do
  echo "== $(basename "$wheel"), $(stat -c %s "$wheel" | awk '{printf "%.1f MiB", $1 / 1048576}')"
  auditwheel show "$wheel"
  rm -rf "$work/unpacked" "$work/venv"
  python3 -m zipfile -e "$wheel" "$work/unpacked"
  library="$(find "$work/unpacked/damacy" -name '_native.*.so')"
  if grep -q nv_fatbin "$library"; then
    echo "cubins: $(cuobjdump --list-elf "$library" | grep -o 'sm_[0-9a-z]*' | sort -Vu | tr '\n' ' ')" \
      "PTX: $(cuobjdump --list-ptx "$library" | grep -o 'sm_[0-9a-z]*' | sort -Vu | tr '\n' ' ')"
  fi
  "$python" -m venv "$work/venv"
  "$work/venv/bin/python" -m pip install -qq --disable-pip-version-check "$wheel" 2>/dev/null
  "$work/venv/bin/python" -m pip check --disable-pip-version-check
  sed -n '/^## First program/,/^## /{/^```python$/,/^```$/p}' "$tools/../README.md" | grep -v '^```' >"$work/first_program.py"
  (cd "$work" && venv/bin/python first_program.py | tail -1)
  (cd "$work" && venv/bin/damacy doctor) || [[ $? == 1 ]]
  "$work/venv/bin/python" -m pip install -qq --disable-pip-version-check "$wheel[zarr]" 2>/dev/null
  cp "$tools/try_wheel.py" "$work"  # next to the sources it would import them
  (cd "$work" && venv/bin/python try_wheel.py)
done
