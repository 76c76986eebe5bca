// Mamba 2 (Dao and Gu 2024, arXiv:2405.21060): a short convolution of values, keys and queries, a memory of one matrix
// per head that decays by a step that depends on the token, and a gate with a norm before it, after it, or none.
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <vector>

#include "kernels/activation.h"
#include "kernels/norm.h"
#include "kernels/parallel.h"
#include "kernels/recurrent/state_space.h"
#include "model/block/block_parts.h"
#include "model/block/block_pass.h"
#include "model/mixer/convolution.h"
#include "model/mixer/head_memories.h"
#include "model/mixer/recurrent_kinds.h"

namespace ballast::model {

namespace mamba2 {
namespace {

constexpr std::size_t kOperationsOfAFactor = 128;  // two exponentials and a logarithm

const Mamba2Spec& mamba_of(const LayerSpec& layer) {
  return *layer.mamba();
}

std::vector<float> convolution_bias(const Mamba2Spec& spec, const BlockParts& parts) {
  return spec.convolution_bias ? parts.vector(Role::kMambaConvolutionBias) : std::vector<float>{};
}

class Mamba2 final : public Mixer {
 public:
  Mamba2(const Mamba2Spec& spec, const BlockParts& parts)
      : gate_(parts.linear({Role::kMambaGate})),
        value_(parts.linear({Role::kMambaValue})),
        key_(parts.linear({Role::kMambaKey})),
        query_(parts.linear({Role::kMambaQuery})),
        step_(parts.linear({Role::kMambaStep})),
        step_bias_(parts.vector(Role::kMambaStepBias)),
        rate_(decay_rates(parts.vector(Role::kMambaDecayRate))),
        skip_(parts.vector(Role::kMambaSkip)),
        output_(parts.linear({Role::kMambaOutput})),
        convolution_(parts.vector(Role::kMambaConvolution), spec.channels(), spec.width,
                     convolution_bias(spec, parts)) {
    if (spec.norm != Mamba2Spec::Norm::kNone) norm_ = parts.norm(Role::kMambaNorm);
  }

  void for_each_linear(const std::function<void(const Linear&, Role)>& visit) const override {
    visit(gate_, Role::kMambaGate);
    visit(value_, Role::kMambaValue);
    visit(key_, Role::kMambaKey);
    visit(query_, Role::kMambaQuery);
    visit(step_, Role::kMambaStep);
    visit(output_, Role::kMambaOutput);
  }

  std::size_t forward(const BlockPass& pass, const LinearRows& input, float* hidden) const override {
    const Mamba2Spec& spec = mamba_of(pass.layer);
    const std::size_t width = spec.value_channels();
    const Rows rows = {.projected = pass.buffer(0, pass.tokens * spec.channels()),
                       .mixed = pass.buffer(1, pass.tokens * spec.channels()),
                       .gates = pass.buffer(2, pass.tokens * width),
                       .factors = pass.buffer(3, pass.tokens * 2 * spec.heads)};
    project(pass, rows, input);
    convolve_activated(pass, convolution_, spec.channels(), rows.projected, rows.mixed);
    make_factors(pass, rows);
    float* outputs = rows.projected;  // its contents were read by the convolution
    follow(pass, rows, outputs);
    const auto gated = [&](std::size_t row, float* dst) -> const float* {
      float* output = outputs + row * width;
      if (spec.norm == Mamba2Spec::Norm::kBeforeGate) normalize_groups(spec, output);
      kernels::activate_multiply(Activation::kSilu, rows.gates + row * width, output, width, dst);
      if (spec.norm == Mamba2Spec::Norm::kAfterGate) normalize_groups(spec, dst);
      return dst;
    };
    return add_gated_outputs(pass, {.width = width, .outputs = outputs, .gates = rows.gates}, kernels::RowSource(gated),
                             output_, hidden);
  }

