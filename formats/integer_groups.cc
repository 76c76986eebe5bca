#include "formats/integer_groups.h"

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <span>
#include <utility>

#include "kernels/matrix/float_matrix.h"

namespace ballast::formats {

namespace {

using kernels::CodeLayout;
using kernels::FloatType;
using kernels::QuantizedRow;

constexpr std::size_t kGroupColumns = 32;  ///< the most columns that share a minimum in the kernels: a block's

bool survives(std::span<const float> values, FloatType type) {
  constexpr std::size_t kValuesAtOnce = 256;
  std::array<std::uint16_t, kValuesAtOnce> rounded{};
  std::array<float, kValuesAtOnce> back{};
  for (std::size_t begin = 0; begin < values.size(); begin += kValuesAtOnce) {
    const std::span<const float> chunk = values.subspan(begin, std::min(kValuesAtOnce, values.size() - begin));
    kernels::from_float(chunk.data(), chunk.size(), type, rounded.data());
    kernels::to_float(rounded.data(), type, chunk.size(), back.data());
    if (!std::equal(chunk.begin(), chunk.end(), back.begin())) return false;
  }
  return true;
}

std::optional<FloatType> exact_type(const IntegerGroups& groups) {
  for (const FloatType type : {FloatType::kF16, FloatType::kBF16}) {
    if (survives(groups.scales, type) && survives(groups.offsets, type)) return type;
  }
  return {};
}

int kernel_bits(int bits) {
  return bits <= 4 ? 4 : bits == 7 ? 8 : bits;
}

int middle_of(int bits) {
  return 1 << (bits - 1);
}

/// Returns whether all zeros are those of symmetric codes, and need not be stored.
bool is_symmetric(const IntegerGroups& groups) {
  const int middle = middle_of(groups.bits);
  return std::ranges::all_of(groups.zeros, [&](std::uint8_t zero) { return zero == middle; });
}

/// Returns whether all offsets are those of symmetric codes in MLX's form: -2^(bits-1) times the scale.
bool has_symmetric_offsets(const IntegerGroups& groups) {
  const auto middle = static_cast<float>(middle_of(groups.bits));
  return std::ranges::equal(groups.offsets, groups.scales,
                            [middle](float offset, float scale) { return offset == -middle * scale; });
}

/// Returns the size of the groups in the kernels. Inputs get a scale for each of these, so large groups are divided.
std::size_t kernel_group(const IntegerGroups& groups) {
  if (!groups.offsets.empty()) return kGroupColumns;
  for (const std::size_t size : {4 * kGroupColumns, 2 * kGroupColumns, kGroupColumns}) {
    if (groups.group_size > size && groups.group_size % size == 0) return size;
  }
  return groups.group_size;
}

/// Returns the columns ordered by their groups, or nothing for groups of different sizes. Empty without column_group.
std::optional<std::vector<std::int32_t>> order_by_groups(const IntegerGroups& groups) {
  std::vector<std::int32_t> order(groups.column_group.size());
  std::iota(order.begin(), order.end(), 0);
  const auto group_of = [&](std::int32_t column) { return groups.column_group[static_cast<std::size_t>(column)]; };
  std::ranges::stable_sort(order, {}, group_of);
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (static_cast<std::size_t>(group_of(order[i])) != i / groups.group_size) return {};
  }
  return order;
}

std::optional<CodeLayout> exact_layout(const IntegerGroups& groups) {
  const bool has_offsets = !groups.offsets.empty();
  const int bits = kernel_bits(groups.bits);
  std::optional<std::vector<std::int32_t>> order = order_by_groups(groups);
  if (!order || (has_offsets && bits == 8)) return {};
  if (groups.group_size % kGroupColumns != 0 && groups.groups() > 1) return {};
  const std::optional<FloatType> type = exact_type(groups);
  if (!type) return {};
  const auto offset = has_offsets            ? CodeLayout::Offset::kMinimums
                      : is_symmetric(groups) ? CodeLayout::Offset::kMiddle
                                             : CodeLayout::Offset::kZeros;
  return CodeLayout{.rows = groups.rows,
                    .cols = groups.cols,
                    .bits = bits,
                    .group_size = kernel_group(groups),
                    .offset = offset,
                    .groups_of_scale = 0,
                    .bf16_scales = *type == FloatType::kBF16,
                    .bf16_outliers = false,
                    .outlier_columns = {},
                    .column_order = *std::move(order)};
}

/// Repeats the values of groups for the `count` groups into which a row's groups are divided.
template <typename Value>
void write_parts(const Value* values, std::size_t count, std::vector<Value>& dst) {
  const std::size_t parts = (dst.size() + count - 1) / count;
  for (std::size_t i = 0; i < dst.size(); ++i) dst[i] = values[i / parts];
}

/// Does the same in 16 bits, which represent the values exactly.
void write_halves(const float* values, std::size_t count, FloatType type, std::vector<std::uint16_t>& dst) {
  std::vector<std::uint16_t> halves(count);
  kernels::from_float(values, count, type, halves.data());
  write_parts(halves.data(), count, dst);
}

void write_row(const IntegerGroups& groups, const CodeLayout& layout, std::size_t row, QuantizedRow& dst) {
  constexpr std::uint16_t kSign = 0x8000;
  const std::size_t count = groups.groups();
  const FloatType type = layout.bf16_scales ? FloatType::kBF16 : FloatType::kF16;
  groups.read_codes(row, dst.codes.data());
  if (!layout.column_order.empty()) {
    const std::vector<std::uint8_t> stored = dst.codes;
    for (std::size_t c = 0; c < dst.codes.size(); ++c) {
      dst.codes[c] = stored[static_cast<std::size_t>(layout.column_order[c])];
    }
  }
  write_halves(groups.scales.data() + row * count, count, type, dst.scales);
  if (layout.offset == CodeLayout::Offset::kMinimums) {
    write_halves(groups.offsets.data() + row * count, count, type, dst.minimums);
    for (std::uint16_t& minimum : dst.minimums) minimum ^= kSign;  // the kernels subtract minimums, offsets are added
  } else if (layout.offset == CodeLayout::Offset::kZeros) {
    write_parts(groups.zeros.data() + row * count, count, dst.zeros);
  } else {
    const int shift = middle_of(layout.bits) - middle_of(groups.bits);
    for (std::uint8_t& code : dst.codes) code = static_cast<std::uint8_t>(code + shift);
  }
}

void decode_row(const IntegerGroups& groups, std::size_t row, float* dst) {
  std::vector<std::uint8_t> codes(groups.cols);
  groups.read_codes(row, codes.data());
  const std::size_t first = row * groups.groups();
  const int default_zero = groups.offsets.empty() ? middle_of(groups.bits) : 0;
  for (std::size_t c = 0; c < groups.cols; ++c) {
    const std::size_t group = first + (groups.column_group.empty() ? c / groups.group_size
                                                                   : static_cast<std::size_t>(groups.column_group[c]));
    const int zero = groups.zeros.empty() ? default_zero : groups.zeros[group];
    const float offset = groups.offsets.empty() ? 0.0F : groups.offsets[group];
    dst[c] = static_cast<float>(codes[c] - zero) * groups.scales[group] + offset;
  }
}

/// Returns a name as "GPTQ int4-g128", without the group size if a whole row is one group.
std::string type_name(std::string_view program, const IntegerGroups& groups) {
  const std::string name = std::string(program) + " int" + std::to_string(groups.bits);
  return groups.group_size >= groups.cols ? name : name + "-g" + std::to_string(groups.group_size);
}

}  // namespace

StoredCodes stored_codes(std::string_view program, IntegerGroups groups) {
  // In 16 bits, zero points and offsets have the same values.
  if (has_symmetric_offsets(groups) && exact_type(groups)) groups.offsets.clear();
  const auto shared = std::make_shared<const IntegerGroups>(std::move(groups));
  StoredCodes codes;
  codes.type = type_name(program, *shared);
  codes.layout = exact_layout(*shared);
  if (codes.layout) {
    codes.read_row = [shared, layout = *codes.layout](std::size_t row, QuantizedRow& dst) {
      write_row(*shared, layout, row, dst);
      return true;  // scales and offsets are finite
    };
  }
  codes.decode_row = [shared](std::size_t row, float* dst) { decode_row(*shared, row, dst); };
  return codes;
}

}  // namespace ballast::formats
