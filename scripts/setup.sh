#!/usr/bin/env bash
# Installs the packages that ballast is built from, on Debian 12, 13 and later, as root or with sudo. It installs only
# missing packages, so it can be run again at any time. The sources of xgrammar, which has no package, go to the user's
# cache, ~/.cache/ballast.
#
#   scripts/setup.sh         to build ballast and run it
#   scripts/setup.sh --dev   also for scripts/test.sh: clang's formatter, linter and fuzzer, ccache, for ARM the
#                            cross compiler and qemu, and what unpacks the sources of packages
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export LC_ALL=C

# libprotobuf-dev: the pkg-config file of Debian 13's libsentencepiece-dev names it, but its dependencies do not.
packages=(ca-certificates cmake g++ git ninja-build pkg-config python3 python3-pip
  libpcre2-dev libutf8proc-dev libxxhash-dev libsentencepiece-dev libprotobuf-dev libopenblas-serial-dev
  libopenmpi-dev openmpi-bin
  libdnnl-dev libhwy-dev nlohmann-json3-dev libcli11-dev doctest-dev libbenchmark-dev
  libboost-dev libssl-dev)
dev_packages=(ccache clang-19 clang-format-19 clang-tidy-19 libclang-rt-19-dev libomp-19-dev
  g++-aarch64-linux-gnu qemu-user dpkg-dev)
# The versions that cmake/BallastDependencies.cmake requires.
declare -A minimum=([cmake]=3.25 [g++]=4:12 [libdnnl-dev]=3.5 [libhwy-dev]=1.2 [nlohmann-json3-dev]=3.11
  [libcli11-dev]=2.4 [doctest-dev]=2.4.11 [libbenchmark-dev]=1.8 [libboost-dev]=1.81 [libssl-dev]=3.0)

# Debian 12's oneDNN, Highway and Boost are too old. There they come from Debian 13, whose suites are added beside the
# machine's own, for these packages and what they need. 100 is the priority of Debian's backports: nothing else is
# installed from there, and installed packages still get security updates.
old_suite=bookworm
new_suite=trixie
new_priority=100
new_sources=/etc/apt/sources.list.d/ballast-$new_suite.sources
new_preferences=/etc/apt/preferences.d/ballast-$new_suite

# The version that cmake/BallastXgrammar.cmake asks for, from PyPI.
xgrammar_version=0.2.8
xgrammar_hash=8305646fd2b319d6c3003f51a1665e54cbbe9cba1fb636bc41d0b46434ccbb80

say() { printf 'setup: %s\n' "$*"; }
fail() {
  printf 'setup: %s\n' "$@" >&2
  exit 1
}

with_versions() {
  local package
  for package in "$@"; do printf '%s ' "$package${minimum[$package]:+ (>= ${minimum[$package]})}"; done
}

# Prints those of the given packages that are not installed in the required version.
missing_of() {
  local architecture installed package version
  architecture=$(dpkg --print-architecture)
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Architecture} ${Package} ${Version}\n' "$@" 2>/dev/null || true)
  for package in "$@"; do
    version=$(awk -v package="$package" -v architecture="$architecture" '
      $1 == "installed" && ($2 == architecture || $2 == "all") && $3 == package { print $4 }' <<<"$installed")
    if [[ -z $version ]] || dpkg --compare-versions "$version" lt "${minimum[$package]:-0}"; then
      printf '%s\n' "$package"
    fi
  done
}

as_root() {
  if [[ $EUID -eq 0 ]]; then
    "$@"
  elif [[ -t 0 ]]; then
    sudo "$@"
  else
    sudo -n "$@"
  fi
}

apt_get() {
  as_root env DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=a LC_ALL=C apt-get -q -o Acquire::Retries=3 \
    -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 -o Dpkg::Options::=--force-confold "$@"
}

# Runs a command with its output in $log, shown only if it fails.
quietly() {
  "$@" >"$log" 2>&1 || {
    local status=$?
    tail -n 40 "$log" >&2
    return "$status"
  }
}

update_package_lists() {
  # A failing third-party source must not stop the rest; missing packages cause an error at the installation.
  quietly apt_get update || say "apt-get update reported errors (above); continuing with the existing lists"
}

candidate_of() { apt-cache policy "$1" | awk '$1 == "Candidate:" { print $2 }'; }

# Prints those of the given packages for which the machine's own sources offer too old a version or none.
too_old_of() {
  local package candidate
  for package in "$@"; do
    candidate=$(candidate_of "$package")
    if [[ -z $candidate || $candidate == "(none)" ]] ||
      dpkg --compare-versions "$candidate" lt "${minimum[$package]:-0}"; then
      printf '%s\n' "$package"
    fi
  done
}

# Prints "URI CODENAME" for every Debian 12 suite that this machine reads, for any format of its sources.
old_suites() {
  # shellcheck disable=SC2016
  apt-get indextargets --format '$(ORIGIN)|$(CODENAME)|$(REPO_URI)|$(COMPONENT)' 'Created-By: Packages' |
    awk -F '|' -v suite="$old_suite" '
      $1 == "Debian" && $4 == "main" && ($2 == suite || $2 == suite "-updates" || $2 == suite "-security") {
        print $3, $2
      }' | sort -u
}