 private:
  struct Rows {
    float* projected;  ///< [tokens][channels]: values, keys and queries
    float* mixed;      ///< after the convolution
    float* gates;      ///< [tokens][value_channels]
    float* factors;    ///< [tokens][2][heads]: steps, and decays
  };

  void project(const BlockPass& pass, const Rows& rows, const LinearRows& input) const {
    const Mamba2Spec& spec = mamba_of(pass.layer);
    const std::size_t values = spec.value_channels();
    LinearOutputs outputs;
    outputs.add({&gate_, rows.gates, values});
    outputs.add({&value_, rows.projected, spec.channels()});
    outputs.add({&key_, rows.projected + values, spec.channels()});
    outputs.add({&query_, rows.projected + values + spec.key_channels(), spec.channels()});
    outputs.add({&step_, rows.factors, 2 * spec.heads});
    pass.apply_linears(outputs.all(), input, pass.rows);
  }

  /// Computes steps and decays from the linear's outputs.
  void make_factors(const BlockPass& pass, const Rows& rows) const {
    const Mamba2Spec& spec = mamba_of(pass.layer);
    const auto least = static_cast<float>(spec.least_step);
    const auto largest = static_cast<float>(spec.largest_step);
    const std::size_t threads = kernels::threads_for(pass.tokens * spec.heads * kOperationsOfAFactor);
    kernels::parallel_ranges(pass.tokens, threads, [&](std::size_t begin, std::size_t end) {
      for (std::size_t t = begin; t < end; ++t) {
        float* steps = rows.factors + t * 2 * spec.heads;
        float* decays = steps + spec.heads;
        for (std::size_t h = 0; h < spec.heads; ++h) {
          steps[h] = std::clamp(softplus(steps[h] + step_bias_[h]), least, largest);
          decays[h] = std::exp(-rate_[h] * steps[h]);
        }
      }
    });
  }

  /// Runs the memories of all heads along the tokens of their sequences.
  void follow(const BlockPass& pass, const Rows& rows, float* outputs) const {
    const Mamba2Spec& spec = mamba_of(pass.layer);
    follow_heads(pass, spec.heads, 2 * spec.state_size * spec.head_size, [&](const HeadRun& run) {
      const std::size_t group = run.head / (spec.heads / spec.groups);
      const float* mixed = rows.mixed + run.first_row * spec.channels();
      const float* keys = mixed + spec.value_channels() + group * spec.state_size;
      const float* factors = rows.factors + run.first_row * 2 * spec.heads;
      kernels::state_space({.tokens = run.tokens,
                            .state_size = spec.state_size,
                            .head_size = spec.head_size,
                            .values = mixed + run.head * spec.head_size,
                            .keys = keys,
                            .queries = keys + spec.key_channels(),
                            .stride = spec.channels(),
                            .decays = factors + spec.heads + run.head,
                            .steps = factors + run.head,
                            .gate_stride = 2 * spec.heads,
                            .skip = skip_[run.head],
                            .memory = run.memory,
                            .out = outputs + run.first_row * spec.value_channels() + run.head * spec.head_size,
                            .out_stride = spec.value_channels()});
    });
  }

  void normalize_groups(const Mamba2Spec& spec, float* row) const {
    const std::size_t size = spec.value_channels() / spec.groups;
    for (std::size_t first = 0; first < spec.value_channels(); first += size) {
      kernels::rms_norm(row + first, 1, size, {.gain = norm_.gain.data() + first, .epsilon = norm_.epsilon},
                        row + first);
    }
  }

