#!/usr/bin/env bash
# Collects nvcc 12.4 and what wheels need in FOLDER: kernels for drivers of CUDA 12.0 and later, and for GPUs of compute
# capability 7.5 to 12.0. Installs nothing. Packages are pinned by their SHA-256. Needs apt-get, dpkg and pip.
#   compiler         nvcc 12.4.131 of Debian trixie non-free, which is complete; its programs also run on Debian 12
#   headers          of PyPI: nvcc, runtime and NVTX 12.4, CCCL 12.9
#   static runtime   12.9.79 of PyPI, the first version there with one; minor versions of CUDA 12 are compatible
#   ptxas 12.9       of PyPI: compiles 12.4's PTX to cubins for 9.0, 10.0 and 12.0; bin/fatbinary puts them in
#   licences/        of each
#
# usage: tools/cuda_toolchain.sh FOLDER
set -euo pipefail
[[ $# == 1 ]] || { sed -n '2,/^# usage/s/^# \{0,1\}//p' "$0"; exit 2; }
PY="${PY:-python3}"
source "$(dirname "$0")/private_apt.sh"
mkdir -p "$1"
folder="$(realpath "$1")" work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

for needed in apt-get dpkg sha256sum; do
  command -v "$needed" >/dev/null || { echo "$needed is needed: run this on Debian or Ubuntu"; exit 1; }
done

checked() {  # checked FILE SHA256
  echo "$2  $1" | sha256sum --check --quiet || { echo "$1 has another SHA-256 than expected"; exit 1; }
}

compiler() {
  private_apt "$work/apt" amd64 "trixie non-free"
  (cd "$work" && apt-get download -qq nvidia-cuda-toolkit=12.4.131~12.4.1-2)
  mv "$work"/nvidia-cuda-toolkit_*.deb "$work/toolkit.deb"
  checked "$work/toolkit.deb" cd5fe85aee38d108b315f408a688641478f2402622a10c677478eb7a6c4e5319
  dpkg -x "$work/toolkit.deb" "$work/deb"
}

from_pypi() {  # from_pypi NAME VERSION SHA256: unpacked to $work/NAME-VERSION
  $PY -m pip download -qq --disable-pip-version-check --no-deps --only-binary=:all: --platform manylinux2014_x86_64 \
    --platform manylinux_2_17_x86_64 --platform manylinux2010_x86_64 -d "$work/pip/$1-$2" "$1==$2" 2>/dev/null ||
    { echo "cannot download $1 $2 from PyPI"; exit 1; }
  local wheel
  wheel="$(echo "$work/pip/$1-$2"/*.whl)"
  checked "$wheel" "$3"
  $PY -m zipfile -e "$wheel" "$work/$1-$2"
  mkdir -p "$work/licences"
  find "$work/$1-$2" -name License.txt -exec cp {} "$work/licences/$1-$2.txt" \;
}

compiler
from_pypi nvidia-cuda-nvcc-cu12 12.4.131 e4c9a35435c3b0e36c6397c5696334c9ea6650e524736cbd1c5d345ea099bb04
from_pypi nvidia-cuda-runtime-cu12 12.4.127 64403288fa2136ee8e467cdc9c9427e0434110899d07c779f25b5c068934faa5
from_pypi nvidia-nvtx-cu12 12.4.127 781e950d9b9f60d8241ccea575b32f5105a5baf4c2351cab5256a24869f12a1a
from_pypi nvidia-cuda-cccl-cu12 12.9.27 37869e17ce2e1ecec6eddf1927cca0f8c34e64fd848d40453df559091e2d7117
from_pypi nvidia-cuda-runtime-cu12 12.9.79 25bba2dfb01d48a9b59ca474a1ac43c6ebf7011f1b0b8cc44f54eb6ac48a96c3
from_pypi nvidia-cuda-nvcc-cu12 12.9.86 5d6a0d32fdc7ea39917c20065614ae93add6f577d840233237ff08e9a38f58f0

# Moves files to where nvcc and CMake look for them.
made="$work/made"
mkdir -p "$made"/{bin/12.9,bin/plain,include,lib64,nvvm/bin,licences}
programs="$work/deb/usr/lib/nvidia-cuda-toolkit"
cp -a "$work"/deb/usr/bin/{bin2c,cudafe++,cuobjdump,nvdisasm,nvlink,ptxas,__nvcc_device_query} "$programs"/bin/{nvcc,crt} "$made/bin/"
cp "$work/deb/usr/bin/fatbinary" "$made/bin/plain/"
cp "$programs/bin/cicc" "$made/nvvm/bin/"
cp -r "$programs/libdevice" "$made/nvvm/"
for part in nvcc-cu12-12.4.131/nvidia/cuda_nvcc runtime-cu12-12.4.127/nvidia/cuda_runtime; do
  cp -r "$work/nvidia-cuda-$part/include/." "$made/include/"
done
cp -r "$work/nvidia-nvtx-cu12-12.4.127/nvidia/nvtx/include/." "$work/nvidia-cuda-cccl-cu12-12.9.27/nvidia/cuda_cccl/include/." "$made/include/"
cp "$work"/nvidia-cuda-runtime-cu12-12.9.79/nvidia/cuda_runtime/lib/libcud{art.so.12,art_static.a} "$made/lib64/"
ln -s libcudart.so.12 "$made/lib64/libcudart.so"
ar rcs "$made/lib64/libcudadevrt.a"  # nvcc names it where it links; no kernel launches another
install -m 755 "$work/nvidia-cuda-nvcc-cu12-12.9.86/nvidia/cuda_nvcc/bin/ptxas" "$made/bin/12.9/ptxas"
cp "$work"/licences/*.txt "$made/licences/"
cp "$work/deb/usr/share/doc/nvidia-cuda-toolkit/copyright" "$made/licences/nvidia-cuda-toolkit.txt"
cp "$made/licences/nvidia-cuda-runtime-cu12-12.9.79.txt" "$made/EULA.txt"  # of what is linked into a wheel

# As in a toolkit. The versions of the compiler and of the runtime that is linked into a wheel differ.
echo '{"cuda": {"version": "12.4.131"}, "cuda_nvcc": {"version": "12.4.131"}, "cuda_cudart": {"version": "12.9.79"}}' \
  >"$made/version.json"

cat >"$made/bin/nvcc.profile" <<'PROFILE'
TOP                = $(_HERE_)/..
CICC_PATH          = $(TOP)/nvvm/bin
NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice
PATH              += $(CICC_PATH):$(_HERE_):
INCLUDES          += "-I$(TOP)/include" $(_SPACE_)
LIBRARIES         =+ $(_SPACE_) "-L$(TOP)/lib64"
PROFILE

cat >"$made/bin/fatbinary" <<'FATBINARY'
#!/bin/sh
# The step of nvcc that packs a kernel's images. If PTX for 9.0 is among them, ptxas 12.9 compiles it to cubins for 10.0 and
# 12.0, which nvcc 12.4 does not know, and for 9.0, where small launches of the zstd decoder are 5 % faster than with the
# cubin by ptxas 12.4, which is left out.
set -e
here=$(dirname "$(readlink -f "$0")")
ptx= line=
for argument; do
  case $argument in
    *kind=ptx,sm=90,file=*) ptx=${argument##*file=} ;;
  esac
done
made=
if [ -n "$ptx" ]; then
  grep -q '^[[:space:]]*\.loc' "$ptx" && line=-lineinfo
  for argument; do  # all, in their order, but the cubin for 9.0
    shift
    case $argument in
      *kind=elf,sm=90,*) ;;
      *) set -- "$@" "$argument" ;;
    esac
  done
  for sm in 90 100 120; do
    "$here/12.9/ptxas" -arch=sm_$sm -m64 $line "$ptx" -o "$ptx.sm_$sm.cubin"
    made="$made $ptx.sm_$sm.cubin"
    set -- "$@" "--image3=kind=elf,sm=$sm,file=$ptx.sm_$sm.cubin"
  done
fi
status=0
"$here/plain/fatbinary" "$@" || status=$?
rm -f $made
exit $status
FATBINARY
chmod 755 "$made/bin/fatbinary"

"$made/bin/nvcc" --version | tail -2
rm -rf "$folder"
mv "$made" "$folder"
echo "CUDA 12.4 for wheels is in $folder"
