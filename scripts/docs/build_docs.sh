#!/usr/bin/env bash
# Builds the site of the documentation into build/docs/site. Needs a release build, whose --help is the reference of the
# commands, doxygen, and at the first time PyPI, from which mkdocs-material is installed into build/docs/environment;
# later nothing is fetched. Broken links, and pages that load resources from other sites, are errors.
#
#   scripts/docs/build_docs.sh
#   PROGRAM=/usr/bin/ballast scripts/docs/build_docs.sh     the commands of that program
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source scripts/functions/made_from.sh

program=$(realpath "${PROGRAM:-build/release/ballast}")
docs=$PWD/build/docs
environment=$docs/environment
[[ -x $program ]] || {
  echo "docs: $program is missing: cmake --preset release && cmake --build --preset release" >&2
  exit 1
}
command -v doxygen >/dev/null || {
  echo "docs: doxygen is missing: install the package doxygen" >&2
  exit 1
}
make_environment "$environment" python3 'mkdocs>=1.6,<2' 'mkdocs-material>=9.6,<10' || {
  echo "docs: mkdocs could not be installed from PyPI (above)" >&2
  exit 1
}

rm -rf "$docs/cpp" "$docs/site"
mkdir -p "$docs/cpp"
doxygen - <<END
PROJECT_NAME = ballast
PROJECT_NUMBER = $("$program" --version | awk 'NR == 1 { print $2 }')
INPUT = include/ballast
INPUT_FILTER = "awk -f scripts/docs/header_comment.awk"
FILTER_SOURCE_FILES = NO
FULL_PATH_NAMES = NO
OUTPUT_DIRECTORY = $docs/cpp
GENERATE_LATEX = NO
EXTRACT_ALL = YES
HIDE_UNDOC_RELATIONS = YES
JAVADOC_AUTOBRIEF = YES
BUILTIN_STL_SUPPORT = YES
HAVE_DOT = NO
QUIET = YES
WARN_IF_UNDOCUMENTED = NO
WARN_AS_ERROR = FAIL_ON_WARNINGS
END

export BALLAST_PROGRAM=$program BALLAST_CPP=$docs/cpp/html NO_MKDOCS_2_WARNING=1
"$environment/bin/python" -m mkdocs build --strict --quiet --site-dir "$docs/site"
python3 scripts/docs/check_links.py "$docs/site"
echo "docs: build/docs/site/index.html"
