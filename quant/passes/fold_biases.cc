#include <algorithm>
#include <optional>

#include "model/mixer/mixer_kind.h"
#include "model/structure/block_structure.h"
#include "quant/passes/fold_arithmetic.h"
#include "quant/passes/fold_rules.h"
#include "quant/passes/passes.h"

namespace ballast::quant {

namespace {

using model::Role;

/// Gives a linear of this role a bias, if it can have one.
void require_bias(BiasSpec& biases, Role role) {
  if (bool BiasSpec::* flag = model::role_row(role == Role::kHead ? Role::kHeadBias : role).bias_flag) {
    biases.*flag = true;
  }
}

/// Returns the readers of norms outside of blocks.
std::vector<model::BlockInput> outer_inputs(const ModelSpec& spec) {
  return {{Role::kFinalNorm, {{spec.head_transform ? Role::kHeadTransform : Role::kHead}}},
          {Role::kHeadNorm, {{Role::kHead}}}};
}

/// Updates the flags for folding the biases of some norms.
void fold_norms(const ModelSpec& spec, std::size_t layer, const std::vector<Role>& norms,
                const std::vector<model::BlockInput>& inputs, ModelSpec& after) {
  for (const Role norm : norms) {
    if (!model::norm_spec(spec, layer, norm).bias) continue;
    if (!norm_bias_fold(spec, layer, norm).legal) {
      after.norm.bias = true;  // one answer for all norms: those that are folded keep zeros
      continue;
    }
    for (const model::BlockInput& input : inputs) {
      if (input.norm != norm) continue;
      for (const model::Part& reader : input.readers) require_bias(after.biases, reader.role);
    }
  }
}

/// Does the same for values. One flag is for all layers: if one layer keeps its bias, the others keep zeros.
void fold_values(const ModelSpec& spec, ModelSpec& after) {
  const BiasSpec before = after.biases;
  const auto for_each_biased = [&](bool legal, const auto& visit) {
    for (const LayerSpec& layer : spec.layers) {
      const std::optional<model::ValuePath> path = model::value_path(layer);
      if (!path || path->bias.legal != legal) continue;
      bool BiasSpec::* flag = model::role_row(path->value).bias_flag;
      if (flag != nullptr && before.*flag) visit(flag, *path);
    }
  };
  for_each_biased(true, [&](bool BiasSpec::* flag, const model::ValuePath& path) {
    after.biases.*flag = false;
    require_bias(after.biases, path.output);
  });
  for_each_biased(false, [&](bool BiasSpec::* flag, const model::ValuePath&) { after.biases.*flag = true; });
}

bool drops_whole_key_bias(const LayerSpec& layer) {
  return layer.attention() == nullptr || key_bias_drop(layer).drop == KeyBiasRuling::Drop::kWhole;
}

ModelSpec folded_spec(const ModelSpec& spec) {
  ModelSpec after = spec;
  after.norm.bias = false;
  for (std::size_t layer = 0; layer < spec.layers.size(); ++layer) {
    fold_norms(spec, layer, model::block_norms(spec, layer), model::block_inputs(spec, layer), after);
  }
  std::vector<Role> outer_norms = model::outer_roles(spec);
  std::erase_if(outer_norms, [](Role role) { return !model::is_norm(role); });
  fold_norms(spec, 0, outer_norms, outer_inputs(spec), after);
  fold_values(spec, after);
  if (std::ranges::all_of(spec.layers, drops_whole_key_bias)) after.biases.key = false;
  return after;
}

class FoldBiases : public Pass {
 public:
  explicit FoldBiases(const ModelSpec& spec) : spec_(spec), after_(folded_spec(spec)) {}

  void run(WorkingBlock& block) override {
    for (WorkingInput& input : block.inputs) fold_norm_bias(block, input);
    if (block.layer) {
      fold_value_bias(block);
      drop_key_bias(block);
    }
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
    if (norm.bias.empty() || !norm_bias_fold(spec_, block.layer.value_or(0), norm.role).legal) return;
    for (const std::size_t reader : input.readers) {
      WorkingLinear& linear = block.linears[reader];
      if (linear.part.role == Role::kHead) {
        add_to_bias(head_bias(block, linear), product(linear, norm.bias));
        linear.folds.add_constant_input(norm.bias);
      } else {
        add_constant_input(linear, norm.bias);
      }
    }
    if (input.statistics) shift_channels(input.statistics->channels, norm.bias);
    std::ranges::fill(norm.bias, 0.0F);
    ++norms_;
  }

  /// The head's bias is a separate vector.
  static std::vector<float>& head_bias(WorkingBlock& block, const WorkingLinear& head) {
    const auto it = std::ranges::find(block.vectors, Role::kHeadBias, &WorkingVector::role);
    if (it != block.vectors.end()) return it->values;
    WorkingVector& vector = block.vectors.emplace_back();
    vector.role = Role::kHeadBias;
    vector.name = head.name + ".bias";
    return vector.values;
  }

  void fold_value_bias(WorkingBlock& block) {
    const std::optional<model::ValuePath> path = model::value_path(spec_.layers[*block.layer]);
    if (!path || !path->bias.legal) return;
    WorkingLinear* value = block.find(path->value);
    WorkingLinear* output = block.find(path->output);
    if (value == nullptr || value->bias.empty()) return;
    const std::vector<float> constant = repeat_for_heads(value->bias, HeadSharing(*path));
    add_constant_input(*output, constant);
    if (ChannelStatistics* channels = block.input_statistics(*output)) shift_channels(*channels, constant);
    value->bias.clear();
    ++values_;
  }

  void drop_key_bias(WorkingBlock& block) {
    WorkingLinear* key = block.find(Role::kKey);
    if (key == nullptr || key->bias.empty()) return;
    const LayerSpec& layer = spec_.layers[*block.layer];
    const KeyBiasRuling::Drop drop = key_bias_drop(layer).drop;
    if (drop == KeyBiasRuling::Drop::kWhole) {
      key->bias.clear();
      ++keys_;
    } else if (drop == KeyBiasRuling::Drop::kUnrotated) {
      const AttentionSpec& attention = *layer.attention();
      for (std::size_t head = 0; head < attention.kv_heads; ++head) {
        float* channels = key->bias.data() + head * attention.head_size;
        std::fill(channels + attention.rope->rotary_size, channels + attention.head_size, 0.0F);
      }
      ++key_parts_;
    }
  }

  /// One flag is for several linears and all layers: a bias that the spec now has is created as zeros if it is missing.
  void fit(WorkingBlock& block) const {
    for (WorkingLinear& linear : block.linears) {
      if (model::has_bias(after_, block.layer.value_or(0), linear.part.role)) linear.bias.resize(linear.rows, 0.0F);
    }
    if (after_.norm.bias) return;
    for (WorkingNorm& norm : block.norms) norm.bias.clear();
  }

  ModelSpec spec_;
  ModelSpec after_;
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
