// The gated delta net (Yang et al. 2024, arXiv:2412.06464) as Qwen3-Next has it: a short convolution of queries, keys
// and values, a memory of one matrix per head, a norm of what it returns, and a gate.
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <vector>

#include "kernels/activation.h"
#include "kernels/norm.h"
#include "kernels/parallel.h"
#include "kernels/recurrent/delta_rule.h"
#include "model/block_parts.h"
#include "model/forward/forward_parts.h"
#include "model/mixer/convolution.h"
#include "model/mixer/recurrent_kinds.h"

namespace ballast::model {

namespace {

constexpr std::size_t kOperationsOfAChannel = 32;  // a convolution and a SiLU

const GatedDeltaSpec& delta_of(const LayerSpec& layer) {
  return std::get<GatedDeltaSpec>(layer.mixer);
}

struct GatedDeltaState final : ConvolutionState {
  explicit GatedDeltaState(const GatedDeltaSpec& spec)
      : ConvolutionState(spec.channels(), spec.width), memory(spec.value_heads * spec.key_size * spec.value_size) {}
  std::unique_ptr<MixerState> clone() const override { return std::make_unique<GatedDeltaState>(*this); }
  std::size_t memory_bytes() const override { return ConvolutionState::memory_bytes() + memory.size() * sizeof(float); }

  std::vector<float> memory;  ///< [value_heads][key_size][value_size]
};

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
        norm_(parts.norm(Role::kDeltaNorm)),
        output_(parts.linear({Role::kDeltaOutput})),
        convolution_(parts.vector(Role::kDeltaConvolution), spec.channels(), spec.width),
        // 1/sqrt(sum + e) is 1/sqrt(n) of 1/sqrt(mean + e/n); queries have another 1/sqrt(n).
        query_gain_(spec.key_size, 1.0F / static_cast<float>(spec.key_size)),
        key_gain_(spec.key_size, 1.0F / std::sqrt(static_cast<float>(spec.key_size))) {
    for (const float logarithm : parts.vector(Role::kDeltaDecayRate)) rate_.push_back(std::exp(logarithm));
  }

  void for_each_linear(const std::function<void(const Linear&, Role)>& visit) const override {
    visit(query_, Role::kDeltaQuery);
    visit(key_, Role::kDeltaKey);
    visit(value_, Role::kDeltaValue);
    visit(gate_, Role::kDeltaGate);
    visit(strength_, Role::kDeltaStrength);
    visit(decay_, Role::kDeltaDecay);
    visit(output_, Role::kDeltaOutput);
  }
  void for_each_norm(const std::function<void(const Norm&)>& visit) const override { visit(norm_); }

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
    float* outputs = rows.projected;  // whose values the convolution has taken
    follow(pass, rows, outputs);
    kernels::rms_norm_heads(outputs, pass.tokens, spec.value_heads, spec.value_size, width, norm_.gain.data(),
                            norm_.epsilon);
    std::size_t left = pass.tokens;
    if (pass.options.wanted_only) {
      left = keep_wanted_rows(pass.batch, width, outputs);
      if (left == 0) return 0;
      keep_wanted_rows(pass.batch, width, rows.gates);
      keep_wanted_rows(pass.batch, pass.spec.hidden_size, hidden);
    }
    const auto gated = [&](std::size_t row, float* dst) -> const float* {
      kernels::activate_multiply(Activation::kSilu, rows.gates + row * width, outputs + row * width, width, dst);
      return dst;
    };
    const LinearOutput output[] = {{&output_, hidden, pass.spec.hidden_size, true}};
    pass.apply_linears(output, {kernels::RowSource(gated), width, outputs}, left);
    return left;
  }

 private:
  struct Rows {
    float* projected;  ///< [tokens][channels]: queries, keys and values of all heads
    float* mixed;      ///< the same after the convolution
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
    pass.apply_linears(outputs.all(), input, pass.tokens);
  }

  /// Queries, keys and values past their convolution; queries and keys of length 1 and 1/sqrt(key_size).
  void convolve(const BlockPass& pass, const Rows& rows) const {
    const GatedDeltaSpec& spec = delta_of(pass.layer);
    const std::size_t channels = spec.channels();
    const std::size_t threads = kernels::threads_for(pass.tokens * channels * kOperationsOfAChannel);
    kernels::parallel_ranges(channels, threads, [&](std::size_t begin, std::size_t end) {
      convolution_.run(pass, rows.projected, begin, end, rows.mixed);
    });
    kernels::activate(Activation::kSilu, rows.mixed, pass.tokens * channels);
    const auto normalize = [&](float* heads, const std::vector<float>& gain) {
      constexpr float kEpsilon = 1e-6F;  // of the sum of squares, as in the authors' code
      kernels::rms_norm_heads(heads, pass.tokens, spec.key_heads, spec.key_size, channels, gain.data(),
                              kEpsilon / static_cast<float>(spec.key_size));
    };
    normalize(rows.mixed, query_gain_);
    normalize(rows.mixed + spec.key_heads * spec.key_size, key_gain_);
  }

