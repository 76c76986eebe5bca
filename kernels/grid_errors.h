// What rounding to a grid costs, for many grids at once.
#ifndef BALLAST_KERNELS_GRID_ERRORS_H_
#define BALLAST_KERNELS_GRID_ERRORS_H_

#include <span>

namespace ballast::kernels {

/// The values step * scale - minimum, for whole numbers from low to high.
struct StepGrid {
  float scale = 0;
  float inverse = 0;  ///< 1 / scale, or 0 where the scale is
  float minimum = 0;
  float low = 0;
  float high = 0;
};

/// errors[g] = sum over i of weights[i] * (values[i] - the value of grids[g] that is nearest)^2, in F32; ties to even.
/// All finite. Single-threaded.
void grid_errors(std::span<const float> values, std::span<const float> weights, std::span<const StepGrid> grids,
                 std::span<float> errors);

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_GRID_ERRORS_H_
