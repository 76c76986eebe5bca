// LFM2's gated short convolution: one of three projections of the block's input is convolved over a few tokens. Another
// one multiplies it before the convolution, and the third multiplies the result.
#include <array>
#include <memory>

#include "kernels/parallel.h"
#include "model/block/block_parts.h"
#include "model/block/block_pass.h"
#include "model/mixer/convolution.h"
#include "model/mixer/recurrent_kinds.h"

namespace ballast::model {

namespace short_convolution {
namespace {

constexpr std::size_t kOperationsOfAChannel = 8;

const ShortConvolutionSpec& convolution_of(const LayerSpec& layer) {
  return std::get<ShortConvolutionSpec>(layer.mixer);
}

std::vector<float> convolution_bias(const ShortConvolutionSpec& spec, const BlockParts& parts) {
  return spec.bias ? parts.vector(Role::kConvolutionBias) : std::vector<float>{};
}

class ShortConvolution final : public Mixer {
 public:
  ShortConvolution(const ShortConvolutionSpec& spec, const BlockParts& parts)
      : input_gate_(parts.linear({Role::kConvolutionInputGate})),
        output_gate_(parts.linear({Role::kConvolutionOutputGate})),
        input_(parts.linear({Role::kConvolutionInput})),
        output_(parts.linear({Role::kConvolutionOutput})),
        convolution_(parts.vector(Role::kConvolutionTaps), spec.channels, spec.width, convolution_bias(spec, parts)) {}

  void for_each_linear(const std::function<void(const Linear&, Role)>& visit) const override {
    visit(input_gate_, Role::kConvolutionInputGate);
    visit(output_gate_, Role::kConvolutionOutputGate);
    visit(input_, Role::kConvolutionInput);
    visit(output_, Role::kConvolutionOutput);
  }

  std::size_t forward(const BlockPass& pass, const LinearRows& input, float* hidden) const override {
    const std::size_t channels = convolution_of(pass.layer).channels;
    float* gates = pass.buffer(0, pass.tokens * 2 * channels);  // [tokens][2][channels]
    float* values = pass.buffer(1, pass.tokens * channels);
    float* mixed = pass.buffer(2, pass.tokens * channels);
    LinearOutputs outputs;
    outputs.add({&input_gate_, gates, 2 * channels});
    outputs.add({&output_gate_, gates + channels, 2 * channels});
    outputs.add({&input_, values, channels});
    pass.apply_linears(outputs.all(), input, pass.rows);
    convolve(pass, gates, values, mixed);
    std::size_t left = pass.tokens;
    if (pass.options.wanted_only) {
      left = keep_wanted_rows(pass.batch, channels, mixed);
      if (left == 0) return 0;
      keep_wanted_rows(pass.batch, pass.spec.hidden_size, hidden);
    }
    const LinearOutput output[] = {{&output_, hidden, pass.spec.hidden_size, true}};
    pass.apply_linears(output, {mixed, channels}, pass.rows_after_mixer());
    return left;
  }

 private:
  void convolve(const BlockPass& pass, const float* gates, float* values, float* mixed) const {
    const std::size_t channels = convolution_of(pass.layer).channels;
    const std::size_t threads = kernels::threads_for(pass.tokens * channels * kOperationsOfAChannel);
    kernels::parallel_ranges(channels, threads, [&](std::size_t begin, std::size_t end) {
      const auto multiply = [&](float* rows, const float* by) {
        for (std::size_t t = 0; t < pass.tokens; ++t) {
          for (std::size_t c = begin; c < end; ++c) rows[t * channels + c] *= by[t * 2 * channels + c];
        }
      };
      multiply(values, gates);
      convolution_.run(pass, values, begin, end, mixed);
      multiply(mixed, gates + channels);
    });
  }

  Linear input_gate_, output_gate_, input_, output_;
  Convolution convolution_;
};

MatrixShape taps_shape(const LayerSpec& layer) {
  return {convolution_of(layer).channels, convolution_of(layer).width};
}

std::size_t channels(const LayerSpec& layer) {
  return convolution_of(layer).channels;
}

const char* product_before_follows(const LayerSpec& /*layer*/) {
  return "the product with the convolution's input follows";
}
const char* product_after_follows(const LayerSpec& /*layer*/) {
  return "the product with the convolution's output follows";
}

constexpr RoleRow convolution_bias_row() {
  RoleRow row = vector_row<channels>(Role::kConvolutionBias);
  row.present = [](const ModelSpec&, const LayerSpec& layer) { return convolution_of(layer).bias; };
  return row;
}

constexpr std::array<RoleRow, 6> kRoles{{
    biased_input_linear<channels>(Role::kConvolutionInputGate, product_before_follows),
    biased_input_linear<channels>(Role::kConvolutionOutputGate, product_after_follows),
    biased_input_linear<channels>(Role::kConvolutionInput, nullptr),
    taps_row<taps_shape>(Role::kConvolutionTaps),
    convolution_bias_row(),
    {.role = Role::kConvolutionOutput,
     .shape = [](const ModelSpec& spec,
                 const LayerSpec& layer) { return MatrixShape{spec.hidden_size, convolution_of(layer).channels}; },
     .bias_flag = &BiasSpec::mixer_output,
     .writes_stream = true,
     .after_mixing = true},
}};

ValuePath value_path_of_channels(const LayerSpec& layer) {
  constexpr const char* kGates = "gates multiply its channels, by element";
  ValuePath path = {.value = Role::kConvolutionInput,
                    .output = Role::kConvolutionOutput,
                    .head_size = convolution_of(layer).channels,
                    .bias = {false, kGates},
                    .scaling = {true, "each channel is convolved by itself"},
                    .rotation = {false, kGates}};
  if (convolution_of(layer).bias) path.scaling = {false, "the convolution adds a bias, which is not scaled with it"};
  return path;
}

}  // namespace
}  // namespace short_convolution

constinit const MixerKind kShortConvolution = {
    .roles = short_convolution::kRoles,
    .assemble = [](const ModelSpec& spec, std::size_t layer, const BlockParts& parts) -> std::unique_ptr<const Mixer> {
      return std::make_unique<short_convolution::ShortConvolution>(
          short_convolution::convolution_of(spec.layers[layer]), parts);
    },
    .make_state = [](const ModelSpec& spec, std::size_t layer) -> std::unique_ptr<MixerState> {
      const ShortConvolutionSpec& convolution = short_convolution::convolution_of(spec.layers[layer]);
      return std::make_unique<ConvolutionState>(convolution.channels, convolution.width);
    },
    .value_path = short_convolution::value_path_of_channels,
};

}  // namespace ballast::model
