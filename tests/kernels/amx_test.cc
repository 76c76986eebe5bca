#include "kernels/matrix/amx.h"

#include <doctest/doctest.h>

#include <vector>

#include "kernel_cases.h"
#include "kernels/target.h"

namespace ballast::kernels {
namespace {

struct Factors {
  static constexpr std::size_t kAStride = 100, kBStride = 128;

  std::vector<std::uint8_t> a = random_bytes(kAmxRows * kAStride + 1, 1);
  std::vector<std::uint8_t> b = random_bytes(kAmxRows * kBStride, 2);
  std::vector<std::int32_t> sums;  // initial values of the sums

  Factors() {
    for (const std::uint8_t byte : random_bytes(kAmxRows * kAmxRowBytes / 4, 3)) sums.push_back((byte - 128) * 1000);
  }
};

/// Returns the sums of two products, of k columns each: with rows of a, and with rows that start one byte later.
template <class Tiles>
std::vector<std::int32_t> products(std::size_t k) {
  AmxShapes shapes;
  shapes.rows = {kAmxRows, kAmxRows, static_cast<std::uint8_t>(k / 4)};
  shapes.row_bytes = {kAmxRowBytes, static_cast<std::uint16_t>(k), kAmxRowBytes};
  Factors f;
  Tiles tiles;
  tiles.configure(shapes);
  tiles.template load<0>(f.sums.data(), kAmxRowBytes);
  tiles.template load<2>(f.b.data(), Factors::kBStride);
  for (const std::size_t shift : {0, 1}) {
    tiles.template load<1>(f.a.data() + shift, Factors::kAStride);
    tiles.template multiply<0, 1, 2>();
  }
  tiles.template store<0>(f.sums.data(), kAmxRowBytes);
  tiles.release();
  return f.sums;
}

/// Computes the same by the definition.
std::vector<std::int32_t> expected_products(std::size_t k) {
  Factors f;
  for (std::size_t i = 0; i < kAmxRows; ++i) {
    for (std::size_t j = 0; j < kAmxRowBytes / 4; ++j) {
      for (std::size_t at = 0; at < k; ++at) {
        const std::uint8_t* a = f.a.data() + i * Factors::kAStride + at;
        const int weight = f.b[at / 4 * Factors::kBStride + 4 * j + at % 4];
        f.sums[i * kAmxRowBytes / 4 + j] += (static_cast<std::int8_t>(a[0]) + static_cast<std::int8_t>(a[1])) * weight;
      }
    }
  }
  return f.sums;
}

TEST_CASE("emulated tiles multiply as AMX is defined") {
  for (const std::size_t k : {4, 32, 64}) CHECK(products<EmulatedAmxTiles>(k) == expected_products(k));
}

#if defined(__x86_64__)
TEST_CASE("the processor's tiles multiply as AMX is defined" * doctest::skip(amx_unit() != AmxUnit::kProcessor)) {
  for (const std::size_t k : {4, 32, 64}) CHECK(products<AmxTiles>(k) == expected_products(k));
}
#endif

}  // namespace
}  // namespace ballast::kernels
