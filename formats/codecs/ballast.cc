#include "formats/codecs/ballast.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <span>
#include <utility>

#include "ballast/error.h"
#include "formats/code_matrix.h"
#include "formats/float_type.h"
#include "formats/scale_codes.h"

namespace ballast::formats {

namespace {

constexpr std::array kBallastBits = {4, 5, 6, 8};
constexpr std::array<std::size_t, 4> kBallastGroupSizes = {0, 32, 64, 128};

std::int64_t signed_size(std::size_t size) {
  return static_cast<std::int64_t>(size);
}

/// Looks up the parts of one matrix and checks that they fit the format.
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
      parts.fail("outlier_columns", "must ascend and be less than " + std::to_string(cols) + ", holds " +
                                        std::to_string(column) + " after " + std::to_string(previous));
    }
    previous = column;
  }
  return columns;
}

/// The 16-bit scales that those of 8 bits in `view` stand for, [rows][groups].
std::vector<std::uint16_t> decode_all_scales(const PartReader& parts, const QuantizedView& view) {
  const std::size_t width = view.groups();
  std::vector<std::uint16_t> scales(view.scale_codes.size());
  for (std::size_t r = 0; r < view.rows; ++r) {
    std::uint16_t row_scale = 0;
    std::memcpy(&row_scale, view.row_scales.data() + r * sizeof row_scale, sizeof row_scale);
    if ((row_scale & 0x8000U) != 0) parts.fail("weight_row_scale", "value " + std::to_string(r) + " is negative");
    decode_scales(row_scale, view.scale_codes.subspan(r * width, width),
                  view.codebook == CodebookId::kUniform ? ScaleCodes::kUnsigned : ScaleCodes::kSigned, view.scale_type,
                  std::span(scales).subspan(r * width, width));
  }
  return scales;
}

}  // namespace

std::vector<WeightFormat> ballast_candidates() {
  std::vector<WeightFormat> formats;
  std::ranges::copy_if(codebook_formats(), std::back_inserter(formats),
                       [](const WeightFormat& format) { return format.scale_bits == 8; });
  for (const std::size_t group_size : kBallastGroupSizes) {
    if (group_size != 0) formats.push_back({.bits = 8, .group_size = group_size, .scale_bits = 8});
  }
  return formats;
}

bool holds_in_ballast(const WeightFormat& format) {
  if (format.codebook != CodebookId::kUniform) {
    const std::vector<WeightFormat> formats = codebook_formats();
    return std::ranges::find(formats, format) != formats.end();
  }
  if (!format.is_ballast_format()) return false;
  const bool scales = format.scale_bits == 16 || (format.scale_bits == 8 && format.group_size != 0);
  return scales && std::ranges::find(kBallastBits, format.bits) != kBallastBits.end() &&
         std::ranges::find(kBallastGroupSizes, format.group_size) != kBallastGroupSizes.end();
}

std::vector<files::TensorPlan> quantized_plans(const std::string& module, const QuantizedShape& shape) {
  const WeightFormat& format = shape.format;
  const std::int64_t rows = signed_size(shape.rows);
  const std::size_t group_size = format.group_size == 0 ? shape.cols : format.group_size;
  const std::size_t group_count = (shape.cols + group_size - 1) / group_size;
  const auto packed = [&](std::size_t count) { return Shape{rows, signed_size(packed_row_bytes(count, format.bits))}; };
  const Shape groups = {rows, signed_size(group_count)};
  std::vector<files::TensorPlan> plans = {{module + ".weight", DType::kU8, packed(shape.cols)}};
  if (format.scale_bits == 8) {
    plans.push_back({module + ".weight_scale", DType::kU8, groups});
    plans.push_back({module + ".weight_row_scale", shape.scale_type, {rows}});
  } else {
    plans.push_back({module + ".weight_scale", shape.scale_type, groups});
  }
  if (!format.symmetric) plans.push_back({module + ".weight_zero", DType::kU8, packed(group_count)});
  if (shape.outlier_columns > 0) {
    const std::int64_t count = signed_size(shape.outlier_columns);
    plans.push_back({module + ".outlier_columns", DType::kI32, {count}});
    plans.push_back({module + ".outlier_weight", shape.outlier_type, {rows, count}});
  }
  return plans;
}

