#!/usr/bin/env bash
# Checks everything that must hold before a change is merged: format and structure, build, lint, tests under sanitizers,
# tests of the release build on every SIMD target of this machine. These are last, so that their summary is at the end
# of the output.
#
#   scripts/test.sh          these steps
#   scripts/test.sh --ci     what continuous integration runs: also the golden files with sanitizers, ThreadSanitizer, and 10 s
#                            of fuzzing for each reader
#   scripts/test.sh --all    also the tests for ARM under qemu that are quick there
#
# CI=true makes warnings errors.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

searches=false
arm=false
case "${1:-}" in
  "") ;;
  --ci) searches=true ;;
  --all) searches=true arm=true ;;
  *)
    echo "usage: scripts/test.sh [--ci | --all]" >&2
    exit 2
    ;;
esac

step() { printf '\n== %s (%d s)\n' "$*" "$SECONDS"; }

# Clones share the results of ccache.
export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$PWD} CCACHE_NOHASHDIR=1

options=()
if [[ ${CI:-} == true ]]; then options+=(-DBALLAST_WERROR=ON); fi

configure_and_build() {
  local launcher=()
  if command -v ccache >/dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
  cmake --preset "$1" "${launcher[@]}" "${options[@]}" --log-level=WARNING >/dev/null
  cmake --build --preset "$1" -- --quiet -k 0
}

step "packages"
scripts/setup.sh --dev

step "format and structure"
scripts/format.sh --check
scripts/check_structure.py

step "release build"
configure_and_build release

step "lint"
scripts/lint.sh

step "kernels for ARM"
scripts/aarch64/check.sh

step "build with sanitizers"
configure_and_build asan-ubsan

step "tests with sanitizers"
# Golden files run the code of other tests through the program; with sanitizers that takes as long as the corpora of all
# parsers.
left_out=()
if [[ $searches == false ]]; then left_out=(--exclude-regex '^golden$'); fi
ctest --preset asan-ubsan "${left_out[@]}"

if [[ $searches == true ]]; then
  step "threads"
  configure_and_build tsan
  ctest --preset tsan

  step "fuzzing"
  scripts/fuzz.sh 10
fi

# On an ARM machine all other steps already test ARM.
if [[ $arm == true && $(uname -m) != aarch64 ]]; then
  step "ARM"
  scripts/aarch64/test.sh "${options[@]}"
fi

step "tests"
ctest --preset release
