#include <algorithm>
#include <iterator>

#include "model/block_structure.h"
#include "quant/passes/fold_arithmetic.h"
#include "quant/passes/fold_rules.h"
#include "quant/passes/passes.h"

namespace ballast::quant {

namespace {

using model::Role;

/// A linear of this role gets a bias, if it can have one.
void require_bias(BiasSpec& biases, Role role) {
  if (bool BiasSpec::* flag = model::bias_flag(role == Role::kHead ? Role::kHeadBias : role)) biases.*flag = true;
}

/// All norms that have a bias when norms have one.
std::vector<Role> norms_with_bias(const ModelSpec& spec) {
  std::vector<Role> norms = model::block_norms(spec);
  std::ranges::copy_if(model::outer_roles(spec), std::back_inserter(norms), model::is_norm);
  std::erase_if(norms, [&](Role norm) { return !model::norm_spec(spec, norm).bias; });
  return norms;
}

ModelSpec folded_spec(const ModelSpec& spec) {
  ModelSpec after = spec;
  BiasSpec& biases = after.biases;
  std::vector<model::BlockInput> inputs = model::block_inputs(spec, 0);
  inputs.push_back({Role::kFinalNorm, {{spec.head_transform ? Role::kHeadTransform : Role::kHead}}});
  inputs.push_back({Role::kHeadNorm, {{Role::kHead}}});
  after.norm.bias = false;
  for (const Role norm : norms_with_bias(spec)) {
    if (!norm_bias_fold(spec, norm).legal) {
      after.norm.bias = true;  // one answer for all norms: those that are folded keep zeros
      continue;
    }
    for (const model::BlockInput& input : inputs) {
      if (input.norm != norm) continue;
      for (const model::Part& reader : input.readers) require_bias(biases, reader.role);
    }
  }
  if (biases.value && value_bias_fold(spec).legal) {
    biases.value = false;
    biases.attention_output = true;
  }
  if (key_bias_drop(spec).drop == KeyBiasRuling::Drop::kWhole) biases.key = false;
  return after;
}

class FoldBiases : public Pass {
 public:
  explicit FoldBiases(const ModelSpec& spec)
      : spec_(spec),
        after_(folded_spec(spec)),
        fold_value_(value_bias_fold(spec).legal),
        key_drop_(key_bias_drop(spec).drop) {}

  void run(WorkingBlock& block) override {
    for (WorkingInput& input : block.inputs) fold_norm_bias(block, input);
    if (fold_value_) fold_value_bias(block);
    drop_key_bias(block);
    fit(block);
  }

  void update_spec(ModelSpec& spec) const override {
    spec.norm.bias = after_.norm.bias;
    spec.biases = after_.biases;
  }

  std::string note() const override {
    std::string text = "fold_biases: " + std::to_string(norms_) + " norm biases and " + std::to_string(values_) +
                       " value biases folded, " + std::to_string(keys_) + " key biases dropped";
    if (key_parts_ > 0) text += ", of " + std::to_string(key_parts_) + " the part that is not rotated";
    return text;
  }

 private:
  void fold_norm_bias(WorkingBlock& block, WorkingInput& input) {
    if (!input.norm) return;
    WorkingNorm& norm = block.norms[*input.norm];
    if (norm.bias.empty() || !norm_bias_fold(spec_, norm.role).legal) return;
    for (const std::size_t reader : input.readers) {
      WorkingLinear& linear = block.linears[reader];
      if (linear.part.role == Role::kHead) {
        add_to_bias(head_bias(block, linear), product(linear, norm.bias));
      } else {
        add_constant_input(linear, norm.bias);
      }
    }
    if (input.statistics) shift_channels(input.statistics->channels, norm.bias);
    std::ranges::fill(norm.bias, 0.0F);
    ++norms_;
  }

  /// The head's bias is a vector of its own.
  static std::vector<float>& head_bias(WorkingBlock& block, const WorkingLinear& head) {
    const auto it = std::ranges::find(block.vectors, Role::kHeadBias, &WorkingVector::role);
    if (it != block.vectors.end()) return it->values;
    WorkingVector& vector = block.vectors.emplace_back();
    vector.role = Role::kHeadBias;
    vector.name = head.name + ".bias";
    return vector.values;
  }

  void fold_value_bias(WorkingBlock& block) {
    WorkingLinear* value = block.find(Role::kValue);
    WorkingLinear* output = block.find(Role::kAttentionOutput);
    if (value == nullptr || value->bias.empty()) return;
    const std::vector<float> constant = repeat_for_heads(value->bias, spec_);
    add_constant_input(*output, constant);
    if (ChannelStatistics* channels = block.input_statistics(*output)) shift_channels(*channels, constant);
    value->bias.clear();
    ++values_;
  }

  void drop_key_bias(WorkingBlock& block) {
    WorkingLinear* key = block.find(Role::kKey);
    if (key == nullptr || key->bias.empty()) return;
    if (key_drop_ == KeyBiasRuling::Drop::kWhole) {
      key->bias.clear();
      ++keys_;
    } else if (key_drop_ == KeyBiasRuling::Drop::kUnrotated) {
      for (std::size_t head = 0; head < spec_.kv_heads; ++head) {
        float* channels = key->bias.data() + head * spec_.head_size;
        std::fill(channels + spec_.rope.rotary_size, channels + spec_.head_size, 0.0F);
      }
      ++key_parts_;
    }
  }

  /// One flag speaks of several linears and all layers: a bias that the spec now has is there, zeros if need be.
  void fit(WorkingBlock& block) const {
    for (WorkingLinear& linear : block.linears) {
      if (model::has_bias(after_, linear.part.role)) linear.bias.resize(linear.rows, 0.0F);
    }
    if (after_.norm.bias) return;
    for (WorkingNorm& norm : block.norms) norm.bias.clear();
  }

  ModelSpec spec_;
  ModelSpec after_;
  bool fold_value_;
  KeyBiasRuling::Drop key_drop_;
  std::size_t norms_ = 0;
  std::size_t values_ = 0;
  std::size_t keys_ = 0;
  std::size_t key_parts_ = 0;
};

}  // namespace

std::unique_ptr<Pass> make_fold_biases(const ModelSpec& spec) {
  return std::make_unique<FoldBiases>(spec);
}

}  // namespace ballast::quant
