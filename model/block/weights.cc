#include "model/block/weights.h"

#include <algorithm>
#include <array>
#include <cassert>

#include "kernels/norm.h"
#include "kernels/parallel.h"
#include "model/block/adapter.h"

namespace ballast::model {

std::size_t Linear::rows() const {
  if (const auto* plain = std::get_if<FloatMatrixHolder>(&weights)) return plain->matrix.rows;
  return std::get<kernels::QuantizedMatrix>(weights).rows();
}

std::size_t Linear::cols() const {
  if (const auto* plain = std::get_if<FloatMatrixHolder>(&weights)) return plain->matrix.cols;
  return std::get<kernels::QuantizedMatrix>(weights).cols();
}

std::size_t Linear::bytes() const {
  if (const auto* plain = std::get_if<FloatMatrixHolder>(&weights)) {
    return plain->matrix.rows * plain->matrix.cols * kernels::float_type_bytes(plain->matrix.type);
  }
  return std::get<kernels::QuantizedMatrix>(weights).bytes();
}

namespace {

const float* bias_of(const Linear& linear) {
  return linear.bias.empty() ? nullptr : linear.bias.data();
}

kernels::QuantizedOutput quantized_output(const LinearOutput& output, const kernels::QuantizedActivations& src) {
  kernels::QuantizedOutput product = {.src = &src,
                                      .matrix = &std::get<kernels::QuantizedMatrix>(output.linear->weights),
                                      .bias = bias_of(*output.linear),
                                      .dst = output.dst,
                                      .stride = output.stride,
                                      .accumulate = output.accumulate};
  if (output.gate == nullptr) return product;
  product.gate = &std::get<kernels::QuantizedMatrix>(output.gate->weights);
  product.gate_bias = bias_of(*output.gate);
  product.activation = output.activation;
  return product;
}

/// Products of one input with several linears. Products of the same kind are computed together.
class ProductBatch {
 public:
  ProductBatch(const LinearRows& rows, std::size_t m, kernels::QuantizedActivations& activations)
      : rows_(rows), m_(m), activations_(activations) {}

  void add(const LinearOutput& output) {
    if (std::holds_alternative<FloatMatrixHolder>(output.linear->weights)) {
      add_float(output);
    } else {
      add_quantized(output);
    }
  }

  void run() {
    if (floats_ != 0) run_floats();
    if (quantized_ != 0) kernels::matmul(std::span(quantized_products_).first(quantized_));
    floats_ = quantized_ = 0;
  }

 private:
  static constexpr std::size_t kMost = 4;  // queries, keys, values and a gate

  void run_floats() {
    const auto products = std::span(float_products_).first(floats_);
    kernels::matmul(products, rows_.all(m_), m_, compute_);
  }

  void add_float(const LinearOutput& output) {
    const auto& weights = std::get<FloatMatrixHolder>(output.linear->weights);
    if (floats_ == kMost || weights.compute != compute_) run();
    compute_ = weights.compute;
    float_products_[floats_++] = {.matrix = &weights.matrix,
                                  .bias = bias_of(*output.linear),
                                  .dst = output.dst,
                                  .stride = output.stride,
                                  .accumulate = output.accumulate};
  }

  void add_quantized(const LinearOutput& output) {
    const Linear& linear = *output.linear;
    const bool same_form = format_ != nullptr && *format_ == *linear.activations;
    if (!same_form || quantized_ == kMost) run();
    if (!same_form) {
      format_ = &*linear.activations;
      activations_.quantize(rows_.source(), m_, *format_);
    }
    quantized_products_[quantized_++] = quantized_output(output, activations_);
  }

