#include "kernels/attention/key_value_rows.h"

#include "kernel_cases.h"

namespace ballast::kernels {
namespace {

constexpr std::size_t kHeads = 2;
constexpr std::size_t kCapacity = 7;

TEST_CASE("rows are stored at their positions, around the ring's end, and leave the others alone") {
  const std::size_t size = 5, count = 4, first = 19, stride = 13;  // slots 5, 6, 0, 1
  const std::vector<float> src = random_floats(count * stride, 1);
  for_every_target([&] {
    for (const FloatType type : {FloatType::kF32, FloatType::kF16, FloatType::kBF16}) {
      std::vector<float> expected(kHeads * kCapacity * size, 8.0F);
      EncodedFloats rows(expected, type);
      store_rows(
          src.data(), stride, count, first,
          {.data = rows.bytes.data(), .type = cache_type(type), .heads = kHeads, .capacity = kCapacity, .size = size});
      for (std::size_t h = 0; h < kHeads; ++h) {
        for (std::size_t i = 0; i < count; ++i) {
          for (std::size_t c = 0; c < size; ++c) {
            expected[(h * kCapacity + (first + i) % kCapacity) * size + c] = src[i * stride + h * size + c];
          }
        }
      }
      CHECK(rows.bytes == EncodedFloats(expected, type).bytes);
    }
  });
}

TEST_CASE(
    "INT8 rows have the reference's codes and scales, one scale per token and head, keys rotated first, for any number "
    "of threads") {
  for (const std::size_t size : {1, 3, 16, 64, 65, 128}) {
    const std::size_t count = 200, capacity = 201;
    std::vector<float> src = random_floats(count * kHeads * size, 2);
    for (std::size_t c = 0; c < size; ++c) src[c] = 0.0F;  // a row of zeros
    src[size] = 254.0F;                                    // a scale of 2, so that odd values are ties
    if (size > 2) src[size + 1] = 3.0F, src[size + 2] = 5.0F;
    std::vector<float> rotated;
    for (std::size_t row = 0; row < count * kHeads; ++row) {
      const std::vector<float> one = reference::rotate_head(src.data() + row * size, size);
      rotated.insert(rotated.end(), one.begin(), one.end());
    }
    const ActivationFormat format = {.cols = size, .group_size = size, .outlier_columns = {}};
    const reference::IntegerActivations key_codes = reference::quantize(rotated.data(), count * kHeads, format);
    const reference::IntegerActivations value_codes = reference::quantize(src.data(), count * kHeads, format);
    for_every_target([&] {
      for (const int threads : {1, 3}) {
        for (const RowKind kind : {RowKind::kKeys, RowKind::kValues}) {
          const std::size_t slots = stored_slots(CacheType::kInt8, capacity);
          const std::size_t stored = stored_size(CacheType::kInt8, kind, size);
          std::vector<std::uint8_t> codes(kHeads * slots * stored, 99);
          std::vector<float> scales(kHeads * slots, 99.0F);
          with_threads(threads, [&] {
            store_rows(src.data(), kHeads * size, count, 0,
                       {.data = codes.data(),
                        .type = CacheType::kInt8,
                        .kind = kind,
                        .scales = scales.data(),
                        .heads = kHeads,
                        .capacity = capacity,
                        .size = size});
            return 0;
          });
          const reference::IntegerActivations& expected = kind == RowKind::kKeys ? key_codes : value_codes;
          const int offset = kind == RowKind::kKeys ? 128 : 0;
          for (std::size_t h = 0; h < kHeads; ++h) {
            const std::uint8_t* head = codes.data() + h * slots * stored;
            for (std::size_t i = 0; i < count; ++i) {
              REQUIRE(scales[h * slots + i] == expected.scales[(i * kHeads + h) * size]);
              for (std::size_t c = 0; c < stored; ++c) {
                const int code = c < size ? expected.codes[(i * kHeads + h) * size + c] : 0;
                REQUIRE(head[code_index(kind, size, i, c)] == static_cast<std::uint8_t>(code + offset));
              }
            }
            CHECK(scales[h * slots + count] == 99.0F);
            CHECK(head[code_index(kind, size, count, 0)] == 99);
          }
        }
      }
    });
  }
}

}  // namespace
}  // namespace ballast::kernels
