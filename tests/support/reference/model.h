// A reference implementation of the forward pass: plain loops in F64 that follow a ModelSpec, without caches, fusing or
// batches. It shares no arithmetic with model/forward and model/mixer.
#ifndef BALLAST_TESTS_SUPPORT_REFERENCE_MODEL_H_
#define BALLAST_TESTS_SUPPORT_REFERENCE_MODEL_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <vector>

#include "ballast/spec.h"
#include "model/forward/routing.h"
#include "reference/heads.h"
#include "reference/recurrent.h"
#include "reference/roles.h"
#include "role_tensors.h"

namespace ballast::test {

class ReferenceModel : public ReferenceRoles {
 public:
  ReferenceModel(const ModelSpec& spec, const RoleTensors& tensors)
      : ReferenceRoles(spec, tensors),
        heads_(spec, tensors),
        delta_(spec, tensors),
        convolution_(spec, tensors),
        mamba_(spec, tensors) {}
  virtual ~ReferenceModel() = default;

  /// Returns [tokens][vocab], row by row.
  std::vector<double> logits(const std::vector<int>& ids) const {
    Rows x = embed(ids);
    if (spec_.token_inputs) find_token_inputs(ids, x);
    for (std::size_t layer = 0; layer < spec_.layers.size(); ++layer) x = block(layer, x);
    if (spec_.has_final_norm()) x = norm(Role::kFinalNorm, 0, x);
    if (spec_.head_transform) {
      x = linear(Role::kHeadTransform, 0, x);
      for (Row& row : x) activate(*spec_.head_transform, row);
      x = norm(Role::kHeadNorm, 0, x);
    }
    x = linear(spec_.tied_embeddings ? Role::kEmbedding : Role::kHead, 0, x);
    std::vector<double> result;
    for (Row& row : x) {
      if (spec_.biases.head) add(at(Role::kHeadBias).weight, row);
      for (double& logit : row) logit *= spec_.logit_scale;
      for (double& logit : row) {
        if (spec_.logit_cap > 0) logit = spec_.logit_cap * std::tanh(logit / spec_.logit_cap);
      }
      result.insert(result.end(), row.begin(), row.end());
    }
    return result;
  }

  /// Returns the residual stream after a block. If blocks read keys of earlier ones, or inputs of tokens, all blocks of
  /// a sequence must be run in order, by logits().
  Rows block(std::size_t layer, const Rows& x) const {
    Rows y = unscaled_block(layer, x);
    if (spec_.token_inputs) add_token_inputs(layer, y);
    if (!spec_.layer_scales) return y;
    const double scale = at(Role::kLayerScale, layer).weight.front();
    for (Row& row : y) {
      for (double& value : row) value *= scale;
    }
    return y;
  }

 protected:
  /// Returns the output of the layer's mixer.
  virtual Rows mix(std::size_t layer, const Rows& x) const {
    const MixerSpec& mixer = spec_.layers[layer].mixer;
    if (std::holds_alternative<GatedDeltaSpec>(mixer)) return delta_.run(layer, x);
    if (std::holds_alternative<ShortConvolutionSpec>(mixer)) return convolution_.run(layer, x);
    if (std::holds_alternative<Mamba2Spec>(mixer)) return mamba_.run(layer, x);
    if (std::holds_alternative<ParallelMixersSpec>(mixer)) return sum(heads_.attend(layer, x), mamba_.run(layer, x));
    return heads_.attend(layer, x);
  }

