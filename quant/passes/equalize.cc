#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "model/mixer/mixer_kind.h"
#include "quant/passes/fold_arithmetic.h"
#include "quant/passes/fold_rules.h"
#include "quant/passes/passes.h"

namespace ballast::quant {

namespace {

using model::Role;

/// Returns the largest magnitude of each row.
std::vector<float> row_ranges(const WorkingLinear& linear) {
  std::vector<float> ranges(linear.rows, 0.0F);
  const LinearValues values(linear);
#pragma omp parallel for
  for (std::size_t r = 0; r < linear.rows; ++r) {
    const float* row = values.data() + r * linear.cols;
    for (std::size_t c = 0; c < linear.cols; ++c) ranges[r] = std::max(ranges[r], std::abs(row[c]));
  }
  return ranges;
}

std::vector<float> column_ranges(const WorkingLinear& linear) {
  std::vector<float> ranges(linear.cols, 0.0F);
  const LinearValues values(linear);
  for (std::size_t r = 0; r < linear.rows; ++r) {
    const float* row = values.data() + r * linear.cols;
    for (std::size_t c = 0; c < linear.cols; ++c) ranges[c] = std::max(ranges[c], std::abs(row[c]));
  }
  return ranges;
}

/// Returns sqrt(consumer / producer), rounded to the nearest power of two, by which multiplication is exact.
float balancing_factor(float producer, float consumer) {
  if (producer == 0 || consumer == 0) return 1.0F;
  return std::exp2(std::nearbyint(0.5F * (std::log2(consumer) - std::log2(producer))));
}

class Equalize : public Pass {
 public:
  explicit Equalize(const ModelSpec& spec) : spec_(spec) {
    for (const LayerSpec& layer : spec.layers) {
      const FoldLegality up = up_scaling(layer.mlp);
      if (!up.legal && why_not_up_.empty()) why_not_up_ = up.reason;
    }
  }

  void run(WorkingBlock& block) override {
    if (!block.layer) return;
    const LayerSpec& layer = spec_.layers[*block.layer];
    const std::optional<model::ValuePath> path = model::value_path(layer);
    if (path && path->scaling.legal) balance(block, {path->value}, {path->output}, HeadSharing(*path));
    if (!up_scaling(layer.mlp).legal) return;
    balance(block, {Role::kUp}, {Role::kDown});
    balance(block, {Role::kSharedUp}, {Role::kSharedDown});
    const std::size_t experts = layer.mlp.experts ? layer.mlp.experts->count : 0;
    for (std::size_t i = 0; i < experts; ++i) balance(block, {Role::kExpertUp, i}, {Role::kExpertDown, i});
  }

  std::string note() const override {
    return "equalize: " + std::to_string(pairs_) + " pairs of matrices share their ranges" +
           (why_not_up_.empty() ? "" : "; up and down do not, because " + why_not_up_);
  }

 private:
  /// Multiplies rows of the producer by s, and divides columns of the consumer by s.
  void balance(WorkingBlock& block, model::Part from, model::Part to, const HeadSharing& heads = {}) {
    WorkingLinear* producer = block.find(from.role, from.expert);
    WorkingLinear* consumer = block.find(to.role, to.expert);
    if (producer == nullptr || consumer == nullptr) return;
    ++pairs_;
    // With s = sqrt(c / p), s p and c / s are sqrt(p c); s differs by at most sqrt(2). This also holds while planning.
    const float bound = std::sqrt(2.0F * producer->absmax * consumer->absmax);
    const float producer_bound = std::max(producer->absmax, bound);
    const float consumer_bound = std::max(consumer->absmax, bound);
    if (producer->has_values()) {
      const std::vector<float> factors = factors_for(*producer, *consumer, heads);
      scale_rows(*producer, factors);
      const std::vector<float> repeated = repeat_for_heads(factors, heads);
      std::vector<float> inverse(repeated.size());
      std::ranges::transform(repeated, inverse.begin(), [](float factor) { return 1.0F / factor; });
      scale_columns(*consumer, inverse);
      if (ChannelStatistics* channels = block.input_statistics(*consumer)) scale_channels(*channels, repeated);
    }
    producer->absmax = producer_bound;
    consumer->absmax = consumer_bound;
  }

  /// Returns one factor per row of the producer. All heads that share a value channel have the same one.
  static std::vector<float> factors_for(const WorkingLinear& producer, const WorkingLinear& consumer,
                                        const HeadSharing& heads) {
    const std::vector<float> rows = row_ranges(producer);
    const std::vector<float> columns = column_ranges(consumer);
    std::vector<float> factors(rows.size());
    for (std::size_t r = 0; r < rows.size(); ++r) {
      float largest = 0;
      for (std::size_t head = 0; head < heads.sharing; ++head) {
        const std::size_t first = ((r / heads.size) * heads.sharing + head) * heads.size;
        largest = std::max(largest, columns[first + r % heads.size]);
      }
      factors[r] = balancing_factor(rows[r], largest);
    }
    return factors;
  }

  ModelSpec spec_;
  std::string why_not_up_;  ///< of the first layer in which it is not legal
  std::size_t pairs_ = 0;
};

}  // namespace

std::unique_ptr<Pass> make_equalize(const ModelSpec& spec) {
  return std::make_unique<Equalize>(spec);
}

}  // namespace ballast::quant
