#include "model/source/quantized_tensor.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <span>
#include <utility>

#include "ballast/error.h"
#include "model/source/scale_codes.h"

namespace ballast::model {

namespace {

std::int64_t signed_size(std::size_t size) {
  return static_cast<std::int64_t>(size);
}

/// Looks up the parts of one matrix and checks each against what the format implies.
class PartReader {
 public:
  PartReader(const files::Checkpoint& checkpoint, std::string module)
      : checkpoint_(checkpoint), module_(std::move(module)) {}

  std::string name(std::string_view part) const { return module_ + "." + std::string(part); }
  std::string context(std::string_view part) const { return checkpoint_.path().string() + ": " + name(part); }
  bool contains(std::string_view part) const { return checkpoint_.contains(name(part)); }

  TensorView get(std::string_view part, std::initializer_list<DType> types, const Shape& shape) const {
    TensorView view = checkpoint_.tensor(name(part));
    if (std::ranges::find(types, view.dtype) == types.end()) {
      fail(part, "has type " + std::string(dtype_info(view.dtype).name) + ", which the format does not allow here");
    }
    if (view.shape != shape) {
      fail(part, "has shape " + shape_string(view.shape) + ", expected " + shape_string(shape));
    }
    return view;
  }

  [[noreturn]] void fail(std::string_view part, const std::string& problem) const {
    throw Error(context(part), problem);
  }

 private:
  const files::Checkpoint& checkpoint_;
  std::string module_;
};

std::span<const std::uint8_t> as_bytes(const TensorView& view) {
  return {reinterpret_cast<const std::uint8_t*>(view.bytes.data()), view.bytes.size()};
}

std::vector<std::int32_t> read_outlier_columns(const PartReader& parts, const files::Checkpoint& checkpoint,
                                               std::size_t cols) {
  const TensorView stored = checkpoint.tensor(parts.name("outlier_columns"));
  if (stored.dtype != DType::kI32 || stored.shape.size() != 1) parts.fail("outlier_columns", "must be a list of I32");
  std::vector<std::int32_t> columns(stored.bytes.size() / sizeof(std::int32_t));
  std::memcpy(columns.data(), stored.bytes.data(), columns.size() * sizeof(std::int32_t));
  std::int64_t previous = -1;
  for (const std::int32_t column : columns) {
    if (column <= previous || column >= signed_size(cols)) {
      parts.fail("outlier_columns", "must ascend and lie below " + std::to_string(cols) + ", holds " +
                                        std::to_string(column) + " after " + std::to_string(previous));
    }
    previous = column;
  }
  return columns;
}

// First index whose exponent bits are all ones (infinity or NaN), or count.
template <typename Word>
std::size_t first_not_finite(const std::byte* bytes, std::size_t count, Word exponent) {
  const auto is_bad = [=](std::size_t i) {
    Word word;
    std::memcpy(&word, bytes + i * sizeof word, sizeof word);
    return (word & exponent) == exponent;
  };
  constexpr std::size_t kChunk = 1 << 16;
  std::size_t first = count;
#pragma omp parallel for reduction(min : first)
  for (std::size_t begin = 0; begin < count; begin += kChunk) {
    const std::size_t end = std::min(count, begin + kChunk);
    bool bad = false;
    for (std::size_t i = begin; i < end; ++i) bad |= is_bad(i);  // no early exit: the compiler vectorizes this
    for (std::size_t i = begin; bad && i < std::min(end, first); ++i) {
      if (is_bad(i)) first = i;
    }
  }
  return first;
}

/// Scales of 8 bits as the 16-bit ones that they stand for, [rows][groups]; their type goes to `type`.
std::vector<std::uint16_t> read_shared_scales(const PartReader& parts, std::int64_t rows, std::int64_t groups,
                                              DType& type) {
  const TensorView codes = parts.get("weight_scale", {DType::kU8}, {rows, groups});
  const TensorView row_scales = parts.get("weight_row_scale", {DType::kF16, DType::kBF16}, {rows});
  check_finite(row_scales, parts.context("weight_row_scale"));
  type = row_scales.dtype;
  const auto width = static_cast<std::size_t>(groups);
  std::vector<std::uint16_t> scales(codes.bytes.size());
  for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
    std::uint16_t row_scale = 0;
    std::memcpy(&row_scale, row_scales.bytes.data() + r * sizeof row_scale, sizeof row_scale);
    if ((row_scale & 0x8000U) != 0) parts.fail("weight_row_scale", "value " + std::to_string(r) + " is negative");
    decode_scales(row_scale, as_bytes(codes).subspan(r * width, width), type,
                  std::span(scales).subspan(r * width, width));
  }
  return scales;
}

}  // namespace

