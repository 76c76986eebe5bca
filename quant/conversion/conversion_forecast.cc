#include "quant/conversion/conversion_forecast.h"

#include <algorithm>
#include <cmath>

#include "jobs/memory.h"
#include "jobs/plan.h"
#include "kernels/float_gemm.h"
#include "kernels/parallel.h"
#include "quant/search/sensitivity.h"
#include "samples/block_runner.h"
#include "samples/pass_costs.h"

namespace ballast::quant {

namespace {

// Seconds that one core takes for a weight (SmolLM2-135M and Qwen2.5-1.5B's shape, Zen 4).
constexpr double kGridSearch = 1.1e-7;    // the best of all ranges of a group, once
constexpr double kCandidates = 21;        // formats of a matrix: as many as ballast's own files have
constexpr double kSmoothSearch = 6e-8;    // on a part of the rows, for all strengths
constexpr double kLoadAndStore = 2.5e-8;  // decoding, passes, packing, checksum
// The time of a forward pass relative to its products: it includes attention's softmax, norms and activations.
constexpr double kBesidesProducts = 1.3;
// The time of quantized blocks relative to floating point.
constexpr double kQuantizedPass = 0.7;
// The speed of factorizations relative to products, in multiply-adds per second: the tiles on the diagonal use one
// thread.
constexpr double kFactorShare = 0.5;

double seconds_of(const ConversionInputs& inputs, const PassesBefore& passes, std::size_t own_samples,
                  std::size_t length) {
  const BlockWork& block = inputs.work();
  const ModelSpec& spec = inputs.source().spec();
  const auto tokens = static_cast<double>(own_samples * length);
  const auto ranks = static_cast<double>(inputs.ranks().size());
  const bool int8_activations = inputs.recipe().activations == ActivationType::kInt8;
  const double speed = samples::multiply_adds_per_second(samples::kBatchTokens);
  const bool in_bf16 = kernels::multiplies_bf16();
  // The speed of measurements, and of samples while blocks are rounded.
  const double quick = in_bf16 ? samples::multiply_adds_per_second(samples::kBatchTokens, in_bf16) : speed;
  const bool coarse = inputs.precision() == SamplePrecision::kCoarse;
  const double measured = coarse ? quick : speed;
  const auto threads = static_cast<double>(kernels::available_threads());
  const double head = static_cast<double>(spec.vocab_size) * static_cast<double>(spec.embedding_channels());
  const double layers = static_cast<double>(spec.layers.size());
  const double products = block.products + block.attention * static_cast<double>(length);
  const double pass = tokens * products * kBesidesProducts;
  const double moments = tokens * block.moments / quick;
  const double factors = block.factors / (speed * kFactorShare);
  // The search runs once for any number of preparations of a block (Preparation); with INT8 activations it uses two
  // measures of a channel's size.
  const double smoothing = inputs.recipe().smooth ? kSmoothSearch * (int8_activations ? 2 : 1) : 0;
  double seconds = (block.weights * (kLoadAndStore + smoothing) + head * kLoadAndStore) / threads;
  if (inputs.rounds_with_samples()) {
    seconds +=
        pass / measured + moments + pass * (int8_activations && coarse ? kQuantizedPass / speed : 1 / measured) +
        factors +
        (block.compensation + (spec.has_head ? 0.5 * head * static_cast<double>(spec.embedding_channels()) : 0)) /
            speed +
        (block.weights + head) * kGridSearch / threads;
  }
  // The original runs, too, and the block once more before down; before that no plain MLP runs.
  if (inputs.corrects_drift()) {
    const double skipped = tokens * block.skipped_products * kBesidesProducts;
    seconds += (2 * pass - skipped) / measured + tokens * block.drift / quick + block.correction / speed;
  }
  if (passes.runs_to_head) seconds += block.weights * kLoadAndStore / threads + pass / quick;
  if (passes.chooses_formats) {
    seconds += (block.weights + head) * kLoadAndStore / threads + pass / quick + moments + 0.5 * factors;
    seconds += block.sampled_weights * kCandidates * kGridSearch / threads;
    // Each probe passes its block; each group of blocks passes all later blocks, which is half of them on average.
    const double groups = std::min(layers, static_cast<double>(kMostGroups));
    const double probe_passes = (block.matrices / layers + 0.5 * groups) / ranks + 1;
    const double probe_tokens = static_cast<double>(inputs.options().probe_samples * length);
    seconds += probe_tokens * products * kBesidesProducts * probe_passes / speed;
    seconds += 0.5 * probe_tokens * head * (groups + 2) / ranks / speed;
  }
  return seconds;
}

std::uint64_t memory_of(const ConversionInputs& inputs, const PassesBefore& passes, std::size_t samples,
                        std::size_t length) {
  const BlockWork& block = inputs.work();
  const ModelSpec& spec = inputs.source().spec();
  const jobs::SumOrder order = inputs.sharing().order;
  const std::uint64_t stream = (spec.encoder ? 2 : 1) * length * spec.hidden_size * sizeof(float);
  const std::uint64_t embedding = spec.vocab_size * spec.embedding_channels() * sizeof(float);
  std::size_t mlp_size = 0;
  for (const LayerSpec& layer : spec.layers) mlp_size = std::max(mlp_size, layer.mlp.size);
  const std::uint64_t activations = samples::kBatchTokens * sizeof(float) * (8 * spec.hidden_size + 3 * mlp_size);
  // The phases are: a block is measured; its matrices are rounded, with a copy in the order of rounding, and one that
  // runs or is written; then the rounded block runs. Embeddings are loaded for look-ups: as floats, and in the form
  // that runs.
  const std::uint64_t measuring =
      block.block_bytes + (order == jobs::SumOrder::kFixed ? 4 : 1) * block.moment_bytes + activations;
  const std::uint64_t rounding = block.block_bytes + block.moment_bytes + block.factor_bytes + 2 * block.matrix_bytes;
  const std::uint64_t running = 2 * block.block_bytes + activations;
  std::uint64_t memory = samples * stream + std::max({measuring, rounding, running, 2 * embedding});
  // The original's stream, the measurements of drift, and the correction of a matrix.
  if (inputs.corrects_drift()) memory += samples * stream + block.drift_bytes + 2 * block.matrix_bytes;
  if (block.experts) memory += samples * stream;  // what the router reads
  if (passes.chooses_formats) {
    const std::uint64_t copies = std::min(spec.layers.size(), kMostGroups) / inputs.ranks().size() + 4;
    memory += copies * inputs.options().probe_samples * stream;
  }
  return jobs::resident_memory() + memory;
}

}  // namespace

JobPlan forecast_conversion(const ConversionInputs& inputs, const PassesBefore& passes) {
  std::size_t samples = inputs.samples().count();
  std::size_t length = inputs.samples().length;
  if (inputs.statistics() == nullptr) {
    samples = inputs.options().calibration.samples;
    length = inputs.most_prefix_tokens() + inputs.calibration_length();
  }
  const std::size_t ranks = inputs.ranks().size();
  const std::size_t own = jobs::samples_of_rank(inputs.ranks().rank(), ranks, samples).size();
  JobPlan plan = jobs::plan_memory(
      {.samples = samples, .length = length, .ranks = ranks},
      [&](std::size_t count) { return memory_of(inputs, passes, count, length); }, own);
  plan.seconds = seconds_of(inputs, passes, own, length);
  return plan;
}

}  // namespace ballast::quant
