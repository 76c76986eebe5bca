// The forward pass once more: plain loops in F64 over what a ModelSpec says, without caches, fusing or batches. It
// shares no arithmetic with model/forward*.cc.
#ifndef BALLAST_TESTS_SUPPORT_REFERENCE_MODEL_H_
#define BALLAST_TESTS_SUPPORT_REFERENCE_MODEL_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <optional>
#include <vector>

#include "ballast/spec.h"
#include "model/arch/rope_config.h"
#include "model/forward/routing.h"
#include "role_tensors.h"

namespace ballast::test {

class ReferenceModel {
 public:
  using Row = std::vector<double>;
  using Rows = std::vector<Row>;  ///< one per token
  using Role = model::Role;

  virtual ~ReferenceModel() = default;
  ReferenceModel(const ModelSpec& spec, const RoleTensors& tensors) : spec_(spec), tensors_(tensors) {
    for (const LayerSpec& layer : spec.layers) {
      const AttentionSpec* attention = layer.attention();
      const bool rotated = attention != nullptr && attention->rope;
      frequencies_.push_back(rotated ? model::rope_frequencies(*attention->rope) : std::vector<double>{});
    }
  }

  /// [tokens][vocab], one row after the other.
  std::vector<double> logits(const std::vector<int>& ids) const {
    Rows x = embed(ids);
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

  /// The residual stream after a block.
  Rows block(std::size_t layer, const Rows& x) const {
    if (spec_.layout == BlockLayout::kPostNorm) {
      const Rows y = norm(Role::kAttentionNorm, layer, sum(x, mixed(layer, x)));
      return norm(Role::kMlpNorm, layer, sum(y, transformed(layer, y)));
    }
    const Rows normed = norm(Role::kAttentionNorm, layer, x);
    const Rows attended = sum(x, mixed(layer, normed));
    switch (spec_.layout) {
      case BlockLayout::kParallelShared:
        return sum(attended, transformed(layer, normed));
      case BlockLayout::kParallel:
        return sum(attended, transformed(layer, norm(Role::kMlpNorm, layer, x)));
      default:
        return sum(attended, transformed(layer, norm(Role::kMlpNorm, layer, attended)));
    }
  }

 protected:
  const RoleTensor& at(Role role, std::size_t layer = 0, std::size_t expert = 0) const {
    return tensors_.at({role, layer, expert});
  }

  static void add(const std::vector<float>& values, Row& row) {
    for (std::size_t i = 0; i < values.size(); ++i) row[i] += double{values[i]};
  }

  static Rows sum(Rows a, const Rows& b) {
    for (std::size_t t = 0; t < a.size(); ++t) {
      for (std::size_t i = 0; i < a[t].size(); ++i) a[t][i] += b[t][i];
    }
    return a;
  }

  /// What the two halves of a block add to the stream.
  Rows mixed(std::size_t layer, const Rows& x) const { return added(Role::kAttentionPostNorm, layer, mix(layer, x)); }
  Rows transformed(std::size_t layer, const Rows& x) const { return added(Role::kMlpPostNorm, layer, mlp(layer, x)); }

  Rows added(Role post_norm, std::size_t layer, Rows y) const {
    if (spec_.post_norms) y = norm(post_norm, layer, y);
    for (Row& row : y) {
      for (double& value : row) value *= spec_.residual_scale;
    }
    return y;
  }

  Rows embed(const std::vector<int>& ids) const {
    Rows x;
    const auto add_row = [&](Role role, std::size_t row) {
      const auto begin = at(role).weight.begin() + static_cast<std::ptrdiff_t>(row * spec_.hidden_size);
      add({begin, begin + static_cast<std::ptrdiff_t>(spec_.hidden_size)}, x.back());
    };
    for (std::size_t t = 0; t < ids.size(); ++t) {
      x.emplace_back(spec_.hidden_size, 0.0);
      add_row(Role::kEmbedding, static_cast<std::size_t>(ids[t]));
      for (double& value : x.back()) value *= spec_.embedding_scale;
      if (spec_.learned_positions) add_row(Role::kPositionEmbedding, t);
      if (spec_.token_types > 0) add_row(Role::kTokenTypeEmbedding, 0);
    }
    return spec_.embedding_norm ? norm(Role::kEmbeddingNorm, 0, x) : x;
  }

  Rows linear(Role role, std::size_t layer, const Rows& x, std::size_t expert = 0) const {
    const RoleTensor& tensor = at(role, layer, expert);
    Rows y;
    for (const Row& in : x) {
      Row out(tensor.rows, 0.0);
      for (std::size_t r = 0; r < tensor.rows; ++r) {
        for (std::size_t c = 0; c < tensor.cols; ++c) out[r] += double{tensor.weight[r * tensor.cols + c]} * in[c];
      }
      add(tensor.bias, out);
      y.push_back(out);
    }
    return y;
  }

  static void normalize(const NormSpec& spec, const RoleTensor& tensor, double* row) {
    const auto size = static_cast<double>(tensor.cols);
    double mean = 0;
    if (spec.kind == NormSpec::Kind::kLayer) {
      for (std::size_t i = 0; i < tensor.cols; ++i) mean += row[i] / size;
    }
    double square = 0;
    for (std::size_t i = 0; i < tensor.cols; ++i) square += (row[i] - mean) * (row[i] - mean) / size;
    for (std::size_t i = 0; i < tensor.cols; ++i) {
      row[i] = (row[i] - mean) / std::sqrt(square + spec.epsilon) * (double{tensor.weight[i]} + spec.gain_offset);
      if (spec.bias) row[i] += double{tensor.bias[i]};
    }
  }

  Rows norm(Role role, std::size_t layer, Rows x) const {
    for (Row& row : x) normalize(spec_.norm, at(role, layer), row.data());
    return x;
  }

  NormSpec plain_rms(double epsilon) const {
    return {.kind = NormSpec::Kind::kRms, .epsilon = epsilon, .bias = false, .gain_offset = spec_.norm.gain_offset};
  }

  static void activate(Activation activation, Row& row) {
    for (double& x : row) {
      switch (activation) {
        case Activation::kSilu:
          x = x / (1 + std::exp(-x));
          break;
        case Activation::kGelu:
          x = 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2));
          break;
        case Activation::kGeluTanh:
          x = 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
          break;
        case Activation::kRelu:
          x = std::max(x, 0.0);
          break;
      }
    }
  }

