// What rounding to a grid costs, for many grids at once.
#ifndef BALLAST_KERNELS_GRID_ERRORS_H_
#define BALLAST_KERNELS_GRID_ERRORS_H_

#include <span>

namespace ballast::kernels {

/// The values step * scale - minimum, for whole numbers from low to high, or for some of them.
struct StepGrid {
  float scale = 0;
  float inverse = 0;  ///< 1 / scale, or 0 where the scale is
  float minimum = 0;
  float low = 0;
  float high = 0;
};

/// Which of some whole numbers are nearest: an entry for all numbers between two halves, the first for those from
/// `first` on.
struct NearestSteps {
  const float* entries = nullptr;  ///< null: all whole numbers are there
  float first = 0;
};

/// errors[g] = sum over i of weights[i] * (values[i] - the value of grids[g] that is nearest)^2, in F32; of all whole
/// numbers, ties to even. All finite. Single-threaded.
void grid_errors(std::span<const float> values, std::span<const float> weights, std::span<const StepGrid> grids,
                 std::span<float> errors, const NearestSteps& nearest = {});

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_GRID_ERRORS_H_
