#!/usr/bin/env bash
# All that must hold before a change goes in: format and structure, build, lint, tests under sanitizers, tests of the release
# build on every SIMD target of this machine. The release build's tests are last, so that their summary ends the output.
#
#   scripts/test.sh          these
#   scripts/test.sh --ci     what continuous integration runs: also the golden files with sanitizers, ThreadSanitizer, and 10 s
#                            of fuzzing for each reader
#   scripts/test.sh --all    and the tests for ARM under qemu that are quick there
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

# What ccache kept of one clone serves another, too.
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
# Golden files run what other tests run, through the program; with sanitizers that takes as long as all parsers' corpora.
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

# On an ARM machine all the other steps are tests for ARM.
if [[ $arm == true && $(uname -m) != aarch64 ]]; then
  step "ARM"
  scripts/aarch64/test.sh "${options[@]}"
fi

step "tests"
ctest --preset release
