// The nonlinearities of MLPs and of heads.
#ifndef BALLAST_ACTIVATION_H_
#define BALLAST_ACTIVATION_H_

namespace ballast {

enum class Activation {
  kSilu,         ///< x / (1 + exp(-x))
  kGelu,         ///< x/2 (1 + erf(x / sqrt 2))
  kGeluTanh,     ///< x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))): GPT-2's gelu_new
  kGeluSigmoid,  ///< x / (1 + exp(-1.702 x))
  kRelu,         ///< max(x, 0)
  kReluSquared,  ///< max(x, 0)^2
  kTanh,
};

}  // namespace ballast

#endif  // BALLAST_ACTIVATION_H_
