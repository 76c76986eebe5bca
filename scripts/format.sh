#!/usr/bin/env bash
# Formats every C++ file of the tree with .clang-format. Releases of clang-format differ, so this uses 19, which Debian
# 12 and 13 both have.
#
#   scripts/format.sh           changes the files
#   scripts/format.sh --check   changes nothing, lists unformatted files and fails
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

command -v clang-format-19 >/dev/null || {
  echo "format: clang-format-19 is missing: run scripts/setup.sh --dev" >&2
  exit 1
}
mapfile -t -d '' files < <(git ls-files -z --cached --others --exclude-standard '*.cc' '*.h')
existing=()
for file in "${files[@]}"; do [[ ! -e $file ]] || existing+=("$file"); done
case "${1:-}" in
  "") clang-format-19 -i "${existing[@]}" ;;
  --check)
    if ! said=$(clang-format-19 --dry-run -Werror -ferror-limit=1 "${existing[@]}" 2>&1); then
      unformatted=$(grep -F 'error:' <<<"$said" | cut -d: -f1,2 | sort -u) || unformatted=$said
      printf 'format: not formatted, run scripts/format.sh:\n%s\n' "$unformatted" >&2
      exit 1
    fi
    echo "format: ${#existing[@]} files are formatted"
    ;;
  *)
    echo "usage: scripts/format.sh [--check]" >&2
    exit 2
    ;;
esac
