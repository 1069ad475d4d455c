#!/usr/bin/env bash
# Collects in FOLDER a C++ compiler for x86-64 systems with glibc 2.28: PyPI's ziglang (clang and libc++), and from this
# machine's packages the headers and libraries that damacy is built with, without this machine's glibc.
# FOLDER/toolchain.cmake is for CMake. `make apt` installs the packages.
#
# usage: tools/zig_toolchain.sh FOLDER
set -euo pipefail
[[ $# == 1 ]] || { sed -n '2,/^# usage/s/^# \{0,1\}//p' "$0"; exit 2; }
mkdir -p "$1"
folder="$(realpath "$1")"
rm -rf "${folder:?}"/*
"${PY:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -qq --disable-pip-version-check ziglang==0.17.1 2>/dev/null
zig="$("$folder/venv/bin/python" -c 'import os, ziglang; print(os.path.join(os.path.dirname(ziglang.__file__), "zig"))')"
libraries="$(dirname "$(find /usr/lib -name libzstd.a 2>/dev/null | head -1)")"
[[ -e "$libraries/libisal.so" ]] || { echo "the packages of damacy are not installed: make apt"; exit 1; }

lib="$folder/lib/x86_64-linux-gnu"  # the same depth as installed, which the packages' CMake files rely on
mkdir -p "$folder"/{bin,include} "$lib/cmake"
for tool in c++ cc; do
  printf '#!/bin/sh\nexec "%s" %s -target x86_64-linux-gnu.2.28 "$@"\n' "$zig" "$tool" >"$folder/bin/$tool"
done
for tool in ar ranlib; do printf '#!/bin/sh\nexec "%s" %s "$@"\n' "$zig" "$tool" >"$folder/bin/$tool"; done
chmod +x "$folder"/bin/*
for header in /usr/include/{zstd*.h,lz4*.h,zdict.h,bzlib.h,lzma.h,lzma,isa-l,isa-l.h,rapidjson,spdlog,fmt}; do
  [[ ! -e $header ]] || ln -s "$header" "$folder/include/"
done
ln -s "$libraries"/{libzstd.a,liblz4.a,liblzma.a,libbz2.so,libisal.so,libspdlog.so*,libspdlog.a,libfmt.so*,libfmt.a} "$lib/"
cp -r "$libraries"/cmake/{spdlog,fmt} "$lib/cmake/"

# Daemon threads that end in native code must be unwound by the process's libgcc_s. An unwinder linked into the library
# would end the process. libgcc.a has the data that __builtin_cpu_supports reads: with zig's own, the answer is always no, and
# no vector kernel is used. CMake gives these flags to modules only; the extension is a module.
cat >"$folder/toolchain.cmake" <<CMAKE
set(CMAKE_C_COMPILER "$folder/bin/cc")
set(CMAKE_CXX_COMPILER "$folder/bin/c++")
set(CMAKE_AR "$folder/bin/ar" CACHE FILEPATH "")
set(CMAKE_RANLIB "$folder/bin/ranlib" CACHE FILEPATH "")
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE BOTH)
list(PREPEND CMAKE_PREFIX_PATH "$folder")
set(ZSTD_LIBRARY "$lib/libzstd.a" CACHE FILEPATH "")
set(LZ4_LIBRARY "$lib/liblz4.a" CACHE FILEPATH "")
set(ISAL_LIBRARY "$lib/libisal.so" CACHE FILEPATH "")
set(LZMA_LIBRARY "$lib/liblzma.a" CACHE FILEPATH "")
set(BZIP2_LIBRARY "$lib/libbz2.so" CACHE FILEPATH "")
set(spdlog_DIR "$lib/cmake/spdlog" CACHE PATH "")
set(fmt_DIR "$lib/cmake/fmt" CACHE PATH "")
set(DAMACY_ZIG "$(dirname "$zig")")
set(DAMACY_ZIG_VERSION "$("$zig" version)")
set(CMAKE_MODULE_LINKER_FLAGS_INIT "$(cc -print-file-name=libgcc_s.so.1) $(cc -print-file-name=libgcc.a)")
CMAKE
echo "zig $("$zig" version) for glibc 2.28 is in $folder"