  Linear gate_, value_, key_, query_, step_;
  std::vector<float> step_bias_;
  std::vector<float> rate_;  ///< of the decay, one per head
  std::vector<float> skip_;
  Norm norm_;  ///< without a gain: no norm
  Linear output_;
  Convolution convolution_;
};

std::size_t value_channels(const LayerSpec& layer) {
  return mamba_of(layer).value_channels();
}
std::size_t key_channels(const LayerSpec& layer) {
  return mamba_of(layer).key_channels();
}
std::size_t heads(const LayerSpec& layer) {
  return mamba_of(layer).heads;
}
std::size_t channels(const LayerSpec& layer) {
  return mamba_of(layer).channels();
}

MatrixShape taps_shape(const LayerSpec& layer) {
  return {channels(layer), mamba_of(layer).width};
}

const char* activation_follows(const LayerSpec& /*layer*/) {
  return "the activation follows";
}
const char* convolution_follows(const LayerSpec& /*layer*/) {
  return "the convolution's activation follows, and its first tokens see fewer biases";
}
const char* softplus_follows(const LayerSpec& /*layer*/) {
  return "the softplus of the step follows";
}

constexpr RoleRow convolution_bias_row() {
  RoleRow row = vector_row<channels>(Role::kMambaConvolutionBias);
  row.present = [](const ModelSpec&, const LayerSpec& layer) { return mamba_of(layer).convolution_bias; };
  return row;
}

constexpr std::array<RoleRow, 12> kRoles{{
    biased_input_linear<value_channels>(Role::kMambaGate, activation_follows),
    biased_input_linear<value_channels>(Role::kMambaValue, convolution_follows),
    biased_input_linear<key_channels>(Role::kMambaKey, convolution_follows),
    biased_input_linear<key_channels>(Role::kMambaQuery, convolution_follows),
    in_float32(biased_input_linear<heads>(Role::kMambaStep, softplus_follows)),
    taps_row<taps_shape>(Role::kMambaConvolution),
    convolution_bias_row(),
    vector_row<heads>(Role::kMambaStepBias),
    vector_row<heads>(Role::kMambaDecayRate),
    vector_row<heads>(Role::kMambaSkip),
    {.role = Role::kMambaNorm,
     .kind = RoleRow::Kind::kNorm,
     .shape = [](const ModelSpec&, const LayerSpec& layer) { return MatrixShape{1, value_channels(layer)}; },
     .present = [](const ModelSpec&,
                   const LayerSpec& layer) { return mamba_of(layer).norm != Mamba2Spec::Norm::kNone; },
     .norm = [](const ModelSpec&, const LayerSpec& layer) { return NormSpec{.epsilon = mamba_of(layer).epsilon}; },
     .read_by_linears_only =
         [](const ModelSpec& spec, const LayerSpec& layer) {
           if (mamba_of(layer).norm == Mamba2Spec::Norm::kBeforeGate) return read_after_gate(spec, layer);
           return FoldLegality{true, "only the output projection reads it"};
         }},
    {.role = Role::kMambaOutput,
     .shape = [](const ModelSpec& spec,
                 const LayerSpec& layer) { return MatrixShape{spec.hidden_size, value_channels(layer)}; },
     .bias_flag = &BiasSpec::mixer_output,
     .gated_norm = Role::kMambaNorm,
     .gate_follows = [](const LayerSpec& layer) { return mamba_of(layer).norm == Mamba2Spec::Norm::kBeforeGate; },
     .writes_stream = true,
     .after_mixing = true},
}};

}  // namespace
}  // namespace mamba2

constinit const MixerKind kMamba2 = {
    .roles = mamba2::kRoles,
    .assemble = [](const ModelSpec& spec, std::size_t layer, const BlockParts& parts) -> std::unique_ptr<const Mixer> {
      return std::make_unique<mamba2::Mamba2>(mamba2::mamba_of(spec.layers[layer]), parts);
    },
    .make_state = [](const ModelSpec& spec, std::size_t layer) -> std::unique_ptr<MixerState> {
      const Mamba2Spec& mamba = mamba2::mamba_of(spec.layers[layer]);
      return std::make_unique<MemoryState>(mamba.channels(), mamba.width,
                                           mamba.heads * mamba.state_size * mamba.head_size);
    },
    .convolves = true,
};

}  // namespace ballast::model