  Rows one_mlp(Role gate, Role up, Role down, std::size_t layer, const Rows& x, std::size_t expert = 0) const {
    const MlpSpec& mlp = spec_.layers[layer].mlp;
    Rows hidden = linear(mlp.gated ? gate : up, layer, x, expert);
    for (Row& row : hidden) activate(mlp.activation, row);
    if (mlp.gated) {
      const Rows factors = linear(up, layer, x, expert);
      for (std::size_t t = 0; t < x.size(); ++t) {
        for (std::size_t i = 0; i < hidden[t].size(); ++i) hidden[t][i] *= factors[t][i];
      }
    }
    return linear(down, layer, hidden, expert);
  }

  Rows mlp(std::size_t layer, const Rows& x) const {
    const std::optional<ExpertSpec>& experts = spec_.layers[layer].mlp.experts;
    if (!experts) return one_mlp(Role::kGate, Role::kUp, Role::kDown, layer, x);
    Rows y(x.size(), Row(spec_.hidden_size, 0.0));
    if (experts->shared_size > 0) y = one_mlp(Role::kSharedGate, Role::kSharedUp, Role::kSharedDown, layer, x);
    const std::vector<float> correction =
        experts->correction_bias ? at(Role::kRouterCorrection, layer).weight : std::vector<float>{};
    const Rows router = linear(Role::kRouter, layer, x);
    for (std::size_t t = 0; t < x.size(); ++t) {
      const std::vector<float> scores(router[t].begin(), router[t].end());
      for (const model::ExpertChoice& choice : model::choose_experts(*experts, scores, correction)) {
        const Rows out = one_mlp(Role::kExpertGate, Role::kExpertUp, Role::kExpertDown, layer, {x[t]}, choice.expert);
        for (std::size_t i = 0; i < out[0].size(); ++i) y[t][i] += double{choice.weight} * out[0][i];
      }
    }
    return y;
  }

  /// Queries, keys and values, [heads][size] in each row, not normalized and not rotated.
  struct Projected {
    Rows q, k, v;
  };

