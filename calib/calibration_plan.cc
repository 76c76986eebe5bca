#include "calib/calibration_plan.h"

#include <algorithm>

#include "calib/prefix.h"
#include "calib/samples.h"
#include "jobs/memory.h"
#include "jobs/plan.h"
#include "jobs/sharded_sum.h"
#include "model/structure/block_structure.h"
#include "samples/block_runner.h"
#include "samples/pass_costs.h"

namespace ballast::calib {

namespace {

// The factor of norms, activations, softmax and the accumulation of statistics on the time of the products
// (SmolLM2-135M, Zen 4).
constexpr double kBesidesProducts = 1.35;

/// Returns the layer with the most weights, the last of equal ones.
std::size_t largest_layer(const ModelSpec& spec) {
  std::size_t largest = 0;
  std::size_t most = 0;
  for (std::size_t layer = 0; layer < spec.layers.size(); ++layer) {
    std::size_t weights = 0;
    for (const model::Part& part : model::block_linears(spec, layer)) {
      const auto [rows, cols] = model::matrix_shape(spec, layer, part.role);
      weights += rows * cols;
    }
    if (weights < most) continue;
    largest = layer;
    most = weights;
  }
  return largest;
}

/// Forecasts the cost of a rank with its samples.
class Forecast {
 public:
  Forecast(const model::ModelSource& source, const model::EmbeddingAndHead& outer, const CalibrateOptions& options)
      : spec_(source.spec()),
        options_(options),
        finds_prefix_(options.prefix.automatic && source.prefix_tokens().empty()),
        held_(jobs::resident_memory()),
        layer_(largest_layer(spec_)),
        block_(samples::block_costs(spec_, layer_, source.block(layer_))) {
    source.release_block(layer_);
    outer_weights_ = static_cast<double>(outer.head_linear().rows() * outer.head_linear().cols());
    outer_bytes_ = outer.streamed_bytes();
  }

  std::uint64_t memory(std::size_t samples) const {
    return held_ + std::max(blocks_memory(samples), writing_memory(samples));
  }

  double seconds(std::size_t samples) const {
    const double tokens = static_cast<double>(samples * options_.length);
    const double blocks = tokens * static_cast<double>(spec_.layers.size()) *
                          (block_.multiply_adds + samples::attention_multiply_adds(spec_, layer_, options_.length));
    const double passes = finds_prefix_ ? 2 : 1;
    double seconds = passes * blocks / samples::multiply_adds_per_second(samples::kBatchTokens);
    if (options_.text_files.empty()) {
      seconds += (blocks + tokens * outer_weights_) / samples::multiply_adds_per_second(texts_at_once(samples));
    }
    return seconds * kBesidesProducts;
  }

 private:
  std::size_t texts_at_once(std::size_t samples) const {
    return spec_.causal ? std::min(samples, kSequencesAtOnce) : options_.length;
  }

  // Everything but the residual stream is the same for any number of samples. Weights outside the blocks were read for
  // their check, so they are already in memory.
  std::uint64_t blocks_memory(std::size_t samples) const {
    const std::uint64_t batch = std::max(samples::kBatchTokens, options_.length);
    const std::uint64_t streams = spec_.encoder ? 2 : 1;
    const std::uint64_t stream = streams * spec_.hidden_size * sizeof(float) + 1;
    const std::uint64_t prefixes = (batch / options_.length + 1) * most_tokens(options_.prefix);
    return samples * options_.length * stream + batch * block_.activation_bytes +
           (batch + prefixes) * block_.cache_bytes + block_.weight_bytes;
  }

  // While the model generates its own text, it is completely in memory.
  std::uint64_t writing_memory(std::size_t samples) const {
    if (!options_.text_files.empty()) return 0;
    const std::uint64_t at_once = spec_.causal ? texts_at_once(samples) : 1;
    const std::uint64_t logits = texts_at_once(samples) * spec_.vocab_size * sizeof(float);
    const std::uint64_t candidates = at_once * spec_.vocab_size * 2 * sizeof(double);
    // Caches have 16 bits.
    return spec_.layers.size() * (block_.weight_bytes + at_once * options_.length * block_.cache_bytes / 2) +
           outer_bytes_ + logits + candidates;
  }

  const ModelSpec& spec_;
  const CalibrateOptions& options_;
  bool finds_prefix_;
  std::uint64_t held_ = 0;
  std::size_t layer_;  ///< the costs of all are forecast from this one
  samples::BlockCosts block_;
  double outer_weights_ = 0;
  std::uint64_t outer_bytes_ = 0;
};

}  // namespace

JobPlan plan_calibration(const model::ModelSource& source, const model::EmbeddingAndHead& outer,
                         const CalibrateOptions& options, std::size_t samples, const Ranks& ranks) {
  const Forecast forecast(source, outer, options);
  const std::size_t mine = jobs::samples_of_rank(ranks.rank(), ranks.size(), samples).size();
  JobPlan plan = jobs::plan_memory(
      {.samples = samples, .length = options.length, .ranks = ranks.size()},
      [&](std::size_t own) { return forecast.memory(own); }, mine);
  if (options.on_plan) plan.seconds = forecast.seconds(mine);  // measuring the speed takes a moment
  return plan;
}

}  // namespace ballast::calib
