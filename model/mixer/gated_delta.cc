// The gated delta net (Yang et al. 2024, arXiv:2412.06464) as in Qwen3-Next: a short convolution of queries, keys and
// values, a memory of one matrix per head, a norm of its output, and a gate.
#include <array>
#include <cmath>
#include <memory>
#include <vector>

#include "kernels/activation.h"
#include "kernels/norm.h"
#include "kernels/parallel.h"
#include "kernels/recurrent/delta_rule.h"
#include "model/block/block_parts.h"
#include "model/block/block_pass.h"
#include "model/mixer/convolution.h"
#include "model/mixer/head_memories.h"
#include "model/mixer/recurrent_kinds.h"

namespace ballast::model {

namespace gated_delta {
namespace {

constexpr std::size_t kOperationsOfAFactor = 128;  // three exponentials and a logarithm

const GatedDeltaSpec& delta_of(const LayerSpec& layer) {
  return std::get<GatedDeltaSpec>(layer.mixer);
}

class GatedDelta final : public Mixer {
 public:
  GatedDelta(const GatedDeltaSpec& spec, const BlockParts& parts)
      : query_(parts.linear({Role::kDeltaQuery})),
        key_(parts.linear({Role::kDeltaKey})),
        value_(parts.linear({Role::kDeltaValue})),
        gate_(parts.linear({Role::kDeltaGate})),
        strength_(parts.linear({Role::kDeltaStrength})),
        decay_(parts.linear({Role::kDeltaDecay})),
        decay_bias_(parts.vector(Role::kDeltaDecayBias)),
        rate_(decay_rates(parts.vector(Role::kDeltaDecayRate))),
        norm_(parts.norm(Role::kDeltaNorm)),
        output_(parts.linear({Role::kDeltaOutput})),
        convolution_(parts.vector(Role::kDeltaConvolution), spec.channels(), spec.width),
        // The norm computes 1/sqrt(mean + e/n), and 1/sqrt(sum + e) is 1/sqrt(n) times that; queries have another
        // factor of 1/sqrt(n).
        query_gain_(spec.key_size, 1.0F / static_cast<float>(spec.key_size)),
        key_gain_(spec.key_size, 1.0F / std::sqrt(static_cast<float>(spec.key_size))) {}

  void for_each_linear(const std::function<void(const Linear&, Role)>& visit) const override {
    visit(query_, Role::kDeltaQuery);
    visit(key_, Role::kDeltaKey);
    visit(value_, Role::kDeltaValue);
    visit(gate_, Role::kDeltaGate);
    visit(strength_, Role::kDeltaStrength);
    visit(decay_, Role::kDeltaDecay);
    visit(output_, Role::kDeltaOutput);
  }

  std::size_t forward(const BlockPass& pass, const LinearRows& input, float* hidden) const override {
    const GatedDeltaSpec& spec = delta_of(pass.layer);
    const std::size_t width = spec.value_heads * spec.value_size;
    Rows rows = {.projected = pass.buffer(0, pass.tokens * spec.channels()),
                 .mixed = pass.buffer(1, pass.tokens * spec.channels()),
                 .gates = pass.buffer(2, pass.tokens * width),
                 .scalars = pass.buffer(3, pass.tokens * 2 * spec.value_heads)};
    project(pass, rows, input);
    convolve(pass, rows);
    make_factors(pass, rows);
    float* outputs = rows.projected;  // its contents were read by the convolution
    follow(pass, rows, outputs);
    kernels::rms_norm_heads(outputs, pass.tokens, spec.value_heads, spec.value_size, width, norm_.gain.data(),
                            norm_.epsilon);
    const auto gated = [&](std::size_t row, float* dst) -> const float* {
      kernels::activate_multiply(Activation::kSilu, rows.gates + row * width, outputs + row * width, width, dst);
      return dst;
    };
    return add_gated_outputs(pass, {.width = width, .outputs = outputs, .gates = rows.gates}, kernels::RowSource(gated),
                             output_, hidden);
  }

 private:
  struct Rows {
    float* projected;  ///< [tokens][channels]: queries, keys and values of all heads
    float* mixed;      ///< after the convolution
    float* gates;      ///< [tokens][value_heads * value_size]
    float* scalars;    ///< [tokens][2][value_heads]: strengths, and decays
  };

  void project(const BlockPass& pass, const Rows& rows, const LinearRows& input) const {
    const GatedDeltaSpec& spec = delta_of(pass.layer);
    const std::size_t keys = spec.key_heads * spec.key_size;
    LinearOutputs outputs;
    outputs.add({&query_, rows.projected, spec.channels()});
    outputs.add({&key_, rows.projected + keys, spec.channels()});
    outputs.add({&value_, rows.projected + 2 * keys, spec.channels()});
    outputs.add({&gate_, rows.gates, spec.value_heads * spec.value_size});
    outputs.add({&strength_, rows.scalars, 2 * spec.value_heads});
    outputs.add({&decay_, rows.scalars + spec.value_heads, 2 * spec.value_heads});
    pass.apply_linears(outputs.all(), input, pass.rows);
  }

  /// Applies the convolution to queries, keys and values, and normalizes queries and keys: to length 1, queries to
  /// 1/sqrt(key_size).
  void convolve(const BlockPass& pass, const Rows& rows) const {
    const GatedDeltaSpec& spec = delta_of(pass.layer);
    convolve_activated(pass, convolution_, spec.channels(), rows.projected, rows.mixed);
    const auto normalize = [&](float* heads, const std::vector<float>& gain) {
      constexpr float kEpsilon = 1e-6F;  // of the sum of squares, as in the authors' code
      kernels::rms_norm_heads(heads, pass.tokens, spec.key_heads, spec.key_size, spec.channels(), gain.data(),
                              kEpsilon / static_cast<float>(spec.key_size));
    };
    normalize(rows.mixed, query_gain_);
    normalize(rows.mixed + spec.key_heads * spec.key_size, key_gain_);
  }

