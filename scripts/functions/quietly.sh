# To be sourced, with the path of a log in $log.

# Runs a command with its output in the log, shown only if it fails.
quietly() {
  "$@" >"$log" 2>&1 || {
    tail -n 30 "$log" >&2
    return 1
  }
}
