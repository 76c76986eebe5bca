#!/usr/bin/env bash
# Builds the wheel as Debian 12 has compilers and libraries, into dist/: manylinux_2_36, for every system whose C library
# is not older. scripts/build_wheel.sh on a later Debian links to that one's C library, and so it does on a Debian 12 that
# scripts/setup.sh has given Debian 13's. The root file system it is built in stays in build/debian12.
#
#   scripts/packages/build_wheel_debian12.sh     as root, on Debian 13 or later, with the package debootstrap
#
# Without oneDNN, whose package needs a newer C library: floats are multiplied by ballast's own tiles.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

suite=bookworm
root=$PWD/build/debian12
# Of Debian 13, as this machine has them: headers, and a library that needs no newer C library.
borrowed=(libhwy-dev libhwy1t64 libcli11-dev)

fail() {
  echo "wheel: $1" >&2
  exit 1
}
[[ $EUID -eq 0 ]] || fail "a root file system is made by root alone"
command -v debootstrap >/dev/null || fail "debootstrap is missing: install the package of that name"

if [[ ! -e $root/made ]]; then
  # shellcheck disable=SC2016
  mirror=$(apt-get indextargets --format '$(ORIGIN)|$(CODENAME)|$(REPO_URI)|$(COMPONENT)' 'Created-By: Packages' |
    awk -F '|' '$1 == "Debian" && $4 == "main" && $2 !~ /-/ { print $3; exit }')
  [[ -n $mirror ]] || fail "no source of this machine is a Debian"
  rm -rf "$root"
  debootstrap --variant=minbase --include=ca-certificates,git,g++,ninja-build,pkg-config,python3,python3-dev,python3-venv,\
libpcre2-dev,libutf8proc-dev,libxxhash-dev,libsentencepiece-dev,libprotobuf-dev,libopenblas-serial-dev,nlohmann-json3-dev,\
libssl-dev "$suite" "$root" "$mirror"
  mapfile -t boost < <(apt-cache depends libboost-dev | awk '$1 == "Depends:" { print $2 }')
  mkdir -p "$root/borrowed"
  (cd "$root/borrowed" && apt-get download --quiet "${borrowed[@]}" "${boost[@]}")
  for package in "$root"/borrowed/*.deb; do dpkg -x "$package" "$root"; done
  # As this machine reaches package indexes.
  cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
  for file in /etc/resolv.conf /etc/pip.conf; do
    if [[ -e $file ]]; then cp -L "$file" "$root/etc/"; fi
  done
  chroot "$root" ldconfig
  chroot "$root" python3 -m venv /tools
  chroot "$root" /tools/bin/pip install --quiet 'cmake>=3.26,<4'
  chroot "$root" apt-get update --quiet
  touch "$root/made"
fi

mkdir -p "$root/ballast"
git archive HEAD | tar -x -C "$root/ballast"
rm -rf "$root/ballast/dist"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) PATH=/tools/bin:/usr/sbin:/usr/bin:/sbin:/bin \
  SKBUILD_CMAKE_DEFINE=BALLAST_ONEDNN=OFF chroot "$root" /ballast/scripts/build_wheel.sh python3
mkdir -p dist
cp "$root"/ballast/dist/*.whl dist/