  /// Computes strengths and decays from the linears' outputs.
  void make_factors(const BlockPass& pass, const Rows& rows) const {
    const std::size_t heads = rate_.size();
    const std::size_t threads = kernels::threads_for(pass.tokens * heads * kOperationsOfAFactor);
    kernels::parallel_ranges(pass.tokens, threads, [&](std::size_t begin, std::size_t end) {
      for (std::size_t t = begin; t < end; ++t) {
        float* strengths = rows.scalars + t * 2 * heads;
        float* decays = strengths + heads;
        for (std::size_t h = 0; h < heads; ++h) {
          strengths[h] = 1.0F / (1.0F + std::exp(-strengths[h]));
          decays[h] = std::exp(-rate_[h] * softplus(decays[h] + decay_bias_[h]));
        }
      }
    });
  }

  /// Runs the memories of all heads along the tokens of their sequences.
  void follow(const BlockPass& pass, const Rows& rows, float* outputs) const {
    const GatedDeltaSpec& spec = delta_of(pass.layer);
    const std::size_t width = spec.value_heads * spec.value_size;
    follow_heads(pass, spec.value_heads, 2 * spec.key_size * spec.value_size, [&](const HeadRun& run) {
      const std::size_t key_head = run.head / (spec.value_heads / spec.key_heads);
      const float* mixed = rows.mixed + run.first_row * spec.channels();
      const float* scalars = rows.scalars + run.first_row * 2 * spec.value_heads;
      kernels::delta_rule({.tokens = run.tokens,
                           .key_size = spec.key_size,
                           .value_size = spec.value_size,
                           .queries = mixed + key_head * spec.key_size,
                           .keys = mixed + (spec.key_heads + key_head) * spec.key_size,
                           .values = mixed + 2 * spec.key_heads * spec.key_size + run.head * spec.value_size,
                           .stride = spec.channels(),
                           .decays = scalars + spec.value_heads + run.head,
                           .strengths = scalars + run.head,
                           .gate_stride = 2 * spec.value_heads,
                           .memory = run.memory,
                           .out = outputs + run.first_row * width + run.head * spec.value_size,
                           .out_stride = width});
    });
  }

  Linear query_, key_, value_, gate_, strength_, decay_;
  std::vector<float> decay_bias_;
  std::vector<float> rate_;  ///< of the decay, one per value head
  Norm norm_;
  Linear output_;
  Convolution convolution_;
  std::vector<float> query_gain_, key_gain_;
};

std::size_t key_channels(const LayerSpec& layer) {
  return delta_of(layer).key_heads * delta_of(layer).key_size;
}
std::size_t value_channels(const LayerSpec& layer) {
  return delta_of(layer).value_heads * delta_of(layer).value_size;
}
std::size_t value_heads(const LayerSpec& layer) {
  return delta_of(layer).value_heads;
}

MatrixShape taps_shape(const LayerSpec& layer) {
  return {delta_of(layer).channels(), delta_of(layer).width};
}

constexpr std::array<RoleRow, 11> kRoles{{
    input_linear<key_channels>(Role::kDeltaQuery),
    input_linear<key_channels>(Role::kDeltaKey),
    input_linear<value_channels>(Role::kDeltaValue),
    input_linear<value_channels>(Role::kDeltaGate),
    in_float32(input_linear<value_heads>(Role::kDeltaStrength)),
    in_float32(input_linear<value_heads>(Role::kDeltaDecay)),
    taps_row<taps_shape>(Role::kDeltaConvolution),
    vector_row<value_heads>(Role::kDeltaDecayBias),
    vector_row<value_heads>(Role::kDeltaDecayRate),
    {.role = Role::kDeltaNorm,
     .kind = RoleRow::Kind::kNorm,
     .shape = [](const ModelSpec&, const LayerSpec& layer) { return MatrixShape{1, delta_of(layer).value_size}; },
     .norm = [](const ModelSpec&, const LayerSpec& layer) { return NormSpec{.epsilon = delta_of(layer).epsilon}; },
     .read_by_linears_only = read_after_gate},
    {.role = Role::kDeltaOutput,
     .shape = [](const ModelSpec& spec,
                 const LayerSpec& layer) { return MatrixShape{spec.hidden_size, value_channels(layer)}; },
     .gated_norm = Role::kDeltaNorm,
     .writes_stream = true,
     .after_mixing = true},
}};

}  // namespace
}  // namespace gated_delta

constinit const MixerKind kGatedDelta = {
    .roles = gated_delta::kRoles,
    .assemble = [](const ModelSpec& spec, std::size_t layer, const BlockParts& parts) -> std::unique_ptr<const Mixer> {
      return std::make_unique<gated_delta::GatedDelta>(gated_delta::delta_of(spec.layers[layer]), parts);
    },
    .make_state = [](const ModelSpec& spec, std::size_t layer) -> std::unique_ptr<MixerState> {
      const GatedDeltaSpec& delta = gated_delta::delta_of(spec.layers[layer]);
      return std::make_unique<MemoryState>(delta.channels(), delta.width,
                                           delta.value_heads * delta.key_size * delta.value_size);
    },
    .convolves = true,
};

}  // namespace ballast::model