  const LinearRows& rows_;
  std::size_t m_;
  kernels::QuantizedActivations& activations_;
  const kernels::ActivationQuantization* format_ = nullptr;  ///< the format of the rows in activations_, or null
  std::array<kernels::FloatOutput, kMost> float_products_{};
  std::array<kernels::QuantizedOutput, kMost> quantized_products_{};
  ComputeOptions compute_;  ///< of the floats
  std::size_t floats_ = 0;
  std::size_t quantized_ = 0;
};

/// Adds what one adapter adds to its rows of the outputs.
void list_added(const AdapterPart& adapter, std::span<const std::size_t> rows, std::span<const LinearOutput> outputs,
                std::vector<kernels::LowRankProduct>& products) {
  for (const LinearOutput& output : outputs) {
    assert(output.gate == nullptr);
    const AddedLinear* added = adapter.find(output.linear->part);
    if (added == nullptr) continue;
    products.push_back({.matrix = &added->matrix,
                        .bias = added->bias.empty() ? nullptr : added->bias.data(),
                        .row_indices = rows,
                        .dst = output.dst,
                        .stride = output.stride});
  }
}

/// Adds what the step's adapters add to the outputs, whose other parts have been computed.
void apply_adapters(std::span<const LinearOutput> outputs, const LinearRows& input, const StepRows& step,
                    LinearScratch& scratch) {
  const std::span<const AdapterPart* const> adapters = step.adapters();
  scratch.added.clear();
  scratch.adapted_rows.clear();
  scratch.adapted_rows.reserve(step.count());  // a row has one adapter, so that the spans below stay
  for (std::size_t i = 0; i < adapters.size(); ++i) {
    const AdapterPart* own = adapters[i];
    if (own == nullptr || std::ranges::find(adapters.first(i), own) != adapters.first(i).end()) continue;
    const std::size_t first = scratch.adapted_rows.size();
    for (std::size_t sequence = i; sequence < adapters.size(); ++sequence) {
      if (adapters[sequence] == own) step.add_rows_of(sequence, scratch.adapted_rows);
    }
    const auto rows = std::span<const std::size_t>(scratch.adapted_rows).subspan(first);
    if (!rows.empty()) list_added(*own, rows, outputs, scratch.added);
  }
  if (!scratch.added.empty()) kernels::add_low_rank(scratch.added, input.all(step.count()), scratch.low_rank);
}

}  // namespace

const float* LinearRows::all(std::size_t count) const {
  if (const float* rows = source_.in_memory()) return rows;
  constexpr std::size_t kOperationsOfAValue = 8;
  kernels::parallel_ranges(count, kernels::threads_for(count * cols_ * kOperationsOfAValue),
                           [&](std::size_t begin, std::size_t end) {
                             for (std::size_t i = begin; i < end; ++i) {
                               float* row = dense_ + i * cols_;
                               if (const float* made = source_.row(i, row); made != row) std::copy_n(made, cols_, row);
                             }
                           });
  return dense_;
}

Linear in_panels(Linear linear) {
  if (auto* plain = std::get_if<FloatMatrixHolder>(&linear.weights)) {
    plain->panels.emplace(plain->matrix);
    plain->matrix = plain->panels->matrix();
    plain->owned = std::vector<float>();  // an assignment of {} would keep the memory
  }
  return linear;
}

bool lies_in_file(const Linear& linear) {
  const auto* plain = std::get_if<FloatMatrixHolder>(&linear.weights);
  return plain != nullptr && plain->owned.empty() && plain->copied.empty() && !plain->panels;
}

Linear in_own_memory(Linear linear) {
  if (!lies_in_file(linear)) return linear;
  auto* plain = std::get_if<FloatMatrixHolder>(&linear.weights);
  const auto* bytes = static_cast<const std::byte*>(plain->matrix.data);
  const std::size_t size = plain->matrix.rows * plain->matrix.cols * kernels::float_type_bytes(plain->matrix.type);
  plain->copied.assign(bytes, bytes + size);
  plain->matrix.data = plain->copied.data();
  return linear;
}

bool multiplied_by_gate(const Linear& linear, const Linear& gate, const StepRows& step) {
  if (!step.adapters().empty()) return false;
  const bool quantized = std::holds_alternative<kernels::QuantizedMatrix>(linear.weights) &&
                         std::holds_alternative<kernels::QuantizedMatrix>(gate.weights);
  return quantized && linear.activations == gate.activations && linear.rows() == gate.rows();
}

void apply(std::span<const LinearOutput> outputs, const LinearRows& rows, const StepRows& step,
           LinearScratch& scratch) {
  const std::size_t count = step.count();
  const auto is_float = [](const LinearOutput& output) {
    return std::holds_alternative<FloatMatrixHolder>(output.linear->weights);
  };
  const bool in_memory = !step.adapters().empty() || std::ranges::any_of(outputs, is_float);
  const LinearRows input = in_memory ? rows.in_memory(count) : rows;
  ProductBatch batch(input, count, scratch.activations);
  for (const LinearOutput& output : outputs) batch.add(output);
  batch.run();
  if (!step.adapters().empty()) apply_adapters(outputs, input, step, scratch);
}

bool can_apply_ragged(std::span<const LinearOfRows> linears) {
  for (std::size_t i = 0; i < linears.size(); ++i) {
    const LinearOutput& output = linears[i].output;
    if (!output.linear->activations) return false;
    if (output.gate != nullptr && output.gate->activations != output.linear->activations) return false;
    const bool shares_rows = i > 0 && linears[i].first == linears[i - 1].first;
    if (shares_rows && linears[i - 1].output.linear->activations != output.linear->activations) return false;
  }
  return true;
}

void apply_ragged(std::span<const LinearOfRows> linears, const LinearRows& rows,
                  std::vector<kernels::QuantizedActivations>& scratch) {
  assert(can_apply_ragged(linears));
  if (scratch.size() < linears.size()) scratch.resize(linears.size());  // there are at most as many runs
  std::vector<kernels::QuantizedActivations::Run> runs;
  std::vector<kernels::QuantizedOutput> products;
  products.reserve(linears.size());
  for (const LinearOfRows& linear : linears) {
    const kernels::ActivationQuantization& format = *linear.output.linear->activations;
    if (runs.empty() || *runs.back().format != format) {
      runs.push_back({.dst = &scratch[runs.size()], .format = &format, .first = linear.first});
    }
    kernels::QuantizedActivations::Run& run = runs.back();
    run.count = linear.first + linear.count - run.first;
    products.push_back(quantized_output(linear.output, *run.dst));
    products.back().first_token = linear.first - run.first;
    products.back().tokens = linear.count;
  }
  kernels::QuantizedActivations::quantize(rows.source(), runs);
  kernels::matmul(products);
}

void decode_row(const Linear& linear, std::size_t row, float* dst) {
  assert(row < linear.rows());
  if (const auto* plain = std::get_if<FloatMatrixHolder>(&linear.weights)) {
    return kernels::decode_row(plain->matrix, row, dst);
  }
  std::get<kernels::QuantizedMatrix>(linear.weights).decode_row(row, dst);
}

void Norm::apply(const float* src, std::size_t m, float* dst) const {
  const kernels::NormParameters parameters = {
      .gain = gain.data(), .bias = bias.empty() ? nullptr : bias.data(), .epsilon = epsilon};
  const auto normalize = kind == NormSpec::Kind::kRms ? kernels::rms_norm : kernels::layer_norm;
  normalize(src, m, gain.size(), parameters, dst);
}

}  // namespace ballast::model
