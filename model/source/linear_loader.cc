#include "model/source/linear_loader.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "ballast/error.h"
#include "files/mapped_file.h"
#include "formats/codecs/gguf_blocks.h"
#include "formats/float_type.h"
#include "model/structure/block_structure.h"

namespace ballast::model {

namespace {

/// When a matrix is repacked, its pages of the file are released each time this many bytes have been read.
constexpr std::size_t kBytesHeldTwice = 1 << 20;

/// Returns the codes of the matrix's own rows, out of all rows of its tensors.
formats::StoredCodes codes_of_rows(const MatrixLocation& matrix, formats::StoredCodes codes) {
  if (matrix.rows.empty()) return codes;
  codes.read_row = [read = std::move(codes.read_row), rows = matrix.rows](std::size_t row, kernels::QuantizedRow& dst) {
    return read(rows[row], dst);
  };
  codes.decode_row = [decode = std::move(codes.decode_row), rows = matrix.rows](std::size_t row, float* dst) {
    decode(rows[row], dst);
  };
  return codes;
}

}  // namespace

void LinearLoader::set_compute(const ComputeOptions& options) {
  check_compute_options(options);
  compute_ = options;
}

std::vector<std::unique_ptr<const formats::StoredQuantizedTensor>> LinearLoader::quantized_ranges(
    Role role, std::size_t layer, std::size_t expert) const {
  std::vector<std::unique_ptr<const formats::StoredQuantizedTensor>> ranges;
  if (!locator_.quantization()) return ranges;
  const std::vector<std::string> modules = locator_.quantization()->modules_of(locator_.name(role, layer, expert));
  const auto [rows, cols] = matrix_shape(locator_.spec(), layer, role);
  std::size_t rest = rows;
  for (const std::string& module : modules) {
    const WeightFormat& format = locator_.quantization()->tensors.at(module);
    if (!format.is_ballast_format()) return {};
    const bool last = ranges.size() + 1 == modules.size();
    const std::size_t own = last ? rest : stored_rows(module);
    if (own == 0 || own > rest) {
      throw Error(locator_.context(module + ".weight"), "has " + std::to_string(own) + " of the matrix's " +
                                                            std::to_string(rows) + " rows, and ranges before it have " +
                                                            std::to_string(rows - rest));
    }
    ranges.push_back(
        std::make_unique<const formats::StoredQuantizedTensor>(locator_.checkpoint(), module, format, own, cols));
    const QuantizedView& first = ranges.front()->view();
    const QuantizedView& view = ranges.back()->view();
    if (view.group_size != first.group_size || !std::ranges::equal(view.outlier_columns, first.outlier_columns)) {
      throw Error(locator_.context(module), "has other groups or outlier columns than the rows before it");
    }
    rest -= own;
  }
  return ranges;
}

/// Returns the rows of a module's codes.
std::size_t LinearLoader::stored_rows(const std::string& module) const {
  const TensorView codes = locator_.checkpoint().tensor(module + ".weight");
  return codes.shape.empty() ? 0 : static_cast<std::size_t>(codes.shape.front());
}

std::optional<Linear> LinearLoader::quantized_linear(Role role, std::size_t layer, std::size_t expert) const {
  const auto stored = quantized_ranges(role, layer, expert);
  if (stored.empty()) return {};
  Linear linear;
  linear.part = {role, expert};
  linear.name = locator_.name(role, layer, expert);
  linear.bias = decoder_.bias(role, layer, expert);
  std::vector<kernels::QuantizedMatrix> ranges;
  for (const auto& range : stored) {
    ranges.emplace_back(range->view());
    range->release();
  }
  kernels::QuantizedMatrix matrix =
      ranges.size() == 1 ? std::move(ranges.front()) : kernels::QuantizedMatrix(std::move(ranges));
  const QuantizationConfig& config = *locator_.quantization();
  const ActivationType activations = config.activations_of(config.modules_of(linear.name).front());
  linear.activations = matrix.activation_quantization(activations, config.activation_groups);
  linear.weights = std::move(matrix);
  return linear;
}

std::optional<formats::StoredCodes> LinearLoader::block_codes(const MatrixLocation& matrix, std::size_t rows,
                                                              std::size_t cols) const {
  const TensorView view = locator_.checked_matrix(matrix, cols);
  if (dtype_info(view.dtype).block_elements == 1) return {};
  const std::size_t row_bytes = view.bytes.size() / matrix.stored_rows;
  formats::StoredCodes codes = formats::block_codes(view.dtype, view.bytes, matrix.stored_rows, cols);
  codes.layout->rows = rows;
  codes.read_row = [=, read = std::move(codes.read_row)](std::size_t row, kernels::QuantizedRow& dst) {
    const std::size_t rows_at_once = kBytesHeldTwice / row_bytes + 1;
    const bool finite = read(row, dst);
    if (row >= rows_at_once && row % rows_at_once == 0) {
      files::release_pages(view.bytes.subspan((row - rows_at_once) * row_bytes, rows_at_once * row_bytes));
    }
    return finite;
  };
  return codes_of_rows(matrix, std::move(codes));
}

std::optional<formats::StoredCodes> LinearLoader::codec_codes(const MatrixLocation& matrix, std::size_t rows,
                                                              std::size_t cols) const {
  formats::StoredCodes codes = locator_.codec_codes(matrix, cols);
  if (!codes.layout) return {};
  codes.layout->rows = rows;
  return codes_of_rows(matrix, std::move(codes));
}

std::optional<formats::StoredCodes> LinearLoader::stored_codes(Role role, std::size_t layer, std::size_t expert) const {
  const MatrixLocation matrix = locator_.stored(role, layer, expert);
  if (matrix.mxfp4 || !can_keep_codes(matrix, role, layer, expert)) return {};
  const auto [rows, cols] = matrix_shape(locator_.spec(), layer, role);
  return matrix.foreign ? codec_codes(matrix, rows, cols) : block_codes(matrix, rows, cols);
}

bool LinearLoader::can_keep_codes(const MatrixLocation& matrix, Role role, std::size_t layer,
                                  std::size_t expert) const {
  return !locator_.changes_weights(role, layer, expert) && !matrix.transposed && matrix.cols.empty();
}

std::optional<Linear> LinearLoader::linear_of_codes(Role role, std::size_t layer, std::size_t expert) const {
  if (code_activations_ == ActivationType::kFloat) return {};
  const std::optional<formats::StoredCodes> codes = stored_codes(role, layer, expert);
  // With INT16 activations, matrices whose values INT8 codes would round are multiplied in floats.
  if (!codes || (!codes->exact && code_activations_ == ActivationType::kInt16)) return {};
  std::atomic<bool> finite = true;
  kernels::QuantizedMatrix matrix(*codes->layout, [&](std::size_t row, kernels::QuantizedRow& dst) {
    if (!codes->read_row(row, dst)) finite = false;
  });
  const MatrixLocation source = locator_.stored(role, layer, expert);
  if (!finite) {
    throw Error(locator_.context(source.weight()),
                codes->exact ? "has scales that are not finite" : "has values that are not finite");
  }
  for (const std::string& tensor : locator_.checked_tensors(source, codes->layout->cols))
    locator_.checkpoint().release(tensor);
  Linear linear;
  linear.part = {role, expert};
  linear.name = locator_.name(role, layer, expert);
  linear.bias = decoder_.bias(role, layer, expert);
  linear.activations = matrix.activation_quantization(code_activations_, true);
  linear.weights = std::move(matrix);
  return linear;
}

std::optional<kernels::FloatMatrix> LinearLoader::mapped_floats(const MatrixLocation& matrix, Role role,
                                                                std::size_t layer, std::size_t expert) const {
  if (matrix.foreign) return {};
  const auto [rows, cols] = matrix_shape(locator_.spec(), layer, role);
  const TensorView view = locator_.checked_matrix(matrix, cols);
  const bool plain = view.dtype == DType::kF32 || view.dtype == DType::kF16 || view.dtype == DType::kBF16;
  // Rows that are consecutive in the file can be multiplied where they are.
  const bool in_order = std::ranges::adjacent_find(
                            matrix.rows, [](std::size_t a, std::size_t b) { return b != a + 1; }) == matrix.rows.end();
  if (!plain || !in_order || !matrix.cols.empty() || matrix.transposed) return {};
  if (locator_.changes_weights(role, layer, expert)) return {};
  const kernels::FloatType type = view.dtype == DType::kF16    ? kernels::FloatType::kF16
                                  : view.dtype == DType::kBF16 ? kernels::FloatType::kBF16
                                                               : kernels::FloatType::kF32;
  const std::size_t first_row = matrix.rows.empty() ? 0 : matrix.rows.front();
  formats::check_finite(view, locator_.context(matrix.weight()));
  return kernels::FloatMatrix{.data = view.bytes.data() + first_row * cols * kernels::float_type_bytes(type),
                              .type = type,
                              .rows = rows,
                              .cols = cols};
}

Linear LinearLoader::linear(Role role, std::size_t layer, std::size_t expert) const {
  if (std::optional<Linear> quantized = quantized_linear(role, layer, expert)) return *std::move(quantized);
  if (std::optional<Linear> of_codes = linear_of_codes(role, layer, expert)) return *std::move(of_codes);
  Linear linear;
  linear.part = {role, expert};
  linear.name = locator_.name(role, layer, expert);
  FloatMatrixHolder holder;
  holder.compute = compute_;
  if (const auto mapped = mapped_floats(locator_.stored(role, layer, expert), role, layer, expert)) {
    holder.matrix = *mapped;
  } else {
    FloatWeights weights = decoder_.float_weights(role, layer, expert);
    holder.owned = std::move(weights.values);
    holder.matrix = {
        .data = holder.owned.data(), .type = kernels::FloatType::kF32, .rows = weights.rows, .cols = weights.cols};
  }
  linear.weights = std::move(holder);
  linear.bias = decoder_.bias(role, layer, expert);  // after the matrix, so that a missing matrix is reported first
  return linear;
}

void LinearLoader::add_module(Role role, std::size_t layer, std::size_t expert,
                              std::map<std::string, ForeignModule>& modules) const {
  if (is_norm(role) || is_vector(role)) return;
  const MatrixLocation matrix = locator_.stored(role, layer, expert);
  if (!matrix.foreign) return;
  const std::size_t cols = matrix_shape(locator_.spec(), layer, role).second;
  const formats::StoredCodes codes = locator_.codec_codes(matrix, cols);
  modules[matrix.module] = {.type = codes.type,
                            .tensors = locator_.checked_tensors(matrix, cols),
                            .weights = std::uint64_t{matrix.stored_rows} * cols,
                            .keeps_codes = codes.layout.has_value() && can_keep_codes(matrix, role, layer, expert)};
}

std::map<std::string, ForeignModule> LinearLoader::foreign_modules() const {
  std::map<std::string, ForeignModule> modules;
  if (locator_.codec() == nullptr) return modules;
  for (const Role role : outer_roles(locator_.spec())) add_module(role, 0, 0, modules);
  for (std::size_t layer = 0; layer < locator_.spec().layers.size(); ++layer) {
    for (const Part& part : block_linears(locator_.spec(), layer)) add_module(part.role, layer, part.expert, modules);
  }
  return modules;
}

}  // namespace ballast::model
