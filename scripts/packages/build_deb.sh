#!/usr/bin/env bash
# Builds the Debian packages into dist/: ballast, with the program, and ballast-mpi, with the module that it loads under
# mpirun. They are for the release of Debian that they were built on; if that is Debian 12, where scripts/setup.sh takes
# libraries from Debian 13, they need machines that also read that suite.
#
#   scripts/packages/build_deb.sh
#   apt-get install ./dist/ballast_*.deb
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# These tools find the libraries that a package needs.
for tool in dpkg-shlibdeps file; do
  command -v "$tool" >/dev/null || {
    echo "deb: $tool is missing: install the packages dpkg-dev and file" >&2
    exit 1
  }
done

export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$PWD} CCACHE_NOHASHDIR=1
launcher=()
if command -v ccache >/dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
# Archives have the date of the commit, so that the same commit gives the same bytes.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH

cmake --preset release -B build/deb -DCMAKE_INSTALL_PREFIX=/usr -DBALLAST_TESTS=OFF -DBALLAST_BENCH=OFF "${launcher[@]}" \
  --log-level=WARNING
cmake --build build/deb -- --quiet
rm -rf build/deb/packages
cpack --config build/deb/CPackConfig.cmake -B build/deb/packages
mkdir -p dist
cp build/deb/packages/*.deb dist/
for package in build/deb/packages/*.deb; do echo "deb: dist/$(basename "$package")"; done
