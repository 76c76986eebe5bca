#include "kernels/attention/key_value_pages.h"

#include <cstddef>
#include <cstring>
#include <vector>

#include "kernel_cases.h"

namespace ballast::kernels {
namespace {

constexpr std::size_t kHeads = 2;

/// Pages of a layout, filled with one byte.
struct Pages {
  std::vector<std::vector<std::byte>> bytes;
  std::vector<std::byte*> addresses;

  Pages(const PageLayout& layout, std::size_t count, std::byte fill)
      : bytes(count, std::vector<std::byte>(layout.bytes(), fill)) {
    for (std::vector<std::byte>& page : bytes) addresses.push_back(page.data());
  }
};

TEST_CASE("rows are stored in their slots, across the end of a page, and other slots do not change") {
  const std::size_t key_size = 5, value_size = 3, count = 4, first = kPageTokens - 2, stride = 13;
  const std::vector<float> src = random_floats(count * stride, 1);
  for_every_target([&] {
    for (const CacheType type : {CacheType::kF32, CacheType::kF16}) {
      const PageLayout layout(type, kHeads, key_size, value_size);
      for (const RowKind kind : {RowKind::kKeys, RowKind::kValues}) {
        const std::size_t size = layout.size(kind);
        Pages expected(layout, 2, std::byte{8});
        const Pages pages(layout, 2, std::byte{8});
        for (std::size_t h = 0; h < kHeads; ++h) {
          for (std::size_t i = 0; i < count; ++i) {
            const float* row = src.data() + i * stride + h * size;
            const EncodedFloats encoded(std::vector<float>(row, row + size), float_type(type));
            std::memcpy(expected.bytes[(first + i) / kPageTokens].data() + layout.rows_at(kind, h) +
                            (first + i) % kPageTokens * layout.row_bytes(kind),
                        encoded.data(), layout.row_bytes(kind));
          }
        }
        store_rows(src.data(), stride, count, layout, kind, pages.addresses, first);
        CHECK(pages.bytes == expected.bytes);
      }
    }
  });
}

TEST_CASE("keys that contain the values are stored once, and in INT8 each part has its own scale") {
  const std::size_t values = 6, others = 5, size = values + others, count = 3;
  const std::vector<float> src = random_floats(count * size, 1);
  for_every_target([&] {
    for (const CacheType type : {CacheType::kF32, CacheType::kF16}) {
      const PageLayout layout(type, 1, size, values, true);
      CHECK(layout.token_bytes() == size * float_type_bytes(float_type(type)));
      CHECK(layout.rows_at(RowKind::kValues, 0) == layout.rows_at(RowKind::kKeys, 0));
      CHECK(layout.row_bytes(RowKind::kValues) == layout.row_bytes(RowKind::kKeys));
      CHECK(layout.fp16_row_size() == size);
    }
    const PageLayout layout(CacheType::kInt8, 1, size, values, true);
    CHECK(layout.token_bytes() == 8 + 8 + 2 * sizeof(float));
    const Pages pages(layout, 1, std::byte{1});
    store_rows(src.data(), size, count, layout, RowKind::kKeys, pages.addresses, 0);
    const std::byte* page = pages.addresses[0];
    for (std::size_t i = 0; i < count; ++i) {
      const auto check_part = [&](std::size_t first, std::size_t part, std::size_t at, RowKind scale_of) {
        const std::vector<float> rotated = reference::rotate_head(src.data() + i * size + first, part);
        const reference::IntegerActivations expected =
            reference::quantize(rotated.data(), 1, {.cols = part, .group_size = part, .outlier_columns = {}});
        CHECK(reference::read_value(page + layout.scales_at(scale_of, 0), FloatType::kF32, i) == expected.scales[0]);
        for (std::size_t c = 0; c < 8; ++c) {
          const int code = std::to_integer<int>(page[code_index(RowKind::kKeys, layout.key_codes(), i, at + c)]);
          CHECK(code == (c < part ? expected.codes[c] : 0) + 128);
        }
      };
      check_part(0, values, 0, RowKind::kValues);
      check_part(values, others, 8, RowKind::kKeys);
    }
  });
}

TEST_CASE("the contents of a page are contiguous and aligned, and a layer without heads needs no page") {
  for (const CacheType type : {CacheType::kF32, CacheType::kF16, CacheType::kInt8}) {
    const PageLayout layout(type, 3, 7, 20);
    std::size_t end = 0;
    for (std::size_t head = 0; head < 3; ++head) {
      for (const RowKind kind : {RowKind::kKeys, RowKind::kValues}) {
        CHECK(layout.rows_at(kind, head) == end);
        CHECK(end % PageLayout::kAlignment == 0);
        end += kPageTokens * layout.row_bytes(kind);
        if (type != CacheType::kInt8) continue;
        CHECK(layout.scales_at(kind, head) == end);
        end += kPageTokens * sizeof(float);
      }
    }
    CHECK(layout.fp16_numbers_at() == end);
    CHECK(layout.bytes() == end + (type == CacheType::kInt8 ? kPageTokens : 0));
    CHECK(PageLayout(type, 0, 7, 20).bytes() == 0);
  }
}

TEST_CASE(
    "INT8 rows have the reference's codes and scales, one scale per token and head, keys rotated first, for any number "
    "of threads") {
  for (const std::size_t size : {1, 3, 16, 64, 65, 128}) {
    const std::size_t count = 200;
    std::vector<float> src = random_floats(count * kHeads * size, 2);
    for (std::size_t c = 0; c < size; ++c) src[c] = 0.0F;  // a row of zeros
    src[size] = 254.0F;                                    // a scale of 2, so that odd values are ties
    if (size > 2) src[size + 1] = 3.0F, src[size + 2] = 5.0F;
    std::vector<float> rotated;
    for (std::size_t row = 0; row < count * kHeads; ++row) {
      const std::vector<float> one = reference::rotate_head(src.data() + row * size, size);
      rotated.insert(rotated.end(), one.begin(), one.end());
    }
    const ActivationQuantization format = {.cols = size, .group_size = size, .outlier_columns = {}};
    const reference::IntegerActivations key_codes = reference::quantize(rotated.data(), count * kHeads, format);
    const reference::IntegerActivations value_codes = reference::quantize(src.data(), count * kHeads, format);
    for_every_target([&] {
      for (const int threads : {1, 3}) {
        for (const RowKind kind : {RowKind::kKeys, RowKind::kValues}) {
          const PageLayout layout(CacheType::kInt8, kHeads, size, size);
          const std::size_t stored = stored_size(CacheType::kInt8, kind, size);
          const Pages pages(layout, 2, std::byte{99});
          with_threads(threads, [&] {
            store_rows(src.data(), kHeads * size, count, layout, kind, pages.addresses, 0);
            return 0;
          });
          const reference::IntegerActivations& expected = kind == RowKind::kKeys ? key_codes : value_codes;
          const int offset = kind == RowKind::kKeys ? 128 : 0;
          for (std::size_t h = 0; h < kHeads; ++h) {
            const auto scale = [&](std::size_t i) {
              return reference::read_value(pages.addresses[i / kPageTokens] + layout.scales_at(kind, h),
                                           FloatType::kF32, i % kPageTokens);
            };
            const auto code = [&](std::size_t i, std::size_t c) {
              return pages.bytes[i / kPageTokens][layout.rows_at(kind, h) + code_index(kind, size, i % kPageTokens, c)];
            };
            for (std::size_t i = 0; i < count; ++i) {
              REQUIRE(scale(i) == expected.scales[(i * kHeads + h) * size]);
              for (std::size_t c = 0; c < stored; ++c) {
                const int wanted = c < size ? expected.codes[(i * kHeads + h) * size + c] : 0;
                REQUIRE(code(i, c) == static_cast<std::byte>(wanted + offset));
              }
            }
            CHECK(code(count, 0) == std::byte{99});
          }
        }
      }
    });
  }
}

/// Returns the bytes of a slot, all heads.
std::vector<std::byte> slot_of(const std::vector<std::byte>& page, const PageLayout& layout, std::size_t slot) {
  std::vector<std::byte> bytes;
  const auto add = [&](std::size_t at, std::size_t count) {
    bytes.insert(bytes.end(), page.begin() + at, page.begin() + at + count);
  };
  for (std::size_t head = 0; head < layout.heads(); ++head) {
    for (const RowKind kind : {RowKind::kKeys, RowKind::kValues}) {
      const bool has_rows = kind == RowKind::kKeys || !layout.values_in_keys();
      const std::size_t row = has_rows ? layout.row_bytes(kind) : 0;
      if (layout.type() != CacheType::kInt8) {
        add(layout.rows_at(kind, head) + slot * row, row);
        continue;
      }
      for (std::size_t c = 0; c < row; ++c) add(layout.rows_at(kind, head) + code_index(kind, row, slot, c), 1);
      add(layout.scales_at(kind, head) + slot * sizeof(float), sizeof(float));
    }
  }
  if (layout.type() == CacheType::kInt8) add(layout.fp16_numbers_at() + slot, 1);
  return bytes;
}

TEST_CASE("a copy of a page has the first slots") {
  const std::size_t key_size = 9, value_size = 5;
  for (const CacheType type : {CacheType::kF32, CacheType::kF16, CacheType::kInt8}) {
    for (const bool values_in_keys : {false, true}) {
      const PageLayout layout(type, kHeads, key_size, value_size, values_in_keys);
      Pages source(layout, 1, std::byte{});
      for (std::size_t i = 0; i < layout.bytes(); ++i) source.bytes[0][i] = static_cast<std::byte>(i * 7919 >> 5);
      for (const std::size_t count : {0, 1, 3, 63, 64, 65, 127, 128}) {
        const Pages copy(layout, 1, std::byte{99});
        copy_slots(source.addresses[0], count, layout, copy.addresses[0]);
        for (std::size_t slot = 0; slot < count; ++slot) {
          REQUIRE(slot_of(copy.bytes[0], layout, slot) == slot_of(source.bytes[0], layout, slot));
        }
      }
    }
  }
}

}  // namespace
}  // namespace ballast::kernels
