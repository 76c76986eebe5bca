# apt with its state in a separate folder, as if on an empty machine of any architecture with this machine's package
# sources: it needs no root and installs nothing. To be sourced.

# Lets apt use the folder $1 as a machine of the architecture $2, and prefer Debian 13's packages that match the pattern
# $3, in which Debian 12's are too old: scripts/setup.sh added that suite at a priority at which nothing is installed.
use_separate_apt() {
  local work=$1 architecture=$2 newer=$3
  mkdir -p "$work"/lists/partial "$work"/cache/archives/partial
  : >"$work/status"
  printf 'Package: %s\nPin: release n=trixie\nPin-Priority: 990\n' "$newer" >"$work/preferences"
  cat >"$work/apt.conf" <<EOF
APT::Architecture "$architecture";
APT::Architectures { "$architecture"; };
APT::Sandbox::User "";
Acquire::Languages "none";
Acquire::Retries "3";
Dir::State "$work";
Dir::State::status "$work/status";
Dir::Cache "$work/cache";
Dir::Etc::preferences "$work/preferences";
EOF
  export APT_CONFIG=$work/apt.conf
}

# Lets the apt of use_separate_apt in the folder $1 read the sources of packages, too.
add_package_sources() {
  local work=$1 file
  mkdir "$work/sources.list.d"
  for file in /etc/apt/sources.list.d/*.sources; do
    [[ -e $file ]] || continue
    sed -E 's/^Types:.*/Types: deb deb-src/' "$file" >"$work/sources.list.d/${file##*/}"
  done
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [[ -e $file ]] || continue
    sed -nE 's/^deb([[:space:]].*)/deb\1\ndeb-src\1/p' "$file" >"$work/sources.list.d/${file##*/}.list"
  done
  cat >>"$work/apt.conf" <<EOF
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "$work/sources.list.d";
EOF
}

# Reads the lists of packages. A failing third-party source must not stop the rest; a missing package causes an error
# when it is wanted. Needs quietly.sh.
update_separate_apt() {
  quietly apt-get -q update || echo "apt-get update reported errors (above); going on with the lists there are" >&2
}

# Prints the Debian suites that this machine reads, which decide what apt finds.
apt_suites() {
  # shellcheck disable=SC2016
  apt-get indextargets --format '$(ORIGIN) $(CODENAME) $(COMPONENT)' 'Created-By: Packages' | sort -u | tr '\n' ';'
}
