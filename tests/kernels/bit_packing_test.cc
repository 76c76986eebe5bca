#include "kernels/matrix/bit_packing.h"

#include <doctest/doctest.h>

#include <vector>

#include "ballast/quantized.h"

namespace ballast::kernels {
namespace {

TEST_CASE("unpacking restores codes of every width") {
  for (const int bits : {2, 3, 4, 5, 6, 7, 8}) {
    for (const std::size_t count : {0, 1, 7, 8, 9, 31, 32, 100}) {
      std::vector<std::uint8_t> codes(count);
      for (std::size_t i = 0; i < count; ++i) codes[i] = static_cast<std::uint8_t>((i * 37 + 11) % (1U << bits));
      std::vector<std::uint8_t> packed(packed_row_bytes(count, bits), 255);
      pack_codes(codes, bits, packed.data());
      std::vector<std::uint8_t> unpacked(count);
      unpack_codes(packed.data(), bits, unpacked);
      CHECK(unpacked == codes);
    }
  }
}

TEST_CASE("the first code has the lowest bits, and codes cross bytes") {
  const std::vector<std::uint8_t> codes = {1, 2, 3};
  std::vector<std::uint8_t> packed(2);
  pack_codes(codes, 5, packed.data());
  CHECK(packed == std::vector<std::uint8_t>{0x41, 0x0C});  // 00011 00010 00001
  pack_codes(std::vector<std::uint8_t>{0xA, 0xB}, 4, packed.data());
  CHECK(packed[0] == 0xBA);
}

}  // namespace
}  // namespace ballast::kernels
