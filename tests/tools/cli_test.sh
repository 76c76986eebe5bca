#!/bin/sh
# What the program promises to a shell: exit codes, one line for each failure, silence where it was promised.
# usage: cli_test.sh [EMULATOR [OPTION]...] PROGRAM
set -u
work=$(mktemp -d) || exit 1
program=
for word in "$@"; do program="$program '$(printf '%s\n' "$word" | sed "s/'/'\\\\''/g")'"; done
ballast() { eval "$program \"\$@\""; }
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0

fail() {
  echo "FAILED: $*" >&2
  sed 's/^/    /' "$work/err" >&2
  failures=$((failures + 1))
}

# expect CODE LINES WORDS ARGUMENTS...: exit code, number of lines on standard error, and words that must stand there
expect() {
  code=$1 lines=$2 words=$3
  shift 3
  ballast "$@" >out 2>err </dev/null
  got=$?
  [ $got -eq "$code" ] || fail "'$*' exits with $got, not $code"
  [ "$(wc -l <err)" -eq "$lines" ] || fail "'$*' prints another number of lines than $lines"
  grep -q -- "$words" err || fail "'$*' does not say '$words'"
  [ ! -s out ] || fail "'$*' prints to standard output"
}

for command in inspect calibrate convert verify eval sweep run bench; do
  ballast $command --help >out 2>err || fail "$command --help"
  grep -q "ballast $command .*[-A-Za-z]" out && grep -q '^Example' out || fail "$command --help shows no example"
  expect 2 2 "Try 'ballast $command --help'" $command --no-such-option
  expect 2 2 "MODEL" $command
done
ballast --help >out 2>err && grep -q 'convert' out || fail "--help"
ballast --version >out 2>err && grep -Eq '^ballast [0-9]+\.[0-9]+\.[0-9]+$' out || fail "--version"

expect 2 2 "command is missing"
expect 2 2 "no-such-command" no-such-command

# A path that is not there is a failure, not wrong usage: one line that names it.
for command in "inspect" "calibrate -o stats" "convert -o dir" "verify --expected file" "eval --text file" \
  "sweep --text file -o dir" "run -p text" \
  "bench -p 1 -n 1 -r 1"; do
  # shellcheck disable=SC2086
  expect 1 1 "^ballast: missing-model: " $command missing-model
done
[ ! -e stats ] && [ ! -e dir ] || fail "a failed job leaves output"

# Output that exists is kept, which is said before any work.
echo precious >stats
expect 1 1 "stats: exists already" calibrate missing-model -o stats
[ "$(cat stats)" = precious ] || fail "calibrate touches an existing file"

expect 2 2 "--threads" inspect missing-model --threads 1
expect 2 2 "whole number from 1" eval missing-model --text file -t 0
expect 2 2 "whole number from 2" eval missing-model --text file --context 1
expect 2 2 "int4 not in" bench missing-model --kv int4
expect 2 2 "requires --window" run missing-model -p text --sinks 4
expect 2 2 "whole number from 2" eval missing-model --text file --stream 1
expect 2 2 "--text FILE or --choices FILE" eval missing-model
expect 2 2 "--text excludes --choices" eval missing-model --text file --choices file
expect 2 2 "requires --reference" eval missing-model --text file --worst 3
expect 1 1 "^ballast: missing-model: " eval missing-model --choices file
expect 2 2 "above 0 and at most 1" run missing-model -p text --top-p 0
expect 2 2 "PROMPT is missing" run missing-model
expect 2 2 "nothing to measure" bench missing-model -p 0 -n 0
expect 2 2 "there are f32" sweep missing-model --text file -o dir --schemes w8a8,w3a3
expect 2 2 "quick not in" sweep missing-model --text file -o dir --preset quick
expect 2 2 "a size like 92MB" sweep missing-model --text file -o dir --sizes 92MB,large
expect 2 2 "excludes" sweep missing-model --text file -o dir --stats a --calibration-text b
expect 1 1 "peers.csv: " sweep missing-model --text file -o dir --peers peers.csv
expect 2 2 "excludes" convert missing-model -o dir --scheme w8a8 --recipe file.json
expect 2 2 "excludes" convert missing-model -o dir --symmetric --asymmetric
expect 2 2 "there are f32" convert missing-model -o dir --scheme w3a3
expect 2 2 "like 1.5%" convert missing-model -o dir --outliers 2
expect 2 2 "OUT_DIR is missing" convert missing-model
expect 1 1 "^ballast: missing-model: " convert missing-model --explain
expect 2 2 "not a regular expression" convert missing-model -o dir --format '(=bf16'
expect 1 1 "file.json: " convert missing-model -o dir --recipe file.json

# Standard output that cannot be written is a failure; that nobody reads any more is not.
if [ -e /dev/full ]; then
  ballast --version >/dev/full 2>err && fail "a full disk goes unnoticed"
  grep -q '^ballast: standard output: ' err || fail "a full disk is not named"
fi
ballast --version >&- 2>err && fail "a closed standard output goes unnoticed"
{
  sleep 1
  ballast --help 2>err
  echo $? >code
} | true
[ "$(cat code)" -eq 0 ] && [ ! -s err ] || fail "a closed pipe is not met quietly"
ballast inspect missing-model 2>&- && fail "a failure without standard error goes unnoticed"

[ $failures -eq 0 ] || { echo "$failures failures" >&2; exit 1; }