 private:
  Rows unscaled_block(std::size_t layer, const Rows& x) const {
    if (spec_.layout == BlockLayout::kPostNorm) {
      const Rows y = norm(Role::kAttentionNorm, layer, sum(x, mixed(layer, x)));
      return norm(Role::kMlpNorm, layer, sum(y, transformed(layer, y)));
    }
    if (spec_.layout == BlockLayout::kOutputNorm) {
      const Rows y = sum(x, mixed(layer, x));
      return sum(y, transformed(layer, y));
    }
    if (!spec_.layers[layer].has_mixer()) return sum(x, transformed(layer, norm(Role::kMlpNorm, layer, x)));
    const Rows normed = spec_.layers[layer].mixer_norm ? norm(Role::kAttentionNorm, layer, x) : x;
    Rows attended = sum(x, mixed(layer, normed));
    if (!spec_.layers[layer].mlp.exists()) return attended;
    switch (spec_.layout) {
      case BlockLayout::kParallelShared:
        return sum(attended, transformed(layer, normed));
      case BlockLayout::kParallel:
        return sum(attended, transformed(layer, norm(Role::kMlpNorm, layer, x)));
      default:
        return sum(attended, transformed(layer, norm(Role::kMlpNorm, layer, attended)));
    }
  }

  /// Return what the two halves of a block add to the stream.
  Rows mixed(std::size_t layer, const Rows& x) const {
    return added(Role::kAttentionPostNorm, Role::kAttentionNorm, layer, mix(layer, x));
  }
  Rows transformed(std::size_t layer, const Rows& x) const {
    return added(Role::kMlpPostNorm, Role::kMlpNorm, layer, mlp(layer, x));
  }

  Rows added(Role post_norm, Role layout_norm, std::size_t layer, Rows y) const {
    if (spec_.post_norms) y = norm(post_norm, layer, y);
    if (spec_.layout == BlockLayout::kOutputNorm) y = norm(layout_norm, layer, y);
    for (Row& row : y) {
      for (double& value : row) value *= spec_.residual_scale;
    }
    return y;
  }

  Rows embed(const std::vector<int>& ids) const {
    Rows x;
    const auto add_row = [&](Role role, std::size_t row) {
      const std::size_t size = spec_.embedding_channels();
      const auto begin = at(role).weight.begin() + static_cast<std::ptrdiff_t>(row * size);
      add({begin, begin + static_cast<std::ptrdiff_t>(size)}, x.back());
    };
    for (std::size_t t = 0; t < ids.size(); ++t) {
      x.emplace_back(spec_.embedding_channels(), 0.0);
      add_row(Role::kEmbedding, static_cast<std::size_t>(ids[t]));
      for (double& value : x.back()) value *= spec_.embedding_scale;
      if (spec_.learned_positions) add_row(Role::kPositionEmbedding, spec_.first_position + t);
      if (spec_.token_types > 0) add_row(Role::kTokenTypeEmbedding, 0);
    }
    if (spec_.embedding_norm) x = norm(Role::kEmbeddingNorm, 0, x);
    return spec_.embedding_size > 0 ? linear(Role::kEmbeddingProjection, 0, x) : x;
  }

  void find_token_inputs(const std::vector<int>& ids, const Rows& embedded) const {
    const TokenInputSpec& spec = *spec_.token_inputs;
    token_inputs_ = linear(Role::kTokenInputProjection, 0, embedded);
    const RoleTensor& table = at(Role::kTokenInputTable);
    const RoleTensor& norm = at(Role::kTokenInputNorm);
    for (std::size_t t = 0; t < ids.size(); ++t) {
      Row& row = token_inputs_[t];
      for (std::size_t first = 0; first < row.size(); first += spec.size) {
        double squares = 0;
        for (std::size_t c = 0; c < spec.size; ++c) squares += row[first + c] * row[first + c];
        const double root = std::sqrt(squares / static_cast<double>(spec.size) + spec.projection_epsilon);
        for (std::size_t c = 0; c < spec.size; ++c) {
          const double of_table = table.weight[static_cast<std::size_t>(ids[t]) * row.size() + first + c];
          const double gain = norm.weight[c] + spec_.norm.gain_offset;
          row[first + c] = spec.scale * (row[first + c] / root * gain + spec.table_scale * of_table);
        }
      }
    }
  }

