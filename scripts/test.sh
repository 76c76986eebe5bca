#!/usr/bin/env bash
# Checks what must hold before a change is merged: format and structure, build, lint, and all tests of the release build
# on every SIMD target of this machine. These are last, so that their summary is at the end of the output.
#
#   scripts/test.sh          these steps
#   scripts/test.sh --ci     what continuous integration runs: also the kernels for ARM, the tests under AddressSanitizer and
#                            UndefinedBehaviorSanitizer, ThreadSanitizer, and 10 s of fuzzing for each reader
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

# Begins a step, and notes the seconds of the last one.
times=() name='' begin=0
step() {
  if [[ -n $name ]]; then times+=("$name: $((SECONDS - begin)) s"); fi
  name=$* begin=$SECONDS
  printf '\n== %s (%d s)\n' "$name" "$SECONDS"
}

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

if [[ $searches == true ]]; then
  step "kernels for ARM"
  scripts/aarch64/check.sh

  step "build with sanitizers"
  configure_and_build asan-ubsan

  step "tests with sanitizers"
  ctest --preset asan-ubsan

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
printf '%s\n' "${times[@]}"
ctest --preset release | grep --line-buffered -v '^ *Start '  # a line for each test
