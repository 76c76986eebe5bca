// BatchNorm behind a linear, as convolutional and speech encoders have it.
#ifndef BALLAST_QUANT_BATCH_NORM_H_
#define BALLAST_QUANT_BATCH_NORM_H_

#include <vector>

#include "quant/working_block.h"

namespace ballast::quant {

/// In its inference form: y = gain * (x - mean) / sqrt(variance + epsilon) + bias, all but epsilon per channel.
struct BatchNorm {
  std::vector<float> gain;
  std::vector<float> bias;
  std::vector<float> mean;
  std::vector<float> variance;
  double epsilon = 1e-5;
};

/// Makes the linear compute what linear and norm computed (exact; Jacob et al. 2018, arXiv:1712.05877, section 3.2):
/// its rows are scaled in F64, its bias takes mean and bias, and is created if need be. Throws Error when sizes do not
/// fit or a variance is no variance.
void fold_batch_norm(const BatchNorm& norm, WorkingLinear& linear);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_BATCH_NORM_H_
