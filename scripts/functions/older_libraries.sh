# Functions for the C library that a wheel links to. To be sourced, with the platform of the wheel in $platform.

# Prints the version of the platform's C library: "2.36" for manylinux_2_36_x86_64.
platform_glibc() { sed -E 's/^manylinux_([0-9]+)_([0-9]+)_.*/\1.\2/' <<<"$platform"; }

# Succeeds if this machine's C library is newer than the platform's.
has_newer_glibc() {
  local own wanted
  own=$(getconf GNU_LIBC_VERSION)
  own=${own#glibc }
  wanted=$(platform_glibc)
  [[ $own != "$wanted" && $(printf '%s\n' "$own" "$wanted" | sort -V | tail -n 1) == "$own" ]]
}

# Succeeds if this machine's package sources have Debian 12. The whole output of apt-cache is read: a reader that ends
# at the first match would end it by SIGPIPE, which pipefail treats as a failure.
offers_debian_12() {
  local versions
  versions=$(apt-cache madison libc6-dev 2>/dev/null) || return 1
  [[ $versions == *bookworm* ]]
}

# Fails with advice unless programs built with $CXXFLAGS and $LDFLAGS run on the platform.
check_linked_glibc() {
  local work needed wanted
  work=$(mktemp -d)
  wanted=$(platform_glibc)
  cat >"$work/probe.cc" <<'END'
#include <cstdlib>
#include <string>
extern "C" double probe(const char* text) { return std::strtod(text, nullptr) + std::stol(text); }
END
  # shellcheck disable=SC2086
  if ! ${CXX:-c++} ${CXXFLAGS:-} -O1 -fPIC -shared "$work/probe.cc" -o "$work/probe.so" ${LDFLAGS:-} >"$work/log" 2>&1; then
    cat "$work/log" >&2
    echo "wheel: the compiler does not work with the libraries of $platform (above)" >&2
    rm -rf "$work"
    return 1
  fi
  needed=$(objdump -T "$work/probe.so" | sed -nE 's/.*GLIBC_([0-9.]+).*/\1/p' | sort -V | tail -n 1)
  rm -rf "$work"
  if [[ -n $needed && $(printf '%s\n' "$needed" "$wanted" | sort -V | tail -n 1) != "$wanted" ]]; then
    echo "wheel: programs built here need glibc $needed, and $platform has $wanted: build on an older system, or set the" \
      "platform of this one, PLATFORM=manylinux_${needed/./_}_$(uname -m)" >&2
    return 1
  fi
}
