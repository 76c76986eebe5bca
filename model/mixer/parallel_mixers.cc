// Attention and Mamba 2 in parallel, as in Falcon-H1: both read the block's input.
#include <memory>
#include <utility>
#include <vector>

#include "model/block/block_parts.h"
#include "model/block/block_pass.h"
#include "model/mixer/attention_kinds.h"
#include "model/mixer/recurrent_kinds.h"

namespace ballast::model {

namespace {

class ParallelMixers final : public Mixer {
 public:
  ParallelMixers(const ModelSpec& spec, std::size_t layer, const BlockParts& parts)
      : attention_(kAttention.assemble(spec, layer, parts)), mamba_(kMamba2.assemble(spec, layer, parts)) {}

  void for_each_linear(const std::function<void(const Linear&, Role)>& visit) const override {
    attention_->for_each_linear(visit);
    mamba_->for_each_linear(visit);
  }

  std::size_t forward(const BlockPass& pass, const LinearRows& input, float* hidden) const override {
    const LinearRows rows = input.in_memory(pass.tokens);  // both read them, and the first one changes hidden
    // Only the second may drop rows, because it moves the rows of hidden that stay.
    ForwardOptions all = pass.options;
    all.wanted_only = false;
    const BlockPass whole = {.spec = pass.spec,
                             .block = pass.block,
                             .layer = pass.layer,
                             .angles = pass.angles,
                             .batch = pass.batch,
                             .state_layer = pass.state_layer,
                             .activations = pass.activations,
                             .options = all,
                             .rows = pass.rows};
    attention_->forward(whole, rows, hidden);
    return mamba_->forward(pass, rows, hidden);
  }

 private:
  std::unique_ptr<const Mixer> attention_, mamba_;
};

std::unique_ptr<const Mixer> assemble(const ModelSpec& spec, std::size_t layer, const BlockParts& parts) {
  return std::make_unique<ParallelMixers>(spec, layer, parts);
}

/// Returns the rows of both kinds.
std::vector<RoleRow> roles_of_both() {
  std::vector<RoleRow> rows(kAttention.roles.begin(), kAttention.roles.end());
  rows.insert(rows.end(), kMamba2.roles.begin(), kMamba2.roles.end());
  return rows;
}

}  // namespace

const MixerKind& parallel_mixers() {
  static const std::vector<RoleRow> roles = roles_of_both();
  static const MixerKind kind = {.roles = roles,
                                 .assemble = assemble,
                                 .cache_shape = kAttention.cache_shape,
                                 .make_state = kMamba2.make_state,
                                 .convolves = kMamba2.convolves,
                                 .value_path = kAttention.value_path};
  return kind;
}

}  // namespace ballast::model