  Projected project(std::size_t layer, const Rows& x) const {
    const LatentAttentionSpec* latent_spec = spec_.layers[layer].latent();
    if (latent_spec == nullptr)
      return {linear(Role::kQuery, layer, x), linear(Role::kKey, layer, x), linear(Role::kValue, layer, x)};
    const NormSpec latent_norm = plain_rms(latent_spec->epsilon);
    Rows query_latent = x;
    if (latent_spec->query_rank > 0) {
      query_latent = linear(Role::kQueryDown, layer, x);
      for (Row& row : query_latent) normalize(latent_norm, at(Role::kQueryDownNorm, layer), row.data());
    }
    Rows latent = linear(Role::kKeyValueDown, layer, x);
    for (Row& row : latent) normalize(latent_norm, at(Role::kKeyValueDownNorm, layer), row.data());
    const Rows rotated = linear(Role::kKeyPosition, layer, x);
    const Rows plain = linear(Role::kKey, layer, latent);
    const auto plain_size = static_cast<std::ptrdiff_t>(plain_channels(latent_spec->attention));
    Rows keys;
    for (std::size_t t = 0; t < x.size(); ++t) {
      Row key;
      for (auto part = plain[t].begin(); part != plain[t].end(); part += plain_size) {
        key.insert(key.end(), part, part + plain_size);
        key.insert(key.end(), rotated[t].begin(), rotated[t].end());
      }
      keys.push_back(key);
    }
    return {linear(Role::kQuery, layer, query_latent), keys, linear(Role::kValue, layer, latent)};
  }

  static std::size_t plain_channels(const AttentionSpec& attention) {
    return attention.head_size - attention.rope->rotary_size;
  }

  void rotate(std::size_t layer, double* head, std::size_t position) const {
    const std::vector<double>& frequencies = frequencies_[layer];
    const std::size_t half = frequencies.size();
    if (half == 0) return;
    const AttentionSpec& attention = *spec_.layers[layer].attention();
    double* first = head + (spec_.layers[layer].latent() != nullptr ? plain_channels(attention) : 0);
    for (std::size_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(position) * frequencies[i];
      const double cos = std::cos(angle) * attention.rope->amplitude;
      const double sin = std::sin(angle) * attention.rope->amplitude;
      const double a = first[i];
      const double b = first[i + half];
      first[i] = a * cos - b * sin;
      first[i + half] = b * cos + a * sin;
    }
  }

  void context(Rows& rows, Role norm_role, std::size_t layer, std::size_t heads) const {
    for (std::size_t t = 0; t < rows.size(); ++t) {
      for (std::size_t head = 0; head < heads; ++head) {
        const AttentionSpec& attention = *spec_.layers[layer].attention();
        double* values = rows[t].data() + head * attention.head_size;
        if (attention.query_key_norm) normalize(plain_rms(spec_.norm.epsilon), at(norm_role, layer), values);
        rotate(layer, values, t);
      }
    }
  }

  /// What the layer's mixer returns.
  virtual Rows mix(std::size_t layer, const Rows& x) const {
    const AttentionSpec& spec = *spec_.layers[layer].attention();
    Projected p = project(layer, x);
    context(p.q, Role::kQueryNorm, layer, spec.heads);
    context(p.k, Role::kKeyNorm, layer, spec.kv_heads);
    const std::size_t window = spec.window;
    Rows mixed;
    for (std::size_t t = 0; t < x.size(); ++t) {
      Row out(spec.heads * spec.value_size, 0.0);
      const std::size_t first = window > 0 && t + 1 > window ? t + 1 - window : 0;
      const std::size_t end = spec_.causal ? t + 1 : x.size();
      for (std::size_t head = 0; head < spec.heads; ++head) {
        const std::size_t group = head / (spec.heads / spec.kv_heads);
        Row weights;
        double total = 0;
        for (std::size_t s = first; s < end; ++s) {
          double score = 0;
          for (std::size_t c = 0; c < spec.head_size; ++c) {
            score += p.q[t][head * spec.head_size + c] * p.k[s][group * spec.head_size + c];
          }
          weights.push_back(std::exp(score * spec.scale));
          total += weights.back();
        }
        for (std::size_t s = first; s < end; ++s) {
          for (std::size_t c = 0; c < spec.value_size; ++c) {
            out[head * spec.value_size + c] += weights[s - first] / total * p.v[s][group * spec.value_size + c];
          }
        }
      }
      mixed.push_back(out);
    }
    if (spec.output_gate) {
      const Rows gates = linear(Role::kOutputGate, layer, x);
      for (std::size_t t = 0; t < x.size(); ++t) {
        for (std::size_t i = 0; i < mixed[t].size(); ++i) mixed[t][i] /= 1 + std::exp(-gates[t][i]);
      }
    }
    return linear(Role::kAttentionOutput, layer, mixed);
  }

 private:
  const ModelSpec& spec_;
  const RoleTensors& tensors_;
  std::vector<std::vector<double>> frequencies_;  ///< of each layer
};

}  // namespace ballast::test

#endif  // BALLAST_TESTS_SUPPORT_REFERENCE_MODEL_H_
