#!/usr/bin/env bash
# Makes a system root in the build folder in which ballast is compiled for any Linux with the C library 2.28 or later:
# RHEL 8, Debian 10, Ubuntu 20.04, Amazon Linux 2023 and all newer ones. cmake/portable.cmake uses it. Needs
# scripts/setup.sh --dev, and no root.
#
#   scripts/portable/setup.sh [x86_64|aarch64]   fills build/portable/ARCHITECTURE; does nothing if it is complete
#
# - The compiler is this machine's, so the kernels are those of every other build.
# - Headers and static libraries are Debian 12's. Objects in archives carry no versions of the C library's symbols, so
#   they link to an older one.
# - Highway, SentencePiece and the runtime of OpenMP, which Debian has only as shared libraries, are compiled from
#   Debian's sources.
# - PyPI's ziglang knows the symbols of every C library, and makes one without code to link to: that of 2.28.
# - older_glibc.c has the few functions that Debian 12's libstdc++ needs and 2.28 lacks, fortran.c those of LAPACK.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export LC_ALL=C
source scripts/functions/made_from.sh
source scripts/functions/quietly.sh
source scripts/functions/separate_apt.sh
glibc=2.28
zig_version=0.17.1

architecture=${1:-$(uname -m)}
case $architecture in
  x86_64) debian=amd64 ;;
  aarch64) debian=arm64 ;;
  *)
    echo "usage: scripts/portable/setup.sh [x86_64|aarch64]" >&2
    exit 2
    ;;
esac
triple=$architecture-linux-gnu
root=$PWD/build/portable/$architecture
packages=(libc6 libc6-dev linux-libc-dev libcrypt1 libcrypt-dev libgcc-s1 libstdc++-12-dev
  libpcre2-dev libutf8proc-dev libxxhash-dev libssl-dev liblapack-dev libblas-dev nlohmann-json3-dev libcli11-dev
  libdnnl-dev libpython3.11-dev libpython3.13-dev)
newer=(libcli11-dev 'libboost*' 'libdnnl*' 'libpython3.13*')
release=bookworm  # whose compiler this is

fail() {
  printf 'portable/setup: %s\n' "$@" >&2
  exit 1
}
say() { echo "portable/setup: $*"; }

for tool in apt-get cmake ninja make dpkg-source patch xz python3 "$triple-g++"; do
  command -v "$tool" >/dev/null || fail "$tool is missing: run scripts/setup.sh --dev"
done
suites=$(apt_suites)
[[ $suites == *" $release "* ]] || fail "this machine's package sources have no Debian 12, with which this is made"
compiler=$("$triple-g++" --version)
identity="$PWD $suites ${compiler%%$'\n'*} $(cat scripts/portable/* cmake/portable.cmake | sha256sum)"
if is_made_from "$root" "$identity"; then
  say "$root is complete"
  exit 0
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
log=$work/log