# Prints the "Signed-By: ..." field of a URI in the machine's sources; nothing if they leave the keys to apt.
signing_key_of() {
  local uri=${1%/} file
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [[ -e $file ]] || continue
    awk -v uri="$uri" '
      /^deb / && index($0, uri) && match($0, /signed-by=[^] ]+/) {
        print "Signed-By: " substr($0, RSTART + 10, RLENGTH - 10)
        print ""
      }' "$file"
  done >"$keys"
  # Stanzas end at an empty line; a key written out in one spans the indented lines that follow its field.
  for file in /etc/apt/sources.list.d/*.sources; do
    [[ -e $file ]] || continue
    awk -v uri="$uri" -v RS= -v FS='\n' '
      index($0, uri) {
        inside = 0
        for (i = 1; i <= NF; i++) {
          if ($i !~ /^[ \t]/) inside = tolower($i) ~ /^signed-by:/
          if (inside) print $i
        }
        print ""
      }' "$file"
  done >>"$keys"
  awk -v RS= 'NR == 1' "$keys"
}

add_new_suite() {
  local suites uri codename
  suites=$(old_suites)
  [[ -n $suites ]] || fail "the package sources of this machine offer too old versions, or none, of:" \
    "  $(with_versions "$@")" "Debian 13 has them; on other systems install them by hand."
  say "adding Debian 13 ($new_suite) to this machine's Debian 12 sources, at priority $new_priority:"
  say "  $new_sources, $new_preferences; its libc6 comes with the packages"
  printf 'Package: *\nPin: release n=%s*\nPin-Priority: %s\n' "$new_suite" "$new_priority" |
    as_root tee "$new_preferences" >/dev/null
  while read -r uri codename; do
    printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main\n' "$uri" "${codename/$old_suite/$new_suite}"
    signing_key_of "$uri"
    printf '\n'
  done <<<"$suites" | as_root tee "$new_sources" >/dev/null
}

# Unpacks xgrammar's sources into the user's cache, unless they are there.
fetch_xgrammar() {
  local cache=${XDG_CACHE_HOME:-$HOME/.cache}/ballast work archive
  local folder=$cache/xgrammar-$xgrammar_version
  if [[ -e $folder/include/xgrammar/xgrammar.h ]]; then return; fi
  say "fetching xgrammar $xgrammar_version"
  mkdir -p "$cache"
  work=$(mktemp -d "$cache/fetch.XXXXXX")
  archive=$work/xgrammar-$xgrammar_version.tar.gz
  # pip builds the archive's metadata in an environment of its own.
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --no-binary xgrammar --dest "$work" \
    "xgrammar==$xgrammar_version" >"$work/log" 2>&1 || {
    tail -n 20 "$work/log" >&2
    rm -rf "$work"
    fail "xgrammar could not be fetched (above); -DBALLAST_XGRAMMAR=OFF builds without it"
  }
  if ! sha256sum --check --status <<<"$xgrammar_hash  $archive"; then
    rm -rf "$work"
    fail "the archive of xgrammar $xgrammar_version is not the expected one"
  fi
  tar --extract --gzip --file "$archive" --directory "$work" --no-same-owner
  # Its tests and its page are not needed.
  rm -rf "$work/xgrammar-$xgrammar_version"/{site,web,tests,docs,examples,python,assets,3rdparty/googletest,3rdparty/cpptrace}
  mv -T "$work/xgrammar-$xgrammar_version" "$folder" 2>/dev/null || [[ -e $folder/include/xgrammar/xgrammar.h ]]
  rm -rf "$work"
}

wanted=("${packages[@]}")
case "${1:-}" in
  "") ;;
  --dev) wanted+=("${dev_packages[@]}") ;;
  *)
    echo "usage: scripts/setup.sh [--dev]" >&2
    exit 2
    ;;
esac

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  fail "this is not Debian. ballast needs, under Debian's names:" "  $(with_versions "${wanted[@]}")"
fi
mapfile -t missing < <(missing_of "${wanted[@]}")
if [[ ${#missing[@]} -eq 0 ]]; then
  fetch_xgrammar
  say "everything is installed"
  exit 0
fi
say "packages to install: ${missing[*]}"
if [[ $EUID -ne 0 ]]; then
  command -v sudo >/dev/null || fail "installing needs root, and there is no sudo: run scripts/setup.sh as root once"
  [[ -t 0 ]] || sudo -n true 2>/dev/null ||
    fail "sudo asks for a password and there is no terminal: run scripts/setup.sh as root or in a terminal once"
fi

log=$(mktemp)
keys=$(mktemp)
trap 'rm -f "$log" "$keys"' EXIT
update_package_lists
mapfile -t too_old < <(too_old_of "${missing[@]}")
if [[ ${#too_old[@]} -gt 0 && ! -e $new_sources ]]; then
  add_new_suite "${too_old[@]}"
  update_package_lists
fi

install() {
  say "installing $*"
  quietly apt_get install -y --no-install-recommends "$@" || fail "apt-get install failed (above)"
}

specs=()
for package in "${missing[@]}"; do
  [[ " ${too_old[*]-} " == *" $package "* ]] || specs+=("$package")
  # clang's runtime needs the 32-bit libc6, which must be as new as the libc6 of Debian 13's packages.
  if [[ $package == libclang-rt-* && $(dpkg --print-architecture) == amd64 ]] &&
    dpkg --compare-versions "$(dpkg-query -W -f '${Version}' libc6)" gt "$(candidate_of libc6-i386)"; then
    specs+=("libc6-i386/$new_suite")
  fi
done
[[ ${#specs[@]} -eq 0 ]] || install "${specs[@]}"
[[ ${#too_old[@]} -eq 0 ]] || install "${too_old[@]}" -t "$new_suite*"

mapfile -t missing < <(missing_of "${wanted[@]}")
[[ ${#missing[@]} -eq 0 ]] || fail "still missing after the install: $(with_versions "${missing[@]}")"
fetch_xgrammar
say "done"
