#!/usr/bin/env bash
# Collects in FOLDER what is needed to build damacy for aarch64 on an x86-64 Debian and to run it there. Installs nothing.
#   tools/      g++ 12 for aarch64 and qemu's user mode, of Debian 12, for x86-64
#   sysroot/    the libraries that damacy is built with, their headers, and Python 3.11, of Debian 12, for aarch64
#   venv/       bin/python is that Python under qemu, with the Python packages that tests use; damacy is this checkout's
# toolchain.cmake is for CMake. Needs apt-get, dpkg, g++ and pip of PY.
#
# usage: tools/arm64_toolchain.sh FOLDER
set -euo pipefail
[[ $# == 1 ]] || { sed -n '2,/^# usage/s/^# \{0,1\}//p' "$0"; exit 2; }
PY="${PY:-python3}"
source "$(dirname "$0")/private_apt.sh"
checkout="$(realpath "$(dirname "$0")/..")"
mkdir -p "$1"
folder="$(realpath "$1")" work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

[[ $(uname -m) == x86_64 ]] || { echo "this is a $(uname -m) machine: the toolchain is for x86-64"; exit 1; }
for needed in apt-get dpkg g++; do
  command -v "$needed" >/dev/null || { echo "$needed is needed: run this on Debian"; exit 1; }
done

TOOLS="binutils-aarch64-linux-gnu cpp-12-aarch64-linux-gnu gcc-12-aarch64-linux-gnu g++-12-aarch64-linux-gnu
  libgcc-12-dev-arm64-cross libgcc-s1-arm64-cross libstdc++-12-dev-arm64-cross libstdc++6-arm64-cross qemu-user-static"
ROOT="libbz2-dev libc6-dev libfmt-dev libgtest-dev libisal-dev liblz4-dev liblzma-dev libpython3.11-dev libspdlog-dev
  libstdc++6 libzstd-dev python3.11-minimal rapidjson-dev zlib1g-dev"
PACKAGES="google-crc32c hypothesis importlib_resources matplotlib ml_dtypes nanobind nibabel numcodecs numpy packaging pandas
  pytest pytest-timeout pytest-xdist PyYAML rich ruff tensorstore typer typing_extensions tzdata xarray zarr"

unpack() {  # unpack FOLDER DEB...
  mkdir -p "$1/usr/lib"
  ln -sfn usr/lib "$1/lib"
  for deb in "${@:2}"; do dpkg -x "$deb" "$1"; done
}

rm -rf "${folder:?}"/{tools,sysroot,venv,toolchain.cmake}
BOOKWORM=("bookworm main" "bookworm-updates main")
private_apt "$work/amd64" amd64 "${BOOKWORM[@]}"
# shellcheck disable=SC2086
(cd "$work/amd64/archives" && apt-get download -qq $TOOLS)
unpack "$folder/tools" "$work"/amd64/archives/*.deb
private_apt "$work/arm64" arm64 "${BOOKWORM[@]}"
# shellcheck disable=SC2086
apt-get install -qq --download-only --yes --no-install-recommends $ROOT >/dev/null
unpack "$folder/sysroot" "$work"/arm64/archives/*.deb
# qemu looks for every file here first, so files that are needed only at run time must not hide this machine's files.
rm -rf "$folder"/sysroot/{etc,var,tmp,run,bin,sbin,usr/sbin,usr/share/doc}

# With these scripts binutils find their own libraries, which are not installed.
programs="$folder/tools/usr/bin" bin="$folder/tools/bin"
mkdir -p "$bin"
for tool in ar as ld nm objcopy objdump ranlib strip; do
  printf '#!/bin/sh\nLD_LIBRARY_PATH="%s" exec "%s" "$@"\n' "$folder/tools/usr/lib/x86_64-linux-gnu" \
    "$programs/aarch64-linux-gnu-$tool" >"$bin/$tool"
done
printf '#!/bin/sh\nexec "%s" -B"%s/" --sysroot="%s" "$@"\n' "$programs/aarch64-linux-gnu-g++-12" "$bin" "$folder/sysroot" >"$bin/g++"  # nvcc's
ln -s "$programs/qemu-aarch64-static" "$bin/qemu"
chmod +x "$bin"/*
cat >"$folder/toolchain.cmake" <<CMAKE
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_SYSROOT "$folder/sysroot")
set(CMAKE_C_COMPILER "$programs/aarch64-linux-gnu-gcc-12")
set(CMAKE_CXX_COMPILER "$programs/aarch64-linux-gnu-g++-12")
set(CMAKE_C_FLAGS_INIT "-B$bin/")
set(CMAKE_CXX_FLAGS_INIT "-B$bin/")
set(CMAKE_CUDA_HOST_COMPILER "$bin/g++")
set(CMAKE_CUDA_FLAGS "-target-dir sbsa-linux" CACHE STRING "")
set(CMAKE_AR "$bin/ar" CACHE FILEPATH "")
set(CMAKE_RANLIB "$bin/ranlib" CACHE FILEPATH "")
set(CMAKE_STRIP "$bin/strip" CACHE FILEPATH "")
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE BOTH)
set(CMAKE_CROSSCOMPILING_EMULATOR "$bin/qemu;-L;$folder/sysroot")
set(Python_EXECUTABLE "$folder/venv/bin/python" CACHE FILEPATH "")
set(Python_INCLUDE_DIR "$folder/sysroot/usr/include/python3.11" CACHE PATH "")
CMAKE

# Python finds its packages by the path of its program. So that path is a script that starts qemu, also for subprocesses.
site="$folder/venv/lib/python3.11/site-packages"
mkdir -p "$folder/venv/bin" "$site"
cat >"$folder/venv/bin/python" <<PYTHON
#!/bin/sh
exec "$bin/qemu" -L "$folder/sysroot" -0 "\$0" "$folder/sysroot/usr/bin/python3.11" "\$@"
PYTHON
chmod +x "$folder/venv/bin/python"
ln -s python "$folder/venv/bin/python3"
printf 'home = %s\nversion = 3.11.2\ninclude-system-site-packages = false\n' "$folder/sysroot/usr/bin" >"$folder/venv/pyvenv.cfg"
# shellcheck disable=SC2086
$PY -m pip install -qq --disable-pip-version-check --no-compile --only-binary=:all: --target "$site" \
  --python-version 3.11 --implementation cp --abi cp311 --abi abi3 --abi none --platform any \
  --platform manylinux2014_aarch64 --platform manylinux_2_17_aarch64 --platform manylinux_2_24_aarch64 \
  --platform manylinux_2_26_aarch64 --platform manylinux_2_27_aarch64 --platform manylinux_2_28_aarch64 \
  -c "$checkout/requirements-dev.txt" $PACKAGES
# This machine cannot start programs for aarch64 by itself.
mv "$site/bin/ruff" "$site/bin/ruff-aarch64"
printf '#!/bin/sh\nexec "%s" -L "%s" "%s/bin/ruff-aarch64" "$@"\n' "$bin/qemu" "$folder/sysroot" "$site" >"$site/bin/ruff"
chmod +x "$site/bin/ruff"
echo "$checkout/python" >"$site/damacy.pth"
"$folder/venv/bin/python" -c 'import numpy, platform, sys; print(sys.executable, platform.machine(), "numpy", numpy.__version__)'
echo "g++ 12, libraries and Python 3.11 for aarch64 are in $folder"
