#include <cstdint>

#include "formats/scale_codes.h"
#include "kernels/matrix/float_matrix.h"
#include "quant/passes/fold_arithmetic.h"
#include "quant/passes/passes.h"

namespace ballast::quant {

namespace {

class RoundGains : public Pass {
 public:
  explicit RoundGains(DType type) : type_(formats::scale_float_type(type)) {}

  void run(WorkingBlock& block) override {
    for (WorkingInput& input : block.inputs) {
      if (input.norm) round(block, block.norms[*input.norm], input);
    }
  }

  std::string note() const override {
    return "round_gains: " + std::to_string(norms_) + " norms have gains of the model's type";
  }

 private:
  void round(WorkingBlock& block, WorkingNorm& norm, WorkingInput& input) {
    std::vector<std::uint16_t> stored(norm.gain.size());
    kernels::from_float(norm.gain.data(), stored.size(), type_, stored.data());
    std::vector<float> rounded(stored.size());
    kernels::to_float(stored.data(), type_, stored.size(), rounded.data());
    if (rounded == norm.gain) return;
    std::vector<float> factors(rounded.size(), 1.0F);
    std::vector<float> inverse(rounded.size(), 1.0F);
    for (std::size_t c = 0; c < rounded.size(); ++c) {
      if (rounded[c] == 0) continue;  // too small for the type, or zero
      factors[c] = norm.gain[c] / rounded[c];
      inverse[c] = rounded[c] / norm.gain[c];
      if (!norm.bias.empty()) norm.bias[c] *= inverse[c];
    }
    norm.gain = std::move(rounded);
    for (const std::size_t reader : input.readers) scale_columns(block.linears[reader], factors);
    if (input.statistics) scale_channels(input.statistics->channels, inverse);
    ++norms_;
  }

  kernels::FloatType type_;
  std::size_t norms_ = 0;
};

}  // namespace

std::unique_ptr<Pass> make_round_gains(DType type) {
  return std::make_unique<RoundGains>(type);
}

}  // namespace ballast::quant
