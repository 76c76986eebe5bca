#include "model/source/tensor_decoder.h"

#include <algorithm>
#include <utility>

#include "ballast/error.h"
#include "formats/codecs/mxfp4.h"
#include "formats/decode_floats.h"
#include "kernels/statistics.h"
#include "model/arch/gguf_storage.h"
#include "model/structure/block_structure.h"

namespace ballast::model {

namespace {

void multiply(double factor, std::vector<float>& values) {
  if (factor == 1.0) return;
  for (float& value : values) value = static_cast<float>(double{value} * factor);
}

/// Returns the rows of a matrix out of all rows of its tensor, of `cols` values each.
std::vector<float> own_rows(const MatrixLocation& matrix, std::size_t cols, std::vector<float> all) {
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

/// Multiplies values [any rows][cols] by what the checkpoint stores apart from them.
void TensorDecoder::multiply_by_vector(const StoredVector& vector, std::size_t layer, std::size_t expert,
                                       std::size_t cols, std::vector<float>& values) const {
  const std::vector<float> factors = floats(locator_.vector_name(vector, layer), locator_.vector_shape(vector, layer));
  switch (vector.multiplies) {
    case StoredVector::Multiplies::kInputs:
      for (std::size_t i = 0; i < values.size(); ++i) values[i] *= factors[i % cols];
      break;
    case StoredVector::Multiplies::kExpertOutputs:
      multiply(factors[expert], values);
      break;
  }
}

void TensorDecoder::decode_codec(const MatrixLocation& matrix, std::size_t cols, float* dst) const {
  const formats::StoredCodes codes = locator_.codec_codes(matrix, cols);
  std::size_t first_bad = matrix.stored_rows;
#pragma omp parallel for schedule(static) reduction(min : first_bad)
  for (std::size_t row = 0; row < matrix.stored_rows; ++row) {
    codes.decode_row(row, dst + row * cols);
    if (!kernels::all_finite(dst + row * cols, cols)) first_bad = std::min(first_bad, row);
  }
  if (first_bad == matrix.stored_rows) return;
  throw Error(locator_.context(matrix.module), "row " + std::to_string(first_bad) + " has values that are not finite");
}

std::vector<float> TensorDecoder::bias(Role role, std::size_t layer, std::size_t expert) const {
  if (!has_bias(locator_.spec(), layer, role)) return {};
  const MatrixLocation matrix = locator_.stored(role, layer, expert);
  std::vector<float> values(matrix.stored_rows);
  formats::decode_floats(locator_.checked_slice(matrix, matrix.bias(), {static_cast<std::int64_t>(matrix.stored_rows)}),
                         locator_.context(matrix.bias()), values.data());
  multiply(locator_.stored_factor(role).bias, values);
  return own_rows(matrix, 1, std::move(values));
}

std::optional<LoraProduct> TensorDecoder::lora_product(const LoraAdapter& adapter, Role role, std::size_t layer,
                                                       std::size_t expert) const {
  const TensorLocator::Adapted adapted = locator_.adapted(adapter, role, layer, expert);
  if (adapted.module == nullptr) return {};
  LoraProduct product = adapter.product(*adapted.module);
  product.scale *= static_cast<float>(locator_.family_factor(role).weights);
  const std::size_t rank = product.rank;
  if (!adapted.rows.empty()) {
    std::vector<float> up;
    up.reserve(adapted.rows.size() * rank);
    for (const std::size_t row : adapted.rows) {
      const auto from = product.up.begin() + static_cast<std::ptrdiff_t>(row * rank);
      up.insert(up.end(), from, from + static_cast<std::ptrdiff_t>(rank));
    }
    product.up = std::move(up);
    product.outputs = adapted.rows.size();
  }
  if (!adapted.cols.empty()) {
    const std::vector<float> down = product.down;
    for (std::size_t i = 0; i < down.size(); ++i) {
      product.down[i] = down[i / product.inputs * product.inputs + adapted.cols[i % product.inputs]];
    }
  }
  for (const StoredVector& vector : locator_.stored_vectors()) {
    if (vector.role == role) multiply_by_vector(vector, layer, expert, product.inputs, product.down);
  }
  return product;
}

FloatWeights TensorDecoder::float_weights(Role role, std::size_t layer, std::size_t expert) const {
  const auto [rows, cols] = matrix_shape(locator_.spec(), layer, role);
  const MatrixLocation matrix = locator_.stored(role, layer, expert);
  std::vector<float> all(matrix.stored_rows * cols);
  if (matrix.foreign) {
    decode_codec(matrix, cols, all.data());
  } else if (const TensorView view = locator_.checked_matrix(matrix, cols); matrix.mxfp4) {
    formats::decode_mxfp4(view.bytes, locator_.checked_scales(matrix, cols).bytes, locator_.context(matrix.scales()),
                          all.data());
  } else {
    // The pages of a vocabulary are released as they are read: its values alone take as much memory as everything else.
    formats::decode_floats(view, locator_.context(matrix.weight()), all.data(),
                           [&] { locator_.checkpoint().release(matrix.weight()); });
  }
  FloatWeights weights{rows, cols, own_rows(matrix, cols, std::move(all))};
  multiply(locator_.stored_factor(role).weights, weights.values);
  for (const StoredVector& vector : locator_.stored_vectors()) {
    if (vector.role == role) multiply_by_vector(vector, layer, expert, cols, weights.values);
  }
  if (locator_.adapter() == nullptr) return weights;
  if (const std::optional<LoraProduct> product = lora_product(*locator_.adapter(), role, layer, expert)) {
    const std::vector<float> added = product->values();
    for (std::size_t i = 0; i < added.size(); ++i) weights.values[i] += added[i];
  }
  return weights;
}

std::vector<float> TensorDecoder::float_rows(Role role, std::size_t first, std::size_t count) const {
  const MatrixLocation matrix = locator_.stored(role, 0, 0);
  const std::size_t cols = matrix_shape(locator_.spec(), 0, role).second;
  const bool as_stored = !matrix.foreign && !matrix.mxfp4 && !matrix.transposed && matrix.rows.empty() &&
                         matrix.cols.empty() && !locator_.changes_weights(role, 0, 0);
  std::vector<float> values(count * cols);
  if (!as_stored) {
    const FloatWeights all = float_weights(role, 0, 0);
    std::copy_n(all.values.begin() + static_cast<std::ptrdiff_t>(first * cols), values.size(), values.begin());
    return values;
  }
  TensorView view = locator_.checked_matrix(matrix, cols);
  const std::size_t row_bytes = view.bytes.size() / matrix.stored_rows;
  view.bytes = view.bytes.subspan(first * row_bytes, count * row_bytes);
  view.shape = {static_cast<std::int64_t>(count), static_cast<std::int64_t>(cols)};
  formats::decode_floats(view, locator_.context(matrix.weight()), values.data());
  return values;
}

std::vector<float> TensorDecoder::floats(const std::string& name, const Shape& shape) const {
  const TensorView view = locator_.checked_tensor(name, shape);
  std::vector<float> values(static_cast<std::size_t>(element_count(shape)));
  formats::decode_floats(view, locator_.context(name), values.data());
  return values;
}

std::vector<float> TensorDecoder::vector(Role role, std::size_t layer) const {
  std::vector<float> values(matrix_shape(locator_.spec(), layer, role).second);
  const std::string name = locator_.vector_tensor(role, layer);
  formats::decode_floats(locator_.checked_vector(name, role, layer, values.size()), locator_.context(name),
                         values.data());
  if (!locator_.layout().gguf) return values;
  decode_gguf_vector(role, locator_.context(name), values);
  const std::vector<std::size_t> order =
      gguf_head_order(*locator_.layout().architecture, locator_.spec().layers[layer], role).rows;
  if (order.empty()) return values;
  std::vector<float> ordered;
  for (const std::size_t stored : order) ordered.push_back(values[stored]);
  return ordered;
}

std::vector<float> TensorDecoder::gain(Role norm, std::size_t layer) const {
  const std::size_t size = matrix_shape(locator_.spec(), layer, norm).second;
  const std::vector<std::string> tensors = locator_.gain_tensors(norm, layer);
  std::vector<float> gains(size, 1.0F);
  float* next = gains.data();
  for (const std::string& tensor : tensors) {
    formats::decode_floats(locator_.checked_vector(tensor, norm, layer, size / tensors.size()),
                           locator_.context(tensor), next);
    next += size / tensors.size();
  }
  if (norm != Role::kQueryNorm && norm != Role::kKeyNorm) return gains;
  const std::vector<std::size_t> order =
      head_channel_order(locator_.layout(), locator_.spec().layers[layer], norm, size);
  if (order.empty()) return gains;
  std::vector<float> ordered;
  ordered.reserve(size);
  for (const std::size_t channel : order) ordered.push_back(gains[channel]);
  return ordered;
}

Norm TensorDecoder::norm(Role role, std::size_t layer) const {
  const NormSpec spec = norm_spec(locator_.spec(), layer, role);
  const Shape shape = {static_cast<std::int64_t>(matrix_shape(locator_.spec(), layer, role).second)};
  Norm norm{.kind = spec.kind, .epsilon = static_cast<float>(spec.epsilon), .gain = gain(role, layer), .bias = {}};
  for (float& value : norm.gain) value += static_cast<float>(spec.gain_offset);
  if (spec.bias) norm.bias = floats(locator_.norm_bias_tensor(role, layer), shape);
  return norm;
}

}  // namespace ballast::model
