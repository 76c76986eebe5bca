#!/usr/bin/env bash
# Compiles the kernels for ARM without linking, because SVE forbids what other targets allow: vectors as members or
# captured copies. This takes a minute; scripts/aarch64/test.sh, which also runs them, takes half an hour. Needs
# scripts/setup.sh --dev and a configured release build.
#
#   scripts/aarch64/check.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
[[ $# -eq 0 ]] || {
  echo "usage: scripts/aarch64/check.sh" >&2
  exit 2
}

for tool in aarch64-linux-gnu-g++ pkg-config; do
  command -v "$tool" >/dev/null || {
    echo "aarch64/check: $tool is missing: run scripts/setup.sh --dev" >&2
    exit 1
  }
done
[[ -d build/release/rooms ]] || {
  echo "aarch64/check: no build/release/rooms: run cmake --preset release" >&2
  exit 1
}

# Only Highway's headers come from the host, because they are the same for all processors.
headers=build/arm-headers
mkdir -p "$headers"
ln -sfn "$(pkg-config --variable=includedir libhwy)/hwy" "$headers/hwy"

rooms=build/release/rooms
find kernels -name '*.cc' -not -path '*/onednn/*' -print0 |
  xargs -0 -P "$(nproc)" -n 1 aarch64-linux-gnu-g++ -fsyntax-only -std=c++23 -O1 -fopenmp -Wall -Wextra -Werror \
    -DHWY_SHARED_DEFINE -DTOOLCHAIN_MISS_ASM_HWCAP_H "-DHWY_DISABLED_TARGETS=(HWY_NEON|HWY_SVE2)" \
    -I "$rooms/kernels" -I "$rooms/ballast" -isystem "$headers"
echo "aarch64/check: the kernels are sound for ARM"
