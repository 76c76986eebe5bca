// How matrices are read: as floats, as ballast's own integers, as the codes of others.
#include <algorithm>
#include <atomic>
#include <utility>

#include "ballast/error.h"
#include "files/gguf/ggml_blocks.h"
#include "files/gguf/ggml_rows.h"
#include "files/mapped_file.h"
#include "formats/codecs/mxfp4.h"
#include "formats/quantized_tensor.h"
#include "kernels/statistics.h"
#include "model/source/model_source.h"

namespace ballast::model {

namespace {

void multiply(double factor, std::vector<float>& values) {
  if (factor == 1.0) return;
  for (float& value : values) value = static_cast<float>(double{value} * factor);
}

/// Of a matrix that is packed: what lies in memory as the file has it, too.
constexpr std::size_t kBytesHeldTwice = 1 << 20;

/// The rows of `cols` values that are the matrix's own, of all that its tensor has.
std::vector<float> own_rows(const StoredMatrix& matrix, std::size_t cols, std::vector<float> all) {
  if (!matrix.transposed && matrix.rows.empty() && matrix.cols.empty()) return all;
  const std::size_t rows = matrix.rows.empty() ? matrix.stored_rows : matrix.rows.size();
  std::vector<float> own(rows * cols);
  for (std::size_t r = 0; r < rows; ++r) {
    const std::size_t from = matrix.rows.empty() ? r : matrix.rows[r];
    float* row = own.data() + r * cols;
    if (!matrix.transposed) {
      std::copy_n(all.data() + from * cols, cols, row);
    } else {
      const std::size_t in_head = matrix.stored_rows / std::max<std::size_t>(1, matrix.heads);
      const float* head = all.data() + from / in_head * in_head * cols;
      for (std::size_t c = 0; c < cols; ++c) row[c] = head[c * in_head + from % in_head];
    }
    if (matrix.cols.empty()) continue;
    const std::vector<float> stored(row, row + cols);
    for (std::size_t c = 0; c < cols; ++c) row[c] = stored[matrix.cols[c]];
  }
  return own;
}

}  // namespace

void ModelSource::multiply_by_vectors(Role role, std::size_t layer, std::size_t expert, FloatWeights& weights) const {
  for (const StoredVector& vector : stored_vectors_) {
    if (vector.role != role) continue;
    const std::vector<float> factors = floats(vector_name(vector, layer), vector_shape(vector, layer));
    switch (vector.multiplies) {
      case StoredVector::Multiplies::kInputs:
        for (std::size_t i = 0; i < weights.values.size(); ++i) weights.values[i] *= factors[i % weights.cols];
        break;
      case StoredVector::Multiplies::kExpertOutputs:
        multiply(factors[expert], weights.values);
        break;
    }
  }
}

formats::CodecMatrix ModelSource::foreign_matrix(const StoredMatrix& matrix, std::size_t cols) const {
  return foreign_->matrix(*checkpoint_, matrix.module, matrix.stored_rows, cols);
}

void ModelSource::decode_foreign(const StoredMatrix& matrix, std::size_t cols, float* dst) const {
  const formats::CodecMatrix foreign = foreign_matrix(matrix, cols);
  std::size_t first_bad = matrix.stored_rows;
#pragma omp parallel for schedule(static) reduction(min : first_bad)
  for (std::size_t row = 0; row < matrix.stored_rows; ++row) {
    foreign.decode_row(row, dst + row * cols);
    if (!kernels::all_finite(dst + row * cols, cols)) first_bad = std::min(first_bad, row);
  }
  if (first_bad == matrix.stored_rows) return;
  throw Error(context(matrix.module), "row " + std::to_string(first_bad) + " has values that are not finite");
}

std::vector<float> ModelSource::bias(Role role, std::size_t layer, std::size_t expert) const {
  if (!has_bias(spec_, layer, role)) return {};
  const StoredMatrix matrix = stored(role, layer, expert);
  std::vector<float> values(matrix.stored_rows);
  files::decode_floats(checked_slice(matrix, matrix.bias(), {static_cast<std::int64_t>(matrix.stored_rows)}),
                       context(matrix.bias()), values.data());
  multiply(stored_factor(role).bias, values);
  return own_rows(matrix, 1, std::move(values));
}

FloatWeights ModelSource::float_weights(Role role, std::size_t layer, std::size_t expert) const {
  const auto [rows, cols] = matrix_shape(spec_, layer, role);
  const StoredMatrix matrix = stored(role, layer, expert);
  std::vector<float> all(matrix.stored_rows * cols);
  if (matrix.foreign) {
    decode_foreign(matrix, cols, all.data());
  } else if (const TensorView view = checked_matrix(matrix, cols); matrix.mxfp4) {
    formats::decode_mxfp4(view.bytes, checked_scales(matrix, cols).bytes, context(matrix.scales()), all.data());
  } else {
    // A vocabulary's pages go as they are read: its values alone are as large as all else in memory.
    files::decode_floats(view, context(matrix.weight()), all.data(), [&] { checkpoint_->release(matrix.weight()); });
  }
  multiply(stored_factor(role).weights, all);
  FloatWeights weights{rows, cols, own_rows(matrix, cols, std::move(all))};
  multiply_by_vectors(role, layer, expert, weights);
  return weights;
}

std::unique_ptr<const formats::StoredQuantizedTensor> ModelSource::quantized_tensor(Role role, std::size_t layer,
                                                                                    std::size_t expert) const {
  if (!quantization_) return nullptr;
  const std::string module = name(role, layer, expert);
  const auto format = quantization_->tensors.find(module);
  if (format == quantization_->tensors.end() || !format->second.is_ballast_format()) return nullptr;
  const auto [rows, cols] = matrix_shape(spec_, layer, role);
  return std::make_unique<const formats::StoredQuantizedTensor>(*checkpoint_, module, format->second, rows, cols);
}

std::optional<Linear> ModelSource::quantized_linear(Role role, std::size_t layer, std::size_t expert) const {
  const auto stored = quantized_tensor(role, layer, expert);
  if (stored == nullptr) return {};
  Linear linear;
  linear.name = name(role, layer, expert);
  linear.bias = bias(role, layer, expert);
  kernels::QuantizedMatrix matrix(stored->view());
  stored->release();
  linear.activations =
      matrix.activation_quantization(quantization_->activations_of(linear.name), quantization_->activation_groups);
  linear.weights = std::move(matrix);
  return linear;
}

/// Of a matrix in a GGUF's blocks; empty where it is of plain floats.
std::optional<StoredCodes> ModelSource::block_codes(const StoredMatrix& matrix, std::size_t rows,
                                                    std::size_t cols) const {
  const TensorView view = checked_matrix(matrix, cols);
  if (dtype_info(view.dtype).block_elements == 1) return {};
  const std::string type(dtype_info(view.dtype).name);
  const std::size_t row_bytes = view.bytes.size() / matrix.stored_rows;
  const auto place = [order = matrix.rows](std::size_t row) { return order.empty() ? row : order[row]; };
  const auto reader = [=](bool (*read)(DType, const std::byte*, kernels::QuantizedRow&)) {
    return [=](std::size_t row, kernels::QuantizedRow& dst) {
      const std::size_t rows_at_once = kBytesHeldTwice / row_bytes + 1;
      const std::size_t stored_row = place(row);
      const bool finite = read(view.dtype, view.bytes.data() + stored_row * row_bytes, dst);
      if (stored_row >= rows_at_once && stored_row % rows_at_once == 0) {
        files::release_pages(view.bytes.subspan((stored_row - rows_at_once) * row_bytes, rows_at_once * row_bytes));
      }
      return finite;
    };
  };
  if (const auto form = files::quantized_form(view.dtype, rows, cols)) {
    return StoredCodes{.type = type, .form = *form, .read = reader(files::read_quantized_row)};
  }
  const std::size_t blocks = cols / dtype_info(view.dtype).block_elements;
  return StoredCodes{.type = type,
                     .form = files::rounded_form(rows, cols),
                     .exact = false,
                     .read = reader(files::round_row),
                     .decode = [=](std::size_t row, float* dst) {
                       files::decode_ggml_blocks(view.dtype, view.bytes.data() + place(row) * row_bytes, blocks, dst);
                     }};
}

std::optional<StoredCodes> ModelSource::foreign_codes(const StoredMatrix& matrix, std::size_t rows,
                                                      std::size_t cols) const {
  formats::CodecMatrix foreign = foreign_matrix(matrix, cols);
  if (!foreign.form) return {};
  foreign.form->rows = rows;
  return StoredCodes{
      .type = foreign_->checked_tensors(*checkpoint_, matrix.module, matrix.stored_rows, cols).type,
      .form = *std::move(foreign.form),
      .read = [read = std::move(foreign.read_row), order = matrix.rows](std::size_t row, kernels::QuantizedRow& dst) {
        read(order.empty() ? row : order[row], dst);
        return true;  // that they are was checked when they were read
      }};
}

bool ModelSource::is_rounded(Role role, std::size_t layer, std::size_t expert) const {
  const StoredMatrix matrix = stored(role, layer, expert);
  return matrix.foreign || matrix.mxfp4 || dtype_info(checkpoint_->tensor(matrix.weight()).dtype).block_elements > 1;
}

std::optional<StoredCodes> ModelSource::stored_codes(Role role, std::size_t layer, std::size_t expert) const {
  const StoredMatrix matrix = stored(role, layer, expert);
  if (matrix.mxfp4 || !can_keep_codes(matrix, role)) return {};
  const auto [rows, cols] = matrix_shape(spec_, layer, role);
  return matrix.foreign ? foreign_codes(matrix, rows, cols) : block_codes(matrix, rows, cols);
}

bool ModelSource::can_keep_codes(const StoredMatrix& matrix, Role role) const {
  return !changes_weights(role) && !matrix.transposed && matrix.cols.empty();
}

std::optional<Linear> ModelSource::linear_of_codes(Role role, std::size_t layer, std::size_t expert) const {
  if (code_activations_ == ActivationType::kFloat) return {};
  const std::optional<StoredCodes> codes = stored_codes(role, layer, expert);
  // With INT16 inputs, matrices whose values INT8 codes would round run as floats.
  if (!codes || (!codes->exact && code_activations_ == ActivationType::kInt16)) return {};
  std::atomic<bool> finite = true;
  kernels::QuantizedMatrix matrix(codes->form, [&](std::size_t row, kernels::QuantizedRow& dst) {
    if (!codes->read(row, dst)) finite = false;
  });
  const StoredMatrix source = stored(role, layer, expert);
  if (!finite) {
    throw Error(context(source.weight()),
                codes->exact ? "has scales that are not finite" : "has values that are not finite");
  }
  for (const std::string& tensor : checked_tensors(source, codes->form.cols)) checkpoint_->release(tensor);
  Linear linear;
  linear.name = name(role, layer, expert);
  linear.bias = bias(role, layer, expert);
  linear.activations = matrix.activation_quantization(code_activations_, true);
  linear.weights = std::move(matrix);
  return linear;
}

/// A matrix that can be multiplied as it lies in the file.
std::optional<kernels::FloatMatrix> ModelSource::mapped_floats(const StoredMatrix& matrix, Role role,
                                                               std::size_t layer) const {
  if (matrix.foreign) return {};
  const auto [rows, cols] = matrix_shape(spec_, layer, role);
  const TensorView view = checked_matrix(matrix, cols);
  const bool plain = view.dtype == DType::kF32 || view.dtype == DType::kF16 || view.dtype == DType::kBF16;
  // Rows that follow each other in the file can be read where they are.
  const bool in_order = std::ranges::adjacent_find(
                            matrix.rows, [](std::size_t a, std::size_t b) { return b != a + 1; }) == matrix.rows.end();
  if (!plain || !in_order || !matrix.cols.empty() || matrix.transposed || changes_weights(role)) return {};
  const kernels::FloatType type = view.dtype == DType::kF16    ? kernels::FloatType::kF16
                                  : view.dtype == DType::kBF16 ? kernels::FloatType::kBF16
                                                               : kernels::FloatType::kF32;
  const std::size_t first_row = matrix.rows.empty() ? 0 : matrix.rows.front();
  formats::check_finite(view, context(matrix.weight()));
  return kernels::FloatMatrix{.data = view.bytes.data() + first_row * cols * kernels::float_type_bytes(type),
                              .type = type,
                              .rows = rows,
                              .cols = cols};
}

Linear ModelSource::linear(Role role, std::size_t layer, std::size_t expert) const {
  if (std::optional<Linear> quantized = quantized_linear(role, layer, expert)) return *std::move(quantized);
  if (std::optional<Linear> of_codes = linear_of_codes(role, layer, expert)) return *std::move(of_codes);
  Linear linear;
  linear.name = name(role, layer, expert);
  FloatMatrixHolder holder;
  holder.compute = compute_;
  if (const auto mapped = mapped_floats(stored(role, layer, expert), role, layer)) {
    holder.matrix = *mapped;
  } else {
    FloatWeights weights = float_weights(role, layer, expert);
    holder.owned = std::move(weights.values);
    holder.matrix = {
        .data = holder.owned.data(), .type = kernels::FloatType::kF32, .rows = weights.rows, .cols = weights.cols};
  }
  linear.weights = std::move(holder);
  linear.bias = bias(role, layer, expert);  // after the matrix: where that is missing, it is the one to be named
  return linear;
}

}  // namespace ballast::model