  /// Strengths and decays from what the linears say of them.
  void make_factors(const BlockPass& pass, const Rows& rows) const {
    const std::size_t heads = rate_.size();
    for (std::size_t t = 0; t < pass.tokens; ++t) {
      float* strengths = rows.scalars + t * 2 * heads;
      float* decays = strengths + heads;
      for (std::size_t h = 0; h < heads; ++h) {
        strengths[h] = 1.0F / (1.0F + std::exp(-strengths[h]));
        const float x = decays[h] + decay_bias_[h];
        const float softplus = x > 20.0F ? x : std::log1p(std::exp(x));  // beyond that they are the same float
        decays[h] = std::exp(-rate_[h] * softplus);
      }
    }
  }

  /// The heads' memories along their sequences' tokens.
  void follow(const BlockPass& pass, const Rows& rows, float* outputs) const {
    const GatedDeltaSpec& spec = delta_of(pass.layer);
    const std::size_t memory_size = spec.key_size * spec.value_size;
    const std::size_t threads = kernels::threads_for(2 * pass.tokens * spec.value_heads * memory_size);
    std::vector<std::size_t> first_rows;
    std::size_t first = 0;
    for (const BatchSequence& sequence : pass.batch) {
      first_rows.push_back(first);
      first += sequence.tokens;
    }
    kernels::parallel_tasks(pass.batch.size() * spec.value_heads, threads, [&](std::size_t task, std::size_t) {
      const BatchSequence& sequence = pass.batch[task / spec.value_heads];
      const std::size_t row = first_rows[task / spec.value_heads];
      const std::size_t head = task % spec.value_heads;
      const std::size_t key_head = head / (spec.value_heads / spec.key_heads);
      const float* mixed = rows.mixed + row * spec.channels();
      const float* scalars = rows.scalars + row * 2 * spec.value_heads;
      const std::size_t width = spec.value_heads * spec.value_size;
      kernels::delta_rule({.tokens = sequence.tokens,
                           .key_size = spec.key_size,
                           .value_size = spec.value_size,
                           .queries = mixed + key_head * spec.key_size,
                           .keys = mixed + (spec.key_heads + key_head) * spec.key_size,
                           .values = mixed + 2 * spec.key_heads * spec.key_size + head * spec.value_size,
                           .stride = spec.channels(),
                           .decays = scalars + spec.value_heads + head,
                           .strengths = scalars + head,
                           .gate_stride = 2 * spec.value_heads,
                           .memory = state_of(pass, sequence).memory.data() + head * memory_size,
                           .out = outputs + row * width + head * spec.value_size,
                           .out_stride = width});
    });
  }

  static GatedDeltaState& state_of(const BlockPass& pass, const BatchSequence& sequence) {
    return static_cast<GatedDeltaState&>(*sequence.state->mixer(pass.state_layer));
  }

  Linear query_, key_, value_, gate_, strength_, decay_;
  std::vector<float> decay_bias_;
  std::vector<float> rate_;  ///< of the decay, one for each value head
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

/// A linear without a bias that reads the block's input.
template <std::size_t (*rows)(const LayerSpec&)>
constexpr RoleRow reading(Role role) {
  RoleRow row;
  row.role = role;
  row.shape = [](const ModelSpec& spec, const LayerSpec& layer) { return MatrixShape{rows(layer), spec.hidden_size}; };
  row.reads = Role::kAttentionNorm;
  return row;
}

/// A vector with an entry for each value head.
constexpr RoleRow head_vector(Role role) {
  RoleRow row;
  row.role = role;
  row.kind = RoleRow::Kind::kVector;
  row.shape = [](const ModelSpec&, const LayerSpec& layer) { return MatrixShape{1, value_heads(layer)}; };
  return row;
}

constexpr std::array<RoleRow, 11> kRoles{{
    reading<key_channels>(Role::kDeltaQuery),
    reading<key_channels>(Role::kDeltaKey),
    reading<value_channels>(Role::kDeltaValue),
    reading<value_channels>(Role::kDeltaGate),
    reading<value_heads>(Role::kDeltaStrength),
    reading<value_heads>(Role::kDeltaDecay),
    taps_row<taps_shape>(Role::kDeltaConvolution),
    head_vector(Role::kDeltaDecayBias),
    head_vector(Role::kDeltaDecayRate),
    {.role = Role::kDeltaNorm,
     .kind = RoleRow::Kind::kNorm,
     .shape = [](const ModelSpec&, const LayerSpec& layer) { return MatrixShape{1, delta_of(layer).value_size}; },
     .norm = [](const ModelSpec&, const LayerSpec& layer) { return NormSpec{.epsilon = delta_of(layer).epsilon}; }},
    {.role = Role::kDeltaOutput,
     .shape = [](const ModelSpec& spec,
                 const LayerSpec& layer) { return MatrixShape{spec.hidden_size, value_channels(layer)}; },
     .gated_norm = Role::kDeltaNorm,
     .writes_stream = true,
     .after_mixing = true},
}};

}  // namespace

constinit const MixerKind kGatedDelta = {
    .name = "gated delta net",
    .roles = kRoles,
    .assemble = [](const ModelSpec& spec, std::size_t layer, const BlockParts& parts) -> std::unique_ptr<const Mixer> {
      return std::make_unique<GatedDelta>(delta_of(spec.layers[layer]), parts);
    },
    .make_state = [](const ModelSpec& spec, std::size_t layer) -> std::unique_ptr<MixerState> {
      return std::make_unique<GatedDeltaState>(delta_of(spec.layers[layer]));
    },
    .convolves = true,
};

}  // namespace ballast::model
