#!/usr/bin/env bash
# Builds generated_on_host, which needs no GPU, and codec_bench as one file that needs only libc at run time: the CUDA
# runtime, libstdc++, zstd and lz4 are linked in.
# Only the container code of the blosc decoder is used; the linker leaves out the rest, which needs a deflate library.
# usage: build.sh OUTPUT_FOLDER      NVCC, ZSTD_ARCHIVE and LZ4_ARCHIVE override the default files.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
root="$(cd "$here/../.." && pwd)"
out="$(mkdir -p "$1" && cd "$1" && pwd)"
nvcc="${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}"
zstd="${ZSTD_ARCHIVE:-$(c++ -print-file-name=libzstd.a)}"
lz4="${LZ4_ARCHIVE:-$(c++ -print-file-name=liblz4.a)}"
flags=(-O3 -std=c++20 -arch=sm_90 --expt-relaxed-constexpr -lineinfo -I"$root/src" -I"$root/tests" -I"$here" -I"$root/bench" -DSPDLOG_FMT_EXTERNAL=0
       -Xcompiler=-ffunction-sections)
codec="$root/src/damacy/codec"
sources=("$here"/{main,batch,stage_times}.cu "$here"/{table,hostile,hostile_frames,ledger,nvcomp,nvcomp_library,volume}.cpp "$codec/cuda/gpu_decoder.cu"
         "$codec"/gpu_zstd/{frame_scan,wave_descriptors}.cpp "$root/tests/support/reference_decoder.cpp" "$codec/blosc.cpp"
         "$root"/src/damacy/core/{dims,error}.cpp)
"${CXX:-c++}" -O2 -std=c++20 -I"$root/src" -I"$root/tests" -I"$here" -static-libstdc++ -static-libgcc -o "$out/generated_on_host" \
  "$here"/{generated_on_host,ledger}.cpp "$codec/zstd.cpp" "$codec/gpu_zstd/frame_scan.cpp" "$root/tests/support/reference_decoder.cpp" "$zstd" "$lz4" -lpthread
objects=()
for source in "${sources[@]}"; do
  object="$out/$(basename "$source").o"
  objects+=("$object")
  newest="$(find "$codec" "$here" "$root/bench/gpu" -newer "$object" -name '*.[hc]*' -print -quit 2>/dev/null || echo new)"
  [[ -f "$object" && -z "$newest" ]] || "$nvcc" "${flags[@]}" -c "$source" -o "$object"
done
"$nvcc" -arch=sm_90 -cudart static -o "$out/codec_bench" "${objects[@]}" "$zstd" "$lz4" -ldl -lpthread -lrt \
  -Xlinker --gc-sections -Xlinker --exclude-libs=ALL -Xcompiler -static-libstdc++ -Xcompiler -static-libgcc
strip "$out/codec_bench"
ls -l "$out/codec_bench"
