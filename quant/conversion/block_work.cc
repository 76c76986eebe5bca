#include "quant/conversion/block_work.h"

#include <algorithm>
#include <cstddef>

#include "model/structure/block_structure.h"
#include "quant/block/working_block.h"
#include "quant/search/output_error.h"
#include "samples/pass_costs.h"

namespace ballast::quant {

namespace {

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

}  // namespace

BlockWork block_work(const ModelSpec& spec) {
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
      // The factorization is in place.
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
    work.attention += samples::attention_multiply_adds(spec, layer, 1);
    work.block_bytes = std::max(work.block_bytes, block_bytes);
    work.moment_bytes = std::max(work.moment_bytes, moment_bytes);
    work.drift_bytes = std::max(work.drift_bytes, drift_bytes);
  }
  return work;
}

}  // namespace ballast::quant
