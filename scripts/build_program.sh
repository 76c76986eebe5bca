#!/usr/bin/env bash
# Builds the program as one file that runs on every Linux with the C library 2.28 or later, into dist/: it needs no other
# file, and opens oneDNN where it is installed. Needs scripts/setup.sh --dev; scripts/portable/setup.sh says how it is
# done.
#
#   scripts/build_program.sh            dist/ballast-linux-x86_64, or that of the machine
#   scripts/build_program.sh aarch64    for ARM
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/functions/made_from.sh

architecture=${1:-$(uname -m)}
scripts/portable/setup.sh "$architecture"
export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$PWD} CCACHE_NOHASHDIR=1
if command -v ccache >/dev/null; then export CMAKE_CXX_COMPILER_LAUNCHER=ccache; fi
build=build/program-$architecture
made_from=$(<"build/portable/$architecture/made-from")
if ! is_made_from "$build" "$made_from"; then
  mkdir "$build"
  mark_made_from "$build" "$made_from"
fi
cmake -S . -B "$build" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/portable.cmake" \
  -DBALLAST_PORTABLE_ARCHITECTURE="$architecture" -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=0 \
  -DBALLAST_TESTS=OFF -DBALLAST_BENCH=OFF -DBALLAST_MPI=OFF --log-level=WARNING >/dev/null
cmake --build "$build" --target ballast_program -- --quiet
mkdir -p dist
program=dist/ballast-linux-$architecture
"$architecture-linux-gnu-strip" -o "$program" "$build/ballast"
newest=$("$architecture-linux-gnu-objdump" -T "$program" | sed -nE 's/.*GLIBC_([0-9.]+).*/\1/p' | sort -V | tail -n 1)
[[ $(printf '%s\n' "$newest" 2.28 | sort -V | tail -n 1) == 2.28 ]] || {
  echo "program: $program needs glibc $newest" >&2
  exit 1
}
copied=$("$architecture-linux-gnu-readelf" -rW "$program" | awk '/_COPY/ { print $5 }')
[[ -z $copied ]] || {
  echo "program: $program has a copy of $copied (cmake/portable.cmake)" >&2
  exit 1
}
echo "program: $program, $(stat -c %s "$program") bytes, glibc $newest"
