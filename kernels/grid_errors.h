// Errors of rounding to a grid, for many grids at once.
#ifndef BALLAST_KERNELS_GRID_ERRORS_H_
#define BALLAST_KERNELS_GRID_ERRORS_H_

#include <span>

namespace ballast::kernels {

/// A grid with the values step * scale - minimum, for all whole numbers from low to high, or for some of them.
struct StepGrid {
  float scale = 0;
  float inverse = 0;  ///< 1 / scale, or 0 if the scale is 0
  float minimum = 0;
  float low = 0;
  float high = 0;
};

/// The nearest of some whole numbers: an entry for each interval between two halves, the first for those from `first`
/// on.
struct NearestSteps {
  const float* entries = nullptr;  ///< null: all whole numbers are in the grid
  float first = 0;
};

/// Computes errors[g] = sum over i of weights[i] * (values[i] - the nearest value of grids[g])^2 in F32; if a grid has
/// all whole numbers, ties are rounded to even. All inputs must be finite. Single-threaded.
void grid_errors(std::span<const float> values, std::span<const float> weights, std::span<const StepGrid> grids,
                 std::span<float> errors, const NearestSteps& nearest = {});

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_GRID_ERRORS_H_
