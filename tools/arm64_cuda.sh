#!/usr/bin/env bash
# Unpacks nvcc 13.0 from PyPI into FOLDER, for x86-64 machines that compile for aarch64 servers ("sbsa": GH200, GB200).
# Installs nothing. Needs pip of PY. Uses the C++ compiler of tools/arm64_toolchain.sh.
#
# usage: tools/arm64_cuda.sh FOLDER
set -euo pipefail
[[ $# == 1 ]] || { sed -n '2,/^# usage/s/^# \{0,1\}//p' "$0"; exit 2; }
PY="${PY:-python3}"
mkdir -p "$1"
folder="$(realpath "$1")" work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

from_pypi() {  # from_pypi MACHINE NAME==VERSION...: unpacked to $work/MACHINE
  $PY -m pip install -qq --disable-pip-version-check --no-deps --no-compile --only-binary=:all: --target "$work/$1" \
    --platform "manylinux2014_$1" --platform "manylinux_2_17_$1" "${@:2}"
}
from_pypi x86_64 nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88
from_pypi aarch64 nvidia-cuda-runtime==13.0.96 nvidia-cuda-crt==13.0.88 nvidia-cuda-cccl==13.0.85 nvidia-nvtx==13.0.85

rm -rf "${folder:?}"/*
compiler="$work/x86_64/nvidia/cu13" target="$folder/targets/sbsa-linux"
mkdir -p "$target"
mv "$compiler/bin" "$compiler/nvvm" "$folder/"
chmod +x "$folder"/bin/* "$folder"/nvvm/bin/*
mv "$work/aarch64/nvidia/cu13/include" "$work/aarch64/nvidia/cu13/lib" "$target/"
cp -rn "$compiler/include/." "$target/include/"  # of nvcc's own, for any machine
ln -s libcudart.so.13 "$target/lib/libcudart.so"
ln -s targets/sbsa-linux/include "$folder/include"
ln -s sbsa-linux "$folder/targets/aarch64-linux"  # CMake's name for it
[[ -e $target/lib/libcudadevrt.a ]] || ar rcs "$target/lib/libcudadevrt.a"  # named where nvcc links; nothing uses it
"$folder/bin/nvcc" --version | tail -2
echo "nvcc for aarch64 is in $folder"
