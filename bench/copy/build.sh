#!/usr/bin/env bash
# Builds copy_cuda_check as one file that needs only libc and a driver at run time.
# usage: build.sh OUTPUT_FOLDER
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
root="$(cd "$here/../.." && pwd)"
out="$(mkdir -p "$1" && cd "$1" && pwd)"
(cd "$root" && cmake --preset cuda -B "$out/library" -DDAMACY_PYTHON=OFF >/dev/null)
cmake --build "$out/library" --target damacy_halo -j2
nvcc="${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}"
flags=(-O2 -std=c++20 -Xcompiler=-Wall,-Wextra -I"$root/src" -I"$root/tests" -I"$here" -I"$root/bench")
objects=()
for source in main check plans speed; do
  "$nvcc" "${flags[@]}" -c "$here/$source.cpp" -o "$out/$source.o"
  objects+=("$out/$source.o")
done
"$nvcc" -cudart static -o "$out/copy_cuda_check" "${objects[@]}" "$out"/library/libdamacy_{halo,copy,device,core}.a \
  -ldl -lpthread -lrt -Xcompiler -static-libstdc++ -Xcompiler -static-libgcc
strip "$out/copy_cuda_check"
ls -l "$out/copy_cuda_check"