std::vector<QuantizedPart> quantized_parts(const std::string& module, const QuantizedView& view) {
  const bool shared = !view.row_scales.empty();
  std::vector<std::span<const std::byte>> bytes = {std::as_bytes(view.codes)};
  bytes.push_back(shared ? std::as_bytes(view.scale_codes) : view.scales);
  if (shared) bytes.push_back(view.row_scales);
  if (!view.zeros.empty()) bytes.push_back(std::as_bytes(view.zeros));
  if (!view.outlier_columns.empty()) {
    bytes.push_back(std::as_bytes(view.outlier_columns));
    bytes.push_back(view.outlier_weights);
  }
  const std::vector<files::TensorPlan> plans = quantized_plans(module, {.rows = view.rows,
                                                                        .cols = view.cols,
                                                                        .format = format_of(view),
                                                                        .outlier_columns = view.outlier_columns.size(),
                                                                        .scale_type = view.scale_type,
                                                                        .outlier_type = view.outlier_type});
  std::vector<QuantizedPart> parts;
  for (std::size_t i = 0; i < plans.size(); ++i) parts.push_back({plans[i], bytes[i]});
  return parts;
}

std::string row_range_name(const std::string& module, std::size_t index) {
  return module + "." + std::to_string(index);
}

std::vector<std::string> quantized_tensor_names(const files::Checkpoint& checkpoint, const std::string& module) {
  std::vector<std::string> names;
  for (const char* part :
       {".weight", ".weight_scale", ".weight_row_scale", ".weight_zero", ".outlier_columns", ".outlier_weight"}) {
    if (checkpoint.contains(module + part)) names.push_back(module + part);
  }
  return names;
}

StoredQuantizedTensor::StoredQuantizedTensor(const files::Checkpoint& checkpoint, const std::string& module,
                                             const WeightFormat& format, std::size_t rows, std::size_t cols)
    : checkpoint_(checkpoint), module_(module) {
  const PartReader parts(checkpoint, module);
  const auto types_16_bit = {DType::kF16, DType::kBF16};
  view_.rows = rows;
  view_.cols = cols;
  view_.bits = format.bits;
  view_.codebook = format.codebook;
  view_.group_size = format.group_size == 0 ? cols : format.group_size;
  const std::int64_t row_count = signed_size(rows);
  const Shape groups = {row_count, signed_size(view_.groups())};
  const auto packed = [&](std::string_view part, std::size_t count) {
    return as_bytes(parts.get(part, {DType::kU8}, {row_count, signed_size(packed_row_bytes(count, format.bits))}));
  };
  const auto finite = [&](std::string_view part, const Shape& shape) {
    const TensorView tensor = parts.get(part, types_16_bit, shape);
    check_finite(tensor, parts.context(part));
    return tensor;
  };
  view_.codes = packed("weight", cols);
  if (format.scale_bits == 8) {
    view_.scale_codes = as_bytes(parts.get("weight_scale", {DType::kU8}, groups));
    const TensorView row_scales = finite("weight_row_scale", {row_count});
    view_.scale_type = row_scales.dtype;
    view_.row_scales = row_scales.bytes;
    decoded_scales_ = decode_all_scales(parts, view_);
    view_.scales = std::as_bytes(std::span(decoded_scales_));
  } else {
    const TensorView scales = finite("weight_scale", groups);
    view_.scale_type = scales.dtype;
    view_.scales = scales.bytes;
  }
  if (!format.symmetric) view_.zeros = packed("weight_zero", view_.groups());
  if (!parts.contains("outlier_columns")) return;
  outlier_columns_ = read_outlier_columns(parts, checkpoint, cols);
  const TensorView weights = finite("outlier_weight", {row_count, signed_size(outlier_columns_.size())});
  view_.outlier_columns = outlier_columns_;
  view_.outlier_type = weights.dtype;
  view_.outlier_weights = weights.bytes;
}

void StoredQuantizedTensor::release() const {
  for (const char* part : {".weight", ".weight_scale"}) checkpoint_.release(module_ + part);
}

}  // namespace ballast::formats
