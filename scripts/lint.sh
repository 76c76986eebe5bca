#!/usr/bin/env bash
# Runs clang-tidy with .clang-tidy on the files of the build. A file takes 5-10 s, so by default only changed files are
# checked: uncommitted changes, or those since the branch left origin's main, or those of the last commit.
#
#   scripts/lint.sh            the files that changed
#   scripts/lint.sh --all      every file
#   scripts/lint.sh FILE...    these
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

database=build/files/compile_commands.json
cmake --preset files --log-level=WARNING >/dev/null

changed_files() {
  local base
  base=$(git merge-base HEAD origin/main 2>/dev/null || true)
  if [[ -z $base || $base == $(git rev-parse HEAD) ]]; then
    base=$(git rev-parse --verify --quiet HEAD~1 || git hash-object -t tree /dev/null)
  fi
  git diff --name-only --diff-filter=d "$base" -- '*.cc'
  git ls-files --others --exclude-standard -- '*.cc'
}

case "${1:-}" in
  "") mapfile -t files < <(changed_files | sort -u) ;;
  --all) mapfile -t files < <(git ls-files '*.cc') ;;
  *) files=("$@") ;;
esac
# Only compiled files have flags.
linted=()
for file in "${files[@]}"; do
  if grep -qF "\"$PWD/$file\"" "$database"; then linted+=("$file"); fi
done
echo "lint: ${#linted[@]} files"
[[ ${#linted[@]} -gt 0 ]] || exit 0

# clang does not know g++'s own warning options; deprecated functions in g++'s library are not our code; one SIMD target
# is enough, because all of them share their source.
printf '%s\0' "${linted[@]}" | xargs -0 -n 1 -P "$(nproc)" clang-tidy-19 --quiet -p "$(dirname "$database")" \
  --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-deprecated-declarations \
  --extra-arg=-DHWY_COMPILE_ONLY_STATIC 2> >(grep -v 'warnings\? generated' >&2 || true)