QuantizedView QuantizedTensor::view() const {
  return {.rows = rows,
          .cols = cols,
          .bits = bits,
          .group_size = group_size,
          .codes = codes,
          .scale_type = scale_type,
          .scales = std::as_bytes(std::span(scales)),
          .scale_codes = scale_codes,
          .row_scales = std::as_bytes(std::span(row_scales)),
          .zeros = zeros,
          .outlier_columns = outlier_columns,
          .outlier_type = outlier_type,
          .outlier_weights = std::as_bytes(std::span(outlier_weights))};
}

std::vector<QuantizedPart> quantized_parts(const std::string& module, const QuantizedView& view) {
  const std::int64_t rows = signed_size(view.rows);
  std::vector<QuantizedPart> parts;
  parts.push_back({{module + ".weight", DType::kU8, {rows, signed_size(packed_row_bytes(view.cols, view.bits))}},
                   std::as_bytes(view.codes)});
  const Shape groups = {rows, signed_size(view.groups())};
  if (view.row_scales.empty()) {
    parts.push_back({{module + ".weight_scale", view.scale_type, groups}, view.scales});
  } else {
    parts.push_back({{module + ".weight_scale", DType::kU8, groups}, std::as_bytes(view.scale_codes)});
    parts.push_back({{module + ".weight_row_scale", view.scale_type, {rows}}, view.row_scales});
  }
  if (!view.zeros.empty()) {
    parts.push_back(
        {{module + ".weight_zero", DType::kU8, {rows, signed_size(packed_row_bytes(view.groups(), view.bits))}},
         std::as_bytes(view.zeros)});
  }
  if (!view.outlier_columns.empty()) {
    const std::int64_t count = signed_size(view.outlier_columns.size());
    parts.push_back({{module + ".outlier_columns", DType::kI32, {count}}, std::as_bytes(view.outlier_columns)});
    parts.push_back({{module + ".outlier_weight", view.outlier_type, {rows, count}}, view.outlier_weights});
  }
  return parts;
}

kernels::QuantizedMatrix load_quantized_matrix(const files::Checkpoint& checkpoint, const std::string& module,
                                               const WeightFormat& format, std::size_t rows, std::size_t cols) {
  const PartReader parts(checkpoint, module);
  QuantizedView view;
  view.rows = rows;
  view.cols = cols;
  view.bits = format.bits;
  view.group_size = format.group_size == 0 ? cols : format.group_size;
  const std::int64_t row_count = signed_size(rows);
  view.codes = as_bytes(parts.get("weight", {DType::kU8}, {row_count, signed_size(packed_row_bytes(cols, view.bits))}));
  std::vector<std::uint16_t> decoded_scales;
  if (format.scale_bits == 8) {
    decoded_scales = read_shared_scales(parts, row_count, signed_size(view.groups()), view.scale_type);
    view.scales = std::as_bytes(std::span(decoded_scales));
  } else {
    const TensorView scales =
        parts.get("weight_scale", {DType::kF16, DType::kBF16}, {row_count, signed_size(view.groups())});
    check_finite(scales, parts.context("weight_scale"));
    view.scale_type = scales.dtype;
    view.scales = scales.bytes;
  }
  if (!format.symmetric) {
    view.zeros = as_bytes(
        parts.get("weight_zero", {DType::kU8}, {row_count, signed_size(packed_row_bytes(view.groups(), view.bits))}));
  }
  std::vector<std::int32_t> columns;
  if (parts.contains("outlier_columns")) {
    columns = read_outlier_columns(parts, checkpoint, cols);
    const TensorView weights =
        parts.get("outlier_weight", {DType::kF16, DType::kBF16}, {row_count, signed_size(columns.size())});
    check_finite(weights, parts.context("outlier_weight"));
    view.outlier_columns = columns;
    view.outlier_type = weights.dtype;
    view.outlier_weights = weights.bytes;
  }
  kernels::QuantizedMatrix matrix(view);
  for (const char* part : {"weight", "weight_scale"}) checkpoint.release(parts.name(part));
  return matrix;
}

void check_finite(const TensorView& view, const std::string& context) {
  const std::size_t count = view.bytes.size() / dtype_info(view.dtype).block_bytes;
  std::size_t bad = count;
  if (view.dtype == DType::kF32) bad = first_not_finite<std::uint32_t>(view.bytes.data(), count, 0x7F800000);
  if (view.dtype == DType::kF16) bad = first_not_finite<std::uint16_t>(view.bytes.data(), count, 0x7C00);
  if (view.dtype == DType::kBF16) bad = first_not_finite<std::uint16_t>(view.bytes.data(), count, 0x7F80);
  if (bad < count) throw Error(context, "value " + std::to_string(bad) + " is NaN or infinite");
}

}  // namespace ballast::model
