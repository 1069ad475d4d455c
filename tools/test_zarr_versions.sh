#!/usr/bin/env bash
# Runs the tests of damacy.zarr with the last release of each minor version of zarr-python that needs a newer Python than
# the other tests use. Creates an environment and an extension for that Python.
# usage: tools/test_zarr_versions.sh PYTHON [VERSION...]
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1
shift
versions=("$@")
((${#versions[@]})) || versions=(3.2 3.3 3.4)
venv=build/zarr-venv
packages=(hypothesis ml_dtypes nanobind pytest pytest-timeout xarray)
stores=(aiohttp fsspec icechunk obstore)

[[ -x $venv/bin/python ]] || "$python" -m venv "$venv"
pip() { "$venv/bin/python" -m pip install -qq --disable-pip-version-check --no-input "$@"; }
pip -c requirements-dev.txt "${packages[@]}"
cmake --preset host -B build/zarr -DDAMACY_TESTS=OFF -DPython_EXECUTABLE="$PWD/$venv/bin/python" >/dev/null
cmake --build build/zarr --target _native -j "$(nproc)"
for version in "${versions[@]}"; do
  pip "zarr==$version.*" "${stores[@]}"
  echo "zarr-python $("$venv/bin/python" -c 'import zarr; print(zarr.__version__)'):"
  PYTHONPATH=python "$venv/bin/python" -m pytest -q -p no:cacheprovider \
    tests/end_to_end/test_zarr_reads.py tests/end_to_end/test_zarr_buffers.py tests/end_to_end/test_zarr_doors.py \
    tests/end_to_end/test_icechunk.py tests/end_to_end/test_stores_after_fork.py \
    python/tests/test_gds_store.py python/tests/test_zarr_jobs.py
done

# `GDSStore` for zarr-python 2, which needs an older numcodecs.
pip "zarr==2.18.*" "numcodecs<0.16"
echo "zarr-python $("$venv/bin/python" -c 'import zarr; print(zarr.__version__)'):"
PYTHONPATH=python "$venv/bin/python" -m pytest -q -p no:cacheprovider python/tests/test_gds_store_v2.py
