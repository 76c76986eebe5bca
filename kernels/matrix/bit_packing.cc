#include "kernels/matrix/bit_packing.h"

#include <algorithm>
#include <cstring>

#include "ballast/quantized.h"

namespace ballast::kernels {
namespace {

/// A run of this many codes fills whole bytes for every number of bits.
constexpr std::size_t kRun = 8;

template <int kBits>
void unpack_run(const std::uint8_t* packed, std::size_t bytes, std::size_t count, std::uint8_t* codes) {
  std::uint64_t word = 0;
  std::memcpy(&word, packed, bytes);
  for (std::size_t i = 0; i < count; ++i) {
    codes[i] = static_cast<std::uint8_t>((word >> (kBits * i)) & ((1U << kBits) - 1));
  }
}

template <int kBits>
void unpack(const std::uint8_t* packed, std::span<std::uint8_t> codes) {
  std::size_t i = 0;
  for (; i + kRun <= codes.size(); i += kRun) unpack_run<kBits>(packed + i / kRun * kBits, kBits, kRun, &codes[i]);
  const std::size_t left = codes.size() - i;
  if (left != 0) unpack_run<kBits>(packed + i / kRun * kBits, packed_row_bytes(left, kBits), left, &codes[i]);
}

}  // namespace

void pack_codes(std::span<const std::uint8_t> codes, int bits, std::uint8_t* packed) {
  for (std::size_t i = 0; i < codes.size(); i += kRun) {
    const std::size_t count = std::min(kRun, codes.size() - i);
    std::uint64_t word = 0;
    for (std::size_t k = 0; k < count; ++k) word |= std::uint64_t{codes[i + k]} << (static_cast<std::size_t>(bits) * k);
    std::memcpy(packed + i / kRun * static_cast<std::size_t>(bits), &word, packed_row_bytes(count, bits));
  }
}

void unpack_codes(const std::uint8_t* packed, int bits, std::span<std::uint8_t> codes) {
  switch (bits) {
    case 2:
      return unpack<2>(packed, codes);
    case 3:
      return unpack<3>(packed, codes);
    case 4:
      return unpack<4>(packed, codes);
    case 5:
      return unpack<5>(packed, codes);
    case 6:
      return unpack<6>(packed, codes);
    case 7:
      return unpack<7>(packed, codes);
    default:
      std::copy_n(packed, codes.size(), codes.data());
  }
}

}  // namespace ballast::kernels
