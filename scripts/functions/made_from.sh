# Functions for folders that are made once and reused; each records what it was made from. To be sourced.

# Succeeds when the folder $1 is complete and was made from $2, any text that names it: versions, packages, options.
# Otherwise removes it, so that no files of an earlier version are left in it.
is_made_from() {
  if [[ -e $1/made-from && $(<"$1/made-from") == "$2" ]]; then return; fi
  rm -rf "$1"
  return 1
}

# Marks the folder $1 as complete and made from $2. To be called last.
mark_made_from() { printf '%s\n' "$2" >"$1/made-from"; }

# A Python environment at $1 of the Python $2, with the packages that follow.
make_environment() {
  local environment=$1 python=$2 base
  shift 2
  base=$("$python" -c 'import sys; print(sys.version, sys.base_prefix)') || return 1
  # Its scripts contain their path, so a moved tree needs a new environment.
  is_made_from "$environment" "$PWD: $base: $*" && return
  "$python" -m venv "$environment" &&
    "$environment/bin/python" -m pip install --quiet --disable-pip-version-check "$@" &&
    mark_made_from "$environment" "$PWD: $base: $*"
}
