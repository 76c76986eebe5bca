#!/usr/bin/env bash
# Builds ballast for ARM and runs its tests under qemu, on processors with NEON and with SVE of each length; then converts
# a model here and lets both builds continue a text from it. Needs scripts/setup.sh --dev and the release build.
#
#   scripts/aarch64/test.sh [CMAKE OPTION]...          all tests except those that take most of an hour each under qemu
#   scripts/aarch64/test.sh --all [CMAKE OPTION]...    also these: whole conversions, evaluations and the golden runs
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

step() { printf '\n== aarch64: %s (%d s)\n' "$*" "$SECONDS"; }

host_program=build/release/ballast
[[ -x $host_program ]] || {
  echo "aarch64/test: no $host_program: run cmake --preset release && cmake --build --preset release" >&2
  exit 1
}

all=false
if [[ ${1:-} == --all ]]; then
  all=true
  shift
fi

step "packages"
scripts/aarch64/setup.sh

step "build"
launcher=()
if command -v ccache >/dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
cmake --preset aarch64 "${launcher[@]}" "$@" --log-level=WARNING >/dev/null
cmake --build --preset aarch64 -- --quiet -k 0

# Kernels are tested on each target that a processor has, all else on its best one: NEON with i8mm, then SVE of each
# length. The last has NEON too, with dot products and without, so kernels are left to it.
export OMP_WAIT_POLICY=passive
step "tests on NEON"
left_out=kernels
if [[ $all == false ]]; then left_out='kernels|quant|eval|golden'; fi
QEMU_CPU=max,sve=off ctest --preset aarch64 --parallel 2 --exclude-regex "^($left_out)$"
step "tests on SVE of 128 bits"
QEMU_CPU=max,sve-max-vq=1 BALLAST_TEST_TARGET=SVE2_128 ctest --preset aarch64 --parallel 2 -R '^(kernels|model)$'
step "tests on SVE of 256 bits"
QEMU_CPU=max,sve-max-vq=2 BALLAST_TEST_TARGET=SVE_256 ctest --preset aarch64 --parallel 2 -R '^(kernels|model)$'
step "tests on SVE of 512 bits, kernels also on NEON"
QEMU_CPU=max,sve-max-vq=4 ctest --preset aarch64 --parallel 2 -R '^(kernels|model)$'

step "a model converted on this machine has the same output on aarch64"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/model"
cp tests/data/models/llama/{config.json,model.safetensors} "$work/model"
# Writes a word for each of the model's 67 tokens.
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' {0..9} {A..Z} {a..z} >"$work/model/vocab.txt"
echo '{"do_lower_case": false}' >"$work/model/tokenizer_config.json"

# Runs a command whose standard error is shown only if it fails; the first argument is its name.
logged() {
  "${@:2}" 2>"$work/log" || {
    local status=$?
    cat "$work/log" >&2
    echo "aarch64/test: $1: exit code $status (above)" >&2
    return "$status"
  }
}

# Instruction sets add floats in another order, so last bits differ. An F32 cache does not enlarge such a difference;
# rounding keys and values to 16 or 8 bits can make it a whole step, enough for another token.
words=(-p "a b c" -n 32 --kv f32)
for scheme in w8a8 w4a8 w4a16; do
  logged "converting to $scheme here" "$host_program" convert "$work/model" -o "$work/$scheme" --scheme "$scheme" \
    >"$work/table"
  here=$(logged "$scheme here" "$host_program" run "$work/$scheme" "${words[@]}")
  for cpu in cortex-a72 neoverse-n1 max,sve-max-vq=2; do  # without dot products, with them, with i8mm
    there=$(logged "$scheme on $cpu" qemu-aarch64 -L /usr/aarch64-linux-gnu -cpu "$cpu" build/aarch64/ballast \
      run "$work/$scheme" "${words[@]}")
    [[ -n $here && $here == "$there" ]] || {
      printf 'aarch64/test: %s on %s: here "%s", there "%s"\n' "$scheme" "$cpu" "$here" "$there" >&2
      exit 1
    }
  done
  echo "$scheme:$here"
done
