#!/usr/bin/env bash
# Unpacks Debian's arm64 packages that ballast is built from into a folder of the build, for the preset aarch64. Needs
# scripts/setup.sh --dev, which installs the cross compiler and qemu. Needs no root and installs nothing.
#
#   scripts/aarch64/setup.sh [PACKAGE]...   fills build/aarch64-root, also with these; does nothing if they are there
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export LC_ALL=C
source scripts/functions/quietly.sh
source scripts/functions/separate_apt.sh
root=$PWD/build/aarch64-root
packages=(libhwy-dev libpcre2-dev libutf8proc-dev libxxhash-dev libsentencepiece-dev libopenblas-serial-dev
  nlohmann-json3-dev libcli11-dev doctest-dev libboost-dev libssl-dev)
complete=$root/packages

# Packages of earlier calls are kept, unless this machine now reads other releases of Debian.
suites=$(apt_suites)
before=()
if [[ -e $complete ]] && { read -r -a before && read -r suites_before; } <"$complete" && [[ $suites_before != "$suites" ]]; then
  before=()
  rm -rf "$root"
fi
mapfile -t packages < <(printf '%s\n' "${packages[@]}" "$@" "${before[@]}" | awk '!seen[$0]++')
if [[ -e $complete && ${before[*]} == "${packages[*]}" ]]; then
  echo "aarch64/setup: $root is complete"
  exit 0
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
log=$work/log
mkdir -p "$work/debs" "$work/root"
use_separate_apt "$work/apt" arm64 "libhwy* libcli11-dev doctest-dev libboost*"

echo "aarch64/setup: reading the lists of arm64 packages"
update_separate_apt
# The shared libraries of the development packages. The C and C++ libraries come with the cross compiler.
depends=$(apt-cache depends "${packages[@]}")
mapfile -t libraries < <(awk '$1 == "Depends:" && $2 ~ /^lib/ { print $2 }' <<<"$depends" |
  grep -v -e '-dev$' -e '^libc6$' -e '^libgcc-s1$' | sort -u)
# libboost-dev only depends on a version of Boost.
depends=$(apt-cache depends libboost-dev)
mapfile -t -O "${#libraries[@]}" libraries < <(awk '$1 == "Depends:" { print $2 }' <<<"$depends")
libraries+=(libgfortran5) # needed by OpenBLAS; not a dependency of the cross compiler for C++
echo "aarch64/setup: unpacking ${packages[*]} ${libraries[*]}"
cd "$work/debs"
quietly apt-get -q download "${packages[@]}" "${libraries[@]}" || {
  echo "aarch64/setup: apt-get download failed (above)" >&2
  exit 1
}
for package in *.deb; do dpkg-deb -x "$package" "$work/root"; done
printf '%s\n' "${packages[*]}" "$suites" *.deb >"$work/root/packages"
mkdir -p "$(dirname "$root")"
rm -rf "$root"
chmod 755 "$work/root"
mv "$work/root" "$root"