use_separate_apt "$work/apt" "$debian" "${newer[*]}"
add_package_sources "$work/apt"
say "reading the lists of $debian packages"
update_separate_apt
# libboost-dev and libdnnl-dev depend on a version of themselves. Boost has only headers here, and oneDNN is opened
# when it is there.
depends=$(apt-cache depends libboost-dev libdnnl-dev)
mapfile -t -O "${#packages[@]}" packages < <(awk '$1 == "Depends:" && /libboost|libdnnl/ { print $2 }' <<<"$depends")
say "unpacking ${packages[*]}"
mkdir -p "$work/debs" "$work/sources" "$root"
(cd "$work/debs" && quietly apt-get -q download "${packages[@]}") || fail "apt-get download failed (above)"
for package in "$work"/debs/*.deb; do dpkg-deb -x "$package" "$root"; done
libraries=$root/usr/lib/$triple
# The cross compiler looks for its headers here.
ln -s . "$root/usr/$triple"
# Links to shared libraries would be found before the archives.
find "$libraries" -maxdepth 1 -name 'lib*.so' -not -name 'libdnnl*' -delete

say "making the C library $glibc to link to"
make_environment "$work/zig" python3 "ziglang==$zig_version" || fail "PyPI's ziglang could not be installed (above)"
echo 'int main(void) { return 0; }' >"$work/main.c"
ZIG_GLOBAL_CACHE_DIR=$work/zig-cache ZIG_LOCAL_CACHE_DIR=$work/zig-cache quietly "$work/zig/bin/python" -m ziglang cc \
  -target "$architecture-linux-gnu.$glibc" -pie "$work/main.c" -lm -lpthread -ldl -lrt -o "$work/main" ||
  fail "zig failed (above)"
# These replace Debian's.
rm -f "$libraries"/{libc,libm,libpthread,libdl,librt,libutil,libresolv}.a "$libraries"/*crt1.o
find "$work/zig-cache" \( -name 'lib*.so.*' -o -name libc_nonshared.a -o -name Scrt1.o \) \
  -exec cp -f {} "$libraries" \;
[[ -e $libraries/libc.so.6 && -e $libraries/Scrt1.o ]] || fail "zig $zig_version made no C library where it is expected"
for library in m:6 pthread:0 dl:2 rt:1; do
  ln -s "lib${library%:*}.so.${library#*:}" "$libraries/lib${library%:*}.so"
done

# Compiles a file of this folder into the libraries.
compile() {
  quietly "$triple-gcc" --sysroot="$root" -O2 -fPIC -Wall -Wextra -Werror -ffile-prefix-map="$PWD/=" -c \
    "scripts/portable/$1.c" -o "$libraries/$1.o"
}
compile older_glibc
"$triple-ar" rcs "$libraries/libolder_glibc.a" "$libraries/older_glibc.o"

# Writes a linker script that joins libraries of the root. The linker takes their paths as those in the root; plain names
# it would also find on this machine.
join() {
  local library=$1 part
  shift
  echo "GROUP ("
  for part in "$@"; do
    [[ -e $libraries/$part ]] || fail "$library needs $libraries/$part"
    echo "/usr/lib/$triple/$part"
  done
  echo ")"
}
join libc libc.so.6 libc_nonshared.a libolder_glibc.a lib{pthread.so.0,dl.so.2,rt.so.1,m.so.6} \
  "$(basename "$(echo "$libraries"/libld.so.*)")" >"$libraries/libc.so"
# LAPACK and BLAS are written in Fortran.
compile fortran
join libopenblas fortran.o liblapack_pic.a blas/libblas.a >"$libraries/libopenblas.a"

# Downloads the sources of a Debian package into the working folder. apt checks them.
fetch_source() {
  (cd "$work/sources" && quietly apt-get -q source --download-only "$@") || fail "apt-get source $* failed (above)"
}
say "compiling the runtime of OpenMP"
gcc_version=$("$triple-gcc" -dumpfullversion)
fetch_source "gcc-${gcc_version%%.*}/$release"
(
  cd "$work/sources"
  archive=$(tar -tzf gcc-*.orig.tar.gz | grep -E '/gcc-[0-9.]+-dfsg\.tar\.xz$')
  name=$(basename "$archive" -dfsg.tar.xz)
  tar -xzOf gcc-*.orig.tar.gz "$archive" | tar -xJ "$name"/{libgomp,config,include,libgcc,gcc/BASE-VER,install-sh} \
    "$name"/{config.sub,config.guess,config-ml.in,ltmain.sh,depcomp,compile,missing}
  mkdir openmp
  cd openmp
  quietly "../$name/libgomp/configure" --host="$triple" --disable-multilib --disable-shared --with-pic \
    CC="$triple-gcc --sysroot=$root -B$libraries -L$libraries" CFLAGS="-O2 -fPIC -ffile-prefix-map=$work/=" &&
    # Variables of threads of this model would place those of the whole Python module where a process that has started
    # has no room.
    sed -i 's/-ftls-model=initial-exec -DUSING_INITIAL_EXEC_TLS//' Makefile &&
    quietly make -j "$(nproc)" libgomp.la
) || fail "OpenMP's runtime could not be built (above)"
cp "$work/sources/openmp/.libs/libgomp.a" "$libraries"

# Configures the sources in $1 with the options that follow.
configure() {
  local source=$1
  shift
  CFLAGS=-ffile-prefix-map=$work/= CXXFLAGS=-ffile-prefix-map=$work/= quietly cmake -S "$source" -B "$source/build" \
    -G Ninja -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/portable.cmake" -DBALLAST_PORTABLE_ARCHITECTURE="$architecture" \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_POLICY_VERSION_MINIMUM=3.5 -DCMAKE_INSTALL_PREFIX=/usr \
    -DCMAKE_INSTALL_LIBDIR="lib/$triple" -DBUILD_SHARED_LIBS=OFF "$@"
}
say "compiling Highway"
fetch_source highway
tar -xzf "$work"/sources/highway_*.orig.tar.gz -C "$work/sources"
highway=$(echo "$work"/sources/highway-*/)
configure "$highway" -DHWY_ENABLE_TESTS=OFF -DHWY_ENABLE_EXAMPLES=OFF -DHWY_ENABLE_CONTRIB=OFF &&
  quietly cmake --build "$highway/build" && DESTDIR=$root quietly cmake --install "$highway/build" ||
  fail "Highway could not be built (above)"
# Its headers of mathematical functions belong to a library of sorting that is not needed.
(cd "$highway" && find hwy/contrib -name '*.h' -exec cp --parents {} "$root/usr/include/" \;)

say "compiling SentencePiece"
fetch_source "sentencepiece/$release"
(cd "$work/sources" && quietly dpkg-source --no-check -x sentencepiece_*.dsc sentencepiece) ||
  fail "SentencePiece's sources could not be unpacked (above)"
sentencepiece=$work/sources/sentencepiece
# Debian wants no archive of it.
patch --quiet --reverse --strip 1 --directory "$sentencepiece" <"$sentencepiece/debian/patches/disable-static-library.patch"
configure "$sentencepiece" -DSPM_ENABLE_SHARED=OFF -DSPM_USE_BUILTIN_PROTOBUF=ON -DSPM_ENABLE_TCMALLOC=OFF &&
  quietly cmake --build "$sentencepiece/build" --target sentencepiece-static ||
  fail "SentencePiece could not be built (above)"
cp "$sentencepiece/build/src/libsentencepiece.a" "$libraries"
cp "$sentencepiece/src/sentencepiece_processor.h" "$root/usr/include"
sed 's/ -lsentencepiece_train *//' "$sentencepiece/build/sentencepiece.pc" >"$libraries/pkgconfig/sentencepiece.pc"

mark_made_from "$root" "$identity"
say "$root is complete: $(du -sm "$root" | cut -f1) MB"
