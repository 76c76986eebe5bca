// The gated short convolution once more, in plain loops in F64.
#ifndef BALLAST_TESTS_SUPPORT_REFERENCE_SHORT_CONVOLUTION_H_
#define BALLAST_TESTS_SUPPORT_REFERENCE_SHORT_CONVOLUTION_H_

#include <cstddef>
#include <vector>

#include "ballast/spec.h"
#include "reference_roles.h"

namespace ballast::test {

class ReferenceShortConvolution : public ReferenceRoles {
 public:
  using ReferenceRoles::ReferenceRoles;

  /// What the short convolution of a layer returns.
  Rows run(std::size_t layer, const Rows& x) const {
    const auto& spec = std::get<ShortConvolutionSpec>(spec_.layers[layer].mixer);
    const Rows before = linear(Role::kConvolutionInputGate, layer, x);
    const Rows after = linear(Role::kConvolutionOutputGate, layer, x);
    const Rows values = linear(Role::kConvolutionInput, layer, x);
    const std::vector<float>& taps = at(Role::kConvolutionTaps, layer).weight;
    Rows y(x.size(), Row(spec.channels, 0.0));
    for (std::size_t t = 0; t < x.size(); ++t) {
      for (std::size_t c = 0; c < spec.channels; ++c) {
        for (std::size_t back = 0; back < spec.width && back <= t; ++back) {
          y[t][c] += double{taps[c * spec.width + spec.width - 1 - back]} * before[t - back][c] * values[t - back][c];
        }
        y[t][c] *= after[t][c];
      }
    }
    return linear(Role::kConvolutionOutput, layer, y);
  }
};

}  // namespace ballast::test

#endif  // BALLAST_TESTS_SUPPORT_REFERENCE_SHORT_CONVOLUTION_H_
