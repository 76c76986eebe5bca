#!/usr/bin/env bash
# Lets libFuzzer search each reader for inputs that break it. Needs scripts/setup.sh --dev. Findings are in
# build/fuzz/finds and fails the run; build/fuzz/corpus keeps the inputs that reached something new for the next one.
#
#   scripts/fuzz.sh [SECONDS]      for each reader; 60 by default
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds=${1:-60}

launcher=()
if command -v ccache >/dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
cmake --preset asan-ubsan "${launcher[@]}" --log-level=WARNING >/dev/null
targets=()
for source in tests/fuzz/fuzz_*.cc; do targets+=("$(basename "$source" .cc)"); done
cmake --build --preset asan-ubsan --target "${targets[@]}" -- --quiet

finds=$PWD/build/fuzz/finds
mkdir -p "$finds"
run() {
  local target=$1 corpus=build/fuzz/corpus/$1
  mkdir -p "$corpus"
  OMP_NUM_THREADS=1 "build/asan-ubsan/$target" -max_total_time="$seconds" -max_len=65536 -timeout=20 -rss_limit_mb=2048 \
    -artifact_prefix="$finds/$target-" -print_final_stats=1 "$corpus" "tests/fuzz/corpus/${target#fuzz_}" \
    >"build/fuzz/$target.log" 2>&1 || {
    tail -n 40 "build/fuzz/$target.log" >&2
    echo "fuzz: $target failed: build/fuzz/$target.log, $finds" >&2
    return 1
  }
  echo "fuzz: $target: $(awk '/stat::number_of_executed_units/ { print $2 }' "build/fuzz/$target.log") inputs"
}
export -f run
export seconds finds
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I{} bash -euo pipefail -c 'run {}'
