#include "quant/conversion/second_rounding.h"

#include <cmath>
#include <vector>

#include "kernels/matrix/quantized_matrix.h"

namespace ballast::quant {

void SecondRounding::add(const WorkingBlock& block) {
  if (source_.quantization()) return;
  for (const WorkingLinear& linear : block.linears) {
    ModuleId id = block.id_of(linear);
    if (is_vocabulary(id.role) && id.expert > 0) continue;  // the first of its ranges stands for the matrix
    // An untied head was rounded as the embedding.
    if (id.role == model::Role::kHead && source_.spec().tied_embeddings) id.role = model::Role::kEmbedding;
    if (linear.quantized && source_.is_rounded(id.role, id.layer, id.expert)) add(linear, id);
  }
}

void SecondRounding::add(const WorkingLinear& linear, const ModuleId& id) {
  ++matrices_;
  const kernels::QuantizedMatrix rounded = linear.quantized->packed();
  const LinearValues values(linear);
  std::vector<float> row(linear.cols);
  for (const std::size_t r : model::sampled_rows(linear.rows)) {
    rounded.decode_row(r, row.data());
    for (std::size_t c = 0; c < linear.cols; ++c) {
      const double value = values.data()[r * linear.cols + c];
      const double error = double{row[c]} - value;
      second_ += {error * error, value * value};
    }
  }
  const std::optional<formats::StoredCodes> codes = source_.stored_codes(id.role, id.layer, id.expert);
  if (codes && first_type_.empty()) first_type_ = codes->type;
  if (codes && codes->exact) {
    first_ += model::estimated_rounding(*codes);
  } else {
    ++unknown_;
  }
}

std::optional<std::string> SecondRounding::note() const {
  if (matrices_ == 0) return {};
  std::string text = "rounded twice: " + std::to_string(matrices_) + (matrices_ == 1 ? " matrix" : " matrices");
  if (!first_type_.empty()) text += ", the first in " + first_type_;
  text += ". Weights are off by " + model::percent_text(second_.ratio()) + " by this rounding";
  if (unknown_ < matrices_) {
    text += ", by about " + model::percent_text(first_.ratio()) + " by the one before, together by " +
            model::percent_text(std::hypot(first_.ratio(), second_.ratio()));
  } else {
    text += ", on top of the one before";
  }
  if (unknown_ > 0 && unknown_ < matrices_) {
    text += " (the error of " + std::to_string(unknown_) + " of them is unknown)";
  }
  return text + ": the original model would lose less";
}

}  // namespace ballast::quant
