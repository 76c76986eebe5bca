#include "kernels/lattice_search.h"

#include <array>
#include <cassert>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/lattice_search.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

namespace lattice {

// At most 16 lanes, so that the points' number is a multiple of several vectors.
using Tag = hn::CappedTag<float, 16>;
using Indices = hn::RebindToUnsigned<Tag>;
using Vector = hn::VFromD<Tag>;

using IndexVector = hn::VFromD<Indices>;

// No struct has the two vectors of the best points, because SVE's vectors cannot be members.
HWY_INLINE void compare(Vector costs, std::size_t first, Vector& best, IndexVector& indices) {
  const Indices du;
  const auto less = hn::RebindMask(du, hn::Lt(costs, best));
  best = hn::Min(costs, best);
  indices = hn::IfThenElse(less, hn::Iota(du, static_cast<std::uint32_t>(first)), indices);
}

HWY_INLINE LatticePoint best_lane(Vector best, IndexVector best_indices) {
  HWY_ALIGN std::array<float, 16> costs;
  HWY_ALIGN std::array<std::uint32_t, 16> indices;
  hn::Store(best, Tag(), costs.data());
  hn::Store(best_indices, Indices(), indices.data());
  LatticePoint result = {indices[0], costs[0]};
  for (std::size_t lane = 1; lane < hn::Lanes(Tag()); ++lane) {
    const bool first = costs[lane] == result.cost && indices[lane] < result.index;
    if (costs[lane] < result.cost || first) result = {indices[lane], costs[lane]};
  }
  return result;
}

template <std::size_t kSize, bool kFlip>
LatticePoint nearest(const LatticePoints& points, const float* weights, const float* products) {
  constexpr std::size_t kTogether = 4;  // vectors, so that their loads of weights are shared
  const Tag df;
  const std::size_t lanes = hn::Lanes(df);
  Vector best = hn::Set(df, 3e38F);
  IndexVector indices = hn::Zero(Indices());
  for (std::size_t p = 0; p < points.count; p += kTogether * lanes) {
    Vector cost0 = hn::Zero(df);
    Vector cost1 = hn::Zero(df);
    Vector cost2 = hn::Zero(df);
    Vector cost3 = hn::Zero(df);
    Vector least0 = hn::Set(df, 3e37F);
    Vector least1 = least0;
    Vector least2 = least0;
    Vector least3 = least0;
    for (std::size_t i = 0; i < kSize; ++i) {
      const float* elements = points.elements + i * points.count + p;
      const Vector weight = hn::Set(df, weights[i]);
      const Vector product = hn::Set(df, products[i]);
      const Vector twice = hn::Add(product, product);
      const auto add = [&](const float* at, Vector& cost, Vector& least) HWY_ATTR {
        const Vector element = hn::LoadU(df, at);
        cost = hn::MulAdd(element, hn::MulSub(weight, element, twice), cost);
        if constexpr (kFlip) least = hn::Min(least, hn::Mul(product, element));
      };
      add(elements, cost0, least0);
      add(elements + lanes, cost1, least1);
      add(elements + 2 * lanes, cost2, least2);
      add(elements + 3 * lanes, cost3, least3);
    }
    if constexpr (kFlip) {
      const Vector four = hn::Set(df, 4.0F);
      cost0 = hn::MulAdd(four, least0, cost0);
      cost1 = hn::MulAdd(four, least1, cost1);
      cost2 = hn::MulAdd(four, least2, cost2);
      cost3 = hn::MulAdd(four, least3, cost3);
    }
    compare(cost0, p, best, indices);
    compare(cost1, p + lanes, best, indices);
    compare(cost2, p + 2 * lanes, best, indices);
    compare(cost3, p + 3 * lanes, best, indices);
  }
  return best_lane(best, indices);
}

template <std::size_t kSize>
LatticePoint nearest_in_metric(const LatticePoints& points, const float* metric, const float* products) {
  const Tag df;
  const std::size_t lanes = hn::Lanes(df);
  Vector best = hn::Set(df, 3e38F);
  IndexVector indices = hn::Zero(Indices());
  for (std::size_t p = 0; p < points.count; p += 2 * lanes) {
    const float* elements = points.elements + p;
    Vector cost0 = hn::Zero(df);
    Vector cost1 = hn::Zero(df);
    for (std::size_t i = 0; i < kSize; ++i) {
      // Half of the products with the elements before i and with itself; cost = 2 sum_i p_i sum_i.
      const Vector half = hn::Set(df, 0.5F * metric[i * kSize + i]);
      const Vector product = hn::Set(df, products[i]);
      const Vector element0 = hn::LoadU(df, elements + i * points.count);
      const Vector element1 = hn::LoadU(df, elements + i * points.count + lanes);
      Vector sum0 = hn::MulSub(half, element0, product);
      Vector sum1 = hn::MulSub(half, element1, product);
      for (std::size_t k = 0; k < i; ++k) {
        const Vector entry = hn::Set(df, metric[i * kSize + k]);
        sum0 = hn::MulAdd(entry, hn::LoadU(df, elements + k * points.count), sum0);
        sum1 = hn::MulAdd(entry, hn::LoadU(df, elements + k * points.count + lanes), sum1);
      }
      cost0 = hn::MulAdd(element0, sum0, cost0);
      cost1 = hn::MulAdd(element1, sum1, cost1);
    }
    compare(hn::Add(cost0, cost0), p, best, indices);
    compare(hn::Add(cost1, cost1), p + lanes, best, indices);
  }
  return best_lane(best, indices);
}

}  // namespace lattice

LatticePoint nearest_point(const LatticePoints& points, const float* weights, const float* products) {
  return points.size == 4 ? lattice::nearest<4, false>(points, weights, products)
                          : lattice::nearest<8, false>(points, weights, products);
}

LatticePoint nearest_point_with_flip(const LatticePoints& points, const float* weights, const float* products) {
  return points.size == 4 ? lattice::nearest<4, true>(points, weights, products)
                          : lattice::nearest<8, true>(points, weights, products);
}

LatticePoint nearest_point_in_metric(const LatticePoints& points, const float* metric, const float* products) {
  return points.size == 4 ? lattice::nearest_in_metric<4>(points, metric, products)
                          : lattice::nearest_in_metric<8>(points, metric, products);
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ballast::kernels {

HWY_EXPORT(nearest_point);
HWY_EXPORT(nearest_point_with_flip);
HWY_EXPORT(nearest_point_in_metric);

LatticePoint nearest_point(const LatticePoints& points, const float* weights, const float* products) {
  assert(points.size == 4 || points.size == 8);
  assert(points.count % 64 == 0);
  return HWY_DYNAMIC_DISPATCH(nearest_point)(points, weights, products);
}

LatticePoint nearest_point_with_flip(const LatticePoints& points, const float* weights, const float* products) {
  assert(points.size == 4 || points.size == 8);
  assert(points.count % 64 == 0);
  return HWY_DYNAMIC_DISPATCH(nearest_point_with_flip)(points, weights, products);
}

LatticePoint nearest_point_in_metric(const LatticePoints& points, const float* metric, const float* products) {
  assert(points.size == 4 || points.size == 8);
  assert(points.count % 64 == 0);
  return HWY_DYNAMIC_DISPATCH(nearest_point_in_metric)(points, metric, products);
}

}  // namespace ballast::kernels
#endif  // HWY_ONCE
