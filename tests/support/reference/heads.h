// Reference implementation of attention and latent attention, in plain loops in F64.
#ifndef BALLAST_TESTS_SUPPORT_REFERENCE_HEADS_H_
#define BALLAST_TESTS_SUPPORT_REFERENCE_HEADS_H_

#include <cmath>
#include <cstddef>
#include <map>
#include <vector>

#include "ballast/spec.h"
#include "model/arch/rope_config.h"
#include "reference/roles.h"

namespace ballast::test {

/// Returns ALiBi's slope of a head by the recursion of its authors.
inline double alibi_slope(std::size_t head, std::size_t heads) {
  std::size_t power = 1;
  while (2 * power <= heads) power *= 2;
  if (head >= power) return alibi_slope(2 * (head - power), 2 * power);
  const double first = std::pow(2.0, -std::pow(2.0, 3.0 - std::log2(static_cast<double>(power))));
  return std::pow(first, static_cast<double>(head + 1));
}

class ReferenceHeads : public ReferenceRoles {
 public:
  ReferenceHeads(const ModelSpec& spec, const RoleTensors& tensors) : ReferenceRoles(spec, tensors) {
    for (const LayerSpec& layer : spec.layers) {
      const AttentionSpec* attention = layer.attention();
      const bool rotated = attention != nullptr && attention->rope;
      frequencies_.push_back(rotated ? model::rope_frequencies(*attention->rope) : std::vector<double>{});
    }
  }

  /// Returns the output of a layer's attention.
  Rows attend(std::size_t layer, const Rows& x) const {
    const AttentionSpec& spec = *spec_.layers[layer].attention();
    Projected p = project(layer, x);
    context(p.q, Role::kQueryNorm, layer, spec.heads);
    if (!spec.keys_of) context(p.k, Role::kKeyNorm, layer, spec.kv_heads);
    if (spec.value_norm && !spec.keys_of) {
      for (Row& row : p.v) {
        for (std::size_t head = 0; head < spec.kv_heads; ++head) {
          double* values = row.data() + head * spec.value_size;
          double squares = 0;
          for (std::size_t c = 0; c < spec.value_size; ++c) squares += values[c] * values[c];
          const double root = std::sqrt(squares / static_cast<double>(spec.value_size) + spec_.norm.epsilon);
          for (std::size_t c = 0; c < spec.value_size; ++c) values[c] /= root;
        }
      }
    }
    if (spec.shares_keys) shared_[layer] = {{}, p.k, p.v};
    if (spec.keys_of) {
      p.k = shared_.at(*spec.keys_of).k;
      p.v = shared_.at(*spec.keys_of).v;
    }
    const std::size_t window = spec.window;
    Rows mixed;
    for (std::size_t t = 0; t < x.size(); ++t) {
      Row out(spec.heads * spec.value_size, 0.0);
      const std::size_t first = window > 0 && t + 1 > window ? t + 1 - window : 0;
      const std::size_t known = spec_.causal ? t + 1 : x.size();
      const std::size_t end = window > 0 ? std::min(known, t + window) : known;
      for (std::size_t head = 0; head < spec.heads; ++head) {
        const std::size_t group = head / (spec.heads / spec.kv_heads);
        Row weights;
        double total = spec.sink_logits ? std::exp(at(Role::kSinkLogits, layer).weight[head]) : 0.0;
        for (std::size_t s = first; s < end; ++s) {
          double score = 0;
          for (std::size_t c = 0; c < spec.head_size; ++c) {
            score += p.q[t][head * spec.head_size + c] * p.k[s][group * spec.head_size + c];
          }
          score *= spec.scale;
          if (spec.relative_bias) {
            const auto distance = static_cast<std::int64_t>(s) - static_cast<std::int64_t>(t);
            const std::size_t bucket = spec.relative_bias->bucket(distance);
            score += at(Role::kRelativeBias, layer).weight[bucket * spec.heads + head];
          }
          if (spec.alibi) {
            const double distance = std::abs(static_cast<double>(s) - static_cast<double>(t));
            score -= alibi_slope(head, spec.heads) * distance;
          }
          if (spec.score_cap > 0) score = spec.score_cap * std::tanh(score / spec.score_cap);
          weights.push_back(std::exp(score));
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
        for (std::size_t i = 0; i < mixed[t].size(); ++i) {
          mixed[t][i] /= 1 + std::exp(-gates[t][spec.head_gates ? i / spec.value_size : i]);
        }
      }
    }
    return linear(Role::kAttentionOutput, layer, mixed);
  }

 private:
  /// Queries, keys and values, [heads][size] in each row, not normalized and not rotated.
  struct Projected {
    Rows q, k, v;
  };

  Projected project(std::size_t layer, const Rows& x) const {
    const LatentAttentionSpec* latent_spec = spec_.layers[layer].latent();
    if (latent_spec == nullptr) {
      if (spec_.layers[layer].attention()->keys_of) return {linear(Role::kQuery, layer, x), {}, {}};
      const bool shared = spec_.layers[layer].attention()->values_are_keys;
      return {linear(Role::kQuery, layer, x), linear(Role::kKey, layer, x),
              linear(shared ? Role::kKey : Role::kValue, layer, x)};
    }
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

  /// Normalizes one token's heads.
  void normalize_heads(double* row, Role norm_role, std::size_t layer, std::size_t heads) const {
    const AttentionSpec& attention = *spec_.layers[layer].attention();
    const RoleTensor& gains = at(norm_role, layer);
    NormSpec kind = plain_rms(spec_.norm.epsilon);
    const HeadNormSpec& norm = *attention.query_key_norm;
    if (!norm.gain) kind.gain_offset = 0;
    if (norm.kind == HeadNormSpec::Kind::kRmsAllHeads) return normalize(kind, gains, row);
    for (std::size_t head = 0; head < heads; ++head) {
      RoleTensor own = gains;
      if (norm.kind == HeadNormSpec::Kind::kLayer) {
        kind.kind = NormSpec::Kind::kLayer;
        own.cols = attention.head_size;
        own.weight.erase(own.weight.begin(), own.weight.begin() + static_cast<std::ptrdiff_t>(head * own.cols));
      }
      normalize(kind, own, row + head * attention.head_size);
    }
  }

  void context(Rows& rows, Role norm_role, std::size_t layer, std::size_t heads) const {
    const AttentionSpec& attention = *spec_.layers[layer].attention();
    for (std::size_t t = 0; t < rows.size(); ++t) {
      double* row = rows[t].data();
      if (attention.query_key_norm && !attention.query_key_norm->after_rotation)
        normalize_heads(row, norm_role, layer, heads);
      for (std::size_t head = 0; head < heads; ++head) rotate(layer, row + head * attention.head_size, t);
      if (attention.query_key_norm && attention.query_key_norm->after_rotation)
        normalize_heads(row, norm_role, layer, heads);
      if (!attention.query_growth || norm_role != Role::kQueryNorm) continue;
      const QueryGrowthSpec& growth = *attention.query_growth;
      const double steps = std::floor((static_cast<double>(t) + growth.offset) / growth.length);
      for (double& value : rows[t]) value *= 1 + growth.slope * std::log(1 + steps);
    }
  }

  mutable std::map<std::size_t, Projected> shared_;  ///< by layer: keys and values that later layers read
  std::vector<std::vector<double>> frequencies_;     ///< of each layer
};

}  // namespace ballast::test

#endif  // BALLAST_TESTS_SUPPORT_REFERENCE_HEADS_H_
