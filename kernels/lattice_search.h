// Nearest points of lattices whose elements are positive; signs are chosen before.
#ifndef BALLAST_KERNELS_LATTICE_SEARCH_H_
#define BALLAST_KERNELS_LATTICE_SEARCH_H_

#include <cstddef>
#include <cstdint>

namespace ballast::kernels {

/// The points of a lattice, element after element: elements[i * count + p] is element i of point p.
struct LatticePoints {
  const float* elements = nullptr;
  std::size_t size = 0;   ///< elements of a point: 4 or 8
  std::size_t count = 0;  ///< a multiple of 64
};

struct LatticePoint {
  std::uint32_t index = 0;
  float cost = 0;
};

// Each function returns the point with the smallest cost, of equal ones the first. In F32; all inputs must be finite.
// Single-threaded.

/// The cost of a point p is sum over i of p_i (weights[i] p_i - 2 products[i]): for products[i] = weights[i] x_i, its
/// weighted squared distance from x, up to a constant.
LatticePoint nearest_point(const LatticePoints& points, const float* weights, const float* products);

/// The same, but one element is negative: that where this costs least. Its index is not returned: it has the smallest
/// products[i] p_i, which must not be negative.
LatticePoint nearest_point_with_flip(const LatticePoints& points, const float* weights, const float* products);

/// The cost of a point p is p^T metric p - 2 products^T p; metric is symmetric [size][size].
LatticePoint nearest_point_in_metric(const LatticePoints& points, const float* metric, const float* products);

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_LATTICE_SEARCH_H_
