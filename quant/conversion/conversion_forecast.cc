#include "quant/conversion/conversion_forecast.h"

#include <algorithm>
#include <cmath>

#include "jobs/costs.h"
#include "jobs/memory.h"
#include "jobs/plan.h"
#include "kernels/float_gemm.h"
#include "kernels/parallel.h"
#include "model/block_structure.h"
#include "quant/search/output_error.h"
#include "quant/search/sensitivity.h"
#include "samples/block_runner.h"

namespace ballast::quant {

namespace {

// Seconds that one core takes for a weight (SmolLM2-135M and Qwen2.5-1.5B's shape, Zen 4).
constexpr double kGridSearch = 1.1e-7;    // the best of all ranges of a group, once
constexpr double kCandidates = 12;        // formats of a matrix: as many as ballast's own files have
constexpr double kSmoothSearch = 6e-8;    // on a part of the rows, for all strengths
constexpr double kLoadAndStore = 2.5e-8;  // decoding, passes, packing, checksum
// Over the products of a forward pass: attention's softmax, norms, activations.
constexpr double kBesidesProducts = 1.3;
// Quantized blocks over those in floating point.
constexpr double kQuantizedPass = 0.7;
// The speed of factorizations relative to products, in multiply-adds per second: the tiles on the diagonal use one
// thread.
constexpr double kFactorShare = 0.5;

/// Sums over the matrices of all blocks.
struct BlockWork {
  double weights = 0;
  double matrices = 0;            ///< that a probe rounds alone
  double products = 0;            ///< multiply-adds per token of a forward pass
  double skipped_products = 0;    ///< the part of these that is skipped when inputs before down are measured
  double moments = 0;             ///< multiply-adds per token
  double factors = 0;             ///< multiply-adds
  double compensation = 0;        ///< multiply-adds of GPTQ
  double drift = 0;               ///< multiply-adds per token
  double correction = 0;          ///< multiply-adds, of drift
  double sampled_weights = 0;     ///< on which formats are compared
  bool experts = false;           ///< some block has some
  std::uint64_t block_bytes = 0;  ///< F32 values of the largest block, experts as integers: they are loaded by turns
  std::uint64_t moment_bytes = 0;
  std::uint64_t drift_bytes = 0;
  std::uint64_t factor_bytes = 0;
  std::uint64_t matrix_bytes = 0;  ///< F32 values of the largest matrix
};

/// Returns the number of experts whose moments are computed one after the other, from an input that the router also
/// reads.
std::size_t experts_beside_router(const ModelSpec& spec, std::size_t layer, const model::BlockInput& input) {
  const bool routed =
      std::ranges::any_of(input.readers, [](const model::Part& reader) { return reader.role == model::Role::kRouter; });
  return routed ? spec.layers[layer].mlp.experts->count : 0;
}

/// Returns whether a role is a linear of an MLP without experts.
bool is_plain_mlp(model::Role role) {
  return role == model::Role::kGate || role == model::Role::kUp || role == model::Role::kDown;
}

BlockWork block_work(const ModelSpec& spec, std::size_t length) {
  BlockWork work;
  for (std::size_t layer = 0; layer < spec.layers.size(); ++layer) {
    const double share = spec.layers[layer].mlp.expert_share();
    std::uint64_t block_bytes = 0;
    std::uint64_t moment_bytes = 0;
    std::uint64_t drift_bytes = 0;
    for (const model::BlockInput& input : model::block_inputs(spec, layer)) {
      const bool down = input.readers.front().role == model::Role::kDown;
      const double cols = static_cast<double>(model::matrix_shape(spec, layer, input.readers.front().role).second);
      work.moments += 0.6 * cols * cols;  // a little more than half of them: they are symmetric
      work.factors += cols * cols * cols / 3;
      moment_bytes += static_cast<std::uint64_t>(cols * cols) * sizeof(float);
      // Factorized in its place.
      work.factor_bytes = std::max(work.factor_bytes, static_cast<std::uint64_t>(cols * cols) * sizeof(float));
      const auto experts = static_cast<double>(experts_beside_router(spec, layer, input));
      if (experts > 0) {
        work.experts = true;
        const double per_token = static_cast<double>(spec.layers[layer].mlp.experts->per_token);
        work.moments += 0.6 * cols * cols * per_token;
        work.factors += cols * cols * cols / 3 * experts;
      }
      const double drifting = down ? static_cast<double>(spec.hidden_size) : cols;
      work.drift += drifting * cols;
      drift_bytes += static_cast<std::uint64_t>(drifting * cols) * sizeof(float);
      for (const model::Part& reader : input.readers) {
        const double rows = static_cast<double>(model::matrix_shape(spec, layer, reader.role).first);
        const bool expert = is_routed_expert(reader.role);
        work.weights += rows * cols;
        work.matrices += expert && reader.expert > 0 ? 0 : 1;
        work.products += rows * cols * (expert ? share : 1.0);
        if (is_plain_mlp(reader.role)) work.skipped_products += rows * cols;
        work.compensation += 0.5 * rows * cols * cols;
        if (!expert) work.correction += (down ? 1.0 : 2.0) * rows * cols * cols;
        work.sampled_weights += std::min(rows, 1.5 * static_cast<double>(kFormatSampleRows)) * cols;
        const auto bytes = static_cast<std::uint64_t>(rows * cols) * sizeof(float);
        block_bytes += expert ? bytes / sizeof(float) : bytes;
        work.matrix_bytes = std::max(work.matrix_bytes, bytes);
      }
    }
    work.products += jobs::attention_multiply_adds(spec, layer, length);
    work.block_bytes = std::max(work.block_bytes, block_bytes);
    work.moment_bytes = std::max(work.moment_bytes, moment_bytes);
    work.drift_bytes = std::max(work.drift_bytes, drift_bytes);
  }
  return work;
}

double seconds_of(const ModelSpec& spec, const BlockWork& block, const ConversionWork& work, double tokens,
                  std::size_t length, std::size_t ranks) {
  const double speed = jobs::multiply_adds_per_second(samples::kBatchTokens);
  const bool in_bf16 = kernels::multiplies_bf16();
  // The speed of measurements, and of samples while blocks are rounded.
  const double quick = in_bf16 ? jobs::multiply_adds_per_second(samples::kBatchTokens, in_bf16) : speed;
  const bool coarse = work.precision == SamplePrecision::kCoarse;
  const double measured = coarse ? quick : speed;
  const auto threads = static_cast<double>(kernels::available_threads());
  const double head = static_cast<double>(spec.vocab_size) * static_cast<double>(spec.hidden_size);
  const double layers = static_cast<double>(spec.layers.size());
  const double pass = tokens * block.products * kBesidesProducts;
  const double moments = tokens * block.moments / quick;
  const double factors = block.factors / (speed * kFactorShare);
  const bool int8 = work.activations == ActivationType::kInt8;
  // Beside INT8 activations by two sizes of channels.
  const double smoothing = work.smooths ? kSmoothSearch * (int8 ? 2 : 1) : 0;
  double seconds = (block.weights * (kLoadAndStore + smoothing) + head * kLoadAndStore) / threads;
  if (work.rounds_with_samples) {
    seconds += pass / measured + moments + pass * (int8 && coarse ? kQuantizedPass / speed : 1 / measured) + factors +
               (block.compensation + (spec.has_head ? 0.5 * head * static_cast<double>(spec.hidden_size) : 0)) / speed +
               (block.weights + head) * kGridSearch / threads;
  }
  // The original runs in parallel, and the block once more before down; until then no plain MLP runs.
  if (work.corrects_drift) {
    const double skipped = tokens * block.skipped_products * kBesidesProducts;
    seconds += (2 * pass - skipped) / measured + tokens * block.drift / quick + block.correction / speed;
  }
  if (work.runs_to_head) seconds += block.weights * (kLoadAndStore + smoothing) / threads + pass / quick;
  if (work.chooses_formats) {
    seconds += (block.weights + head) * kLoadAndStore / threads + pass / quick + moments + 0.5 * factors;
    seconds += block.sampled_weights * kCandidates * kGridSearch / threads;
    // Each probe passes its block; each group of blocks passes the blocks after it, half of all on average.
    const double groups = std::min(layers, static_cast<double>(kMostGroups));
    const double passes = (block.matrices / layers + 0.5 * groups) / static_cast<double>(ranks) + 1;
    const double probe_tokens = static_cast<double>(work.probe_samples * length);
    seconds += probe_tokens * block.products * kBesidesProducts * passes / speed;
    seconds += 0.5 * probe_tokens * head * (groups + 2) / static_cast<double>(ranks) / speed;
  }
  return seconds;
}

std::uint64_t memory_of(const ModelSpec& spec, const BlockWork& block, const ConversionWork& work, std::size_t samples,
                        std::size_t length, jobs::SumOrder order, std::size_t ranks) {
  const std::uint64_t stream = length * spec.hidden_size * sizeof(float);
  const std::uint64_t embedding = spec.vocab_size * spec.hidden_size * sizeof(float);
  std::size_t mlp_size = 0;
  for (const LayerSpec& layer : spec.layers) mlp_size = std::max(mlp_size, layer.mlp.size);
  const std::uint64_t activations = samples::kBatchTokens * sizeof(float) * (8 * spec.hidden_size + 3 * mlp_size);
  // A block is measured; its matrices are rounded, with a copy in the order of rounding, and one that runs or is
  // written; then the rounded block runs. Embeddings are loaded for look-ups: as floats, and in the form that runs.
  const std::uint64_t measuring =
      block.block_bytes + (order == jobs::SumOrder::kFixed ? 4 : 1) * block.moment_bytes + activations;
  const std::uint64_t rounding = block.block_bytes + block.moment_bytes + block.factor_bytes + 2 * block.matrix_bytes;
  const std::uint64_t running = 2 * block.block_bytes + activations;
  std::uint64_t memory = samples * stream + std::max({measuring, rounding, running, 2 * embedding});
  // The original's stream, the moments of drift, and a matrix's correction.
  if (work.corrects_drift) memory += samples * stream + block.drift_bytes + 2 * block.matrix_bytes;
  if (block.experts) memory += samples * stream;  // the router's input
  if (work.chooses_formats) {
    const std::uint64_t copies = std::min(spec.layers.size(), kMostGroups) / ranks + 4;
    memory += copies * work.probe_samples * stream;
  }
  return jobs::resident_memory() + memory;
}

}  // namespace

JobPlan forecast_conversion(const ModelSpec& spec, const ConversionWork& work, std::size_t length,
                            const samples::SampleSharing& sharing) {
  const std::size_t ranks = sharing.ranks->size();
  const std::size_t own = jobs::samples_of_rank(sharing.ranks->rank(), ranks, sharing.samples).size();
  const BlockWork block = block_work(spec, length);
  JobPlan plan = jobs::plan_memory(
      {.samples = sharing.samples, .length = length, .ranks = ranks},
      [&](std::size_t samples) { return memory_of(spec, block, work, samples, length, sharing.order, ranks); }, own);
  plan.seconds = seconds_of(spec, block, work, static_cast<double>(own * length), length, ranks);
  return plan;
}

}  // namespace ballast::quant
