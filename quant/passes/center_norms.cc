#include <vector>

#include "quant/passes/fold_rules.h"
#include "quant/passes/passes.h"

namespace ballast::quant {

namespace {

/// Subtracts the mean over i from values[i * stride].
void center(float* values, std::size_t count, std::size_t stride) {
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += double{values[i * stride]};
  const double mean = sum / static_cast<double>(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i * stride] = static_cast<float>(double{values[i * stride]} - mean);
  }
}

/// Centers a table with look-ups: its rows are over the hidden channels.
void center_rows(WorkingLinear& table) {
  table.folds.inputs.add(model::AxisFolds::Centering{});
  table.change([rows = table.rows, cols = table.cols](float* values) {
#pragma omp parallel for
    for (std::size_t r = 0; r < rows; ++r) center(values + r * cols, cols, 1);
  });
}

/// Centers a linear that writes hidden channels: its columns and its bias are over them.
void center_columns(WorkingLinear& linear) {
  linear.folds.outputs.add(model::AxisFolds::Centering{});
  if (!linear.bias.empty()) center(linear.bias.data(), linear.rows, 1);
  linear.change([rows = linear.rows, cols = linear.cols](float* values) {
#pragma omp parallel for
    for (std::size_t c = 0; c < cols; ++c) center(values + c, rows, cols);
  });
}

class CenterNorms : public Pass {
 public:
  explicit CenterNorms(const ModelSpec& spec) : ruling_(layer_norm_to_rms(spec)) {}

  void run(WorkingBlock& block) override {
    if (!ruling_.legal) return;
    for (WorkingLinear& linear : block.linears) {
      if (is_embedding(linear.part.role)) {
        center_rows(linear);
      } else if (writes_stream(linear.part.role)) {
        center_columns(linear);
      } else {
        continue;
      }
      linear.absmax *= 2;  // a mean is at most as large as the largest value
      ++matrices_;
    }
  }

  void update_spec(ModelSpec& spec) const override {
    if (ruling_.legal) spec.norm.kind = NormSpec::Kind::kRms;
  }

  std::string note() const override {
    if (!ruling_.legal) return "center_norms: the LayerNorms stay, because " + ruling_.reason;
    return "center_norms: LayerNorms became RMSNorms, " + std::to_string(matrices_) + " matrices are centred";
  }

 private:
  FoldLegality ruling_;
  std::size_t matrices_ = 0;
};

}  // namespace

std::unique_ptr<Pass> make_center_norms(const ModelSpec& spec) {
  return std::make_unique<CenterNorms>(spec);
}

}  // namespace ballast::quant