  void add_token_inputs(std::size_t layer, Rows& y) const {
    const std::size_t size = spec_.token_inputs->size;
    Rows gates = linear(Role::kTokenInputGate, layer, y);
    for (std::size_t t = 0; t < y.size(); ++t) {
      activate(spec_.layers[layer].mlp.activation, gates[t]);
      for (std::size_t c = 0; c < size; ++c) gates[t][c] *= token_inputs_[t][layer * size + c];
    }
    y = sum(y, norm(Role::kTokenInputPostNorm, layer, linear(Role::kTokenInputOutput, layer, gates)));
  }

  /// Applies the limit to the value that a gate multiplies.
  static double limited(const MlpSpec& mlp, double value) {
    return mlp.limit > 0 ? std::clamp(value, -mlp.limit, mlp.limit) : value;
  }

  Rows one_mlp(Role gate, Role up, Role down, std::size_t layer, const Rows& x, std::size_t expert = 0) const {
    const MlpSpec& mlp = spec_.layers[layer].mlp;
    Rows hidden = linear(mlp.gated ? gate : up, layer, x, expert);
    if (mlp.limit > 0) {
      for (Row& row : hidden) {
        for (double& value : row) value = std::min(value, mlp.limit);
      }
    }
    for (Row& row : hidden) activate(mlp.activation, row);
    if (mlp.gated) {
      const Rows factors = linear(up, layer, x, expert);
      for (std::size_t t = 0; t < x.size(); ++t) {
        for (std::size_t i = 0; i < hidden[t].size(); ++i) hidden[t][i] *= limited(mlp, factors[t][i]) + mlp.up_offset;
      }
    }
    return linear(down, layer, hidden, expert);
  }

  Rows mlp(std::size_t layer, const Rows& x) const {
    const std::optional<ExpertSpec>& experts = spec_.layers[layer].mlp.experts;
    if (!experts) return one_mlp(Role::kGate, Role::kUp, Role::kDown, layer, x);
    Rows y(x.size(), Row(spec_.hidden_size, 0.0));
    if (experts->shared_size > 0) y = one_mlp(Role::kSharedGate, Role::kSharedUp, Role::kSharedDown, layer, x);
    if (experts->shared_router) {
      const Rows shares = linear(Role::kSharedRouter, layer, x);
      for (std::size_t t = 0; t < x.size(); ++t) {
        for (double& value : y[t]) value /= 1.0 + std::exp(-shares[t][0]);
      }
    }
    if (!experts->post_norms) return sum(y, routed(layer, x));
    return sum(norm(Role::kSharedPostNorm, layer, y), norm(Role::kExpertsPostNorm, layer, routed(layer, x)));
  }

  /// Returns the sum of the experts' outputs.
  Rows routed(std::size_t layer, const Rows& x) const {
    const std::optional<ExpertSpec>& experts = spec_.layers[layer].mlp.experts;
    Rows y(x.size(), Row(spec_.hidden_size, 0.0));
    const std::vector<float> correction =
        experts->correction_bias ? at(Role::kRouterCorrection, layer).weight : std::vector<float>{};
    const Rows router = linear(Role::kRouter, layer, x);
    for (std::size_t t = 0; t < x.size(); ++t) {
      const std::vector<float> scores(router[t].begin(), router[t].end());
      for (const model::ExpertChoice& choice : model::choose_experts(*experts, scores, correction)) {
        const double weight = choice.weight;
        Row input = x[t];
        for (double& value : input) value *= experts->weighs_inputs ? weight : 1;
        const Rows out = one_mlp(Role::kExpertGate, Role::kExpertUp, Role::kExpertDown, layer, {input}, choice.expert);
        for (std::size_t i = 0; i < out[0].size(); ++i) y[t][i] += (experts->weighs_inputs ? 1 : weight) * out[0][i];
      }
    }
    return y;
  }

  ReferenceHeads heads_;
  ReferenceDelta delta_;
  ReferenceShortConvolution convolution_;
  ReferenceMamba2 mamba_;
  mutable Rows token_inputs_;  ///< of the current tokens, [layers * size] each
};

}  // namespace ballast::test

#endif  // BALLAST_TESTS_SUPPORT_REFERENCE_MODEL_H_
