#include "kernels/matrix/low_rank.h"

#include <algorithm>
#include <array>
#include <cassert>

#include "kernels/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matrix/low_rank.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>
// After highway.h:
#include "kernels/matrix/float_tile-inl.h"
#include "kernels/simd-inl.h"

#ifndef BALLAST_KERNELS_MATRIX_LOW_RANK_TILE_
#define BALLAST_KERNELS_MATRIX_LOW_RANK_TILE_
namespace ballast::kernels::low_rank {

inline constexpr std::size_t kTileRows = 4;   // of activations that read a matrix together
inline constexpr std::size_t kTileRanks = 4;  // of `down`
inline constexpr std::size_t kBlock = 32;     // neighbouring values of a row of weights: two vectors or more

constexpr std::size_t padded(std::size_t count) {
  return (count + kBlock - 1) / kBlock * kBlock;
}

/// Up to kTileRows rows, and what they are multiplied with.
struct Tile {
  const LowRankMatrix* matrix = nullptr;
  std::size_t count = 0;
  std::array<const float*, kTileRows> src{};
  std::array<float*, kTileRows> dst{};
  float* inner = nullptr;  ///< [rows][padded_rank()]
  const float* bias = nullptr;
};

}  // namespace ballast::kernels::low_rank
#endif

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

using low_rank::kBlock;
using low_rank::kTileRanks;
using low_rank::padded;
using low_rank::Tile;

/// Two vectors divide a block: SVE's may be longer than half of it.
using BlockTag = hn::CappedTag<float, kBlock / 2>;

template <class T>
const T* values_of(const std::byte* bytes) {
  return reinterpret_cast<const T*>(bytes);
}

template <class V>
HWY_INLINE void accumulate_ranks(V x, V w0, V w1, V w2, V w3, V& s0, V& s1, V& s2, V& s3) {
  s0 = hn::MulAdd(x, w0, s0);
  s1 = hn::MulAdd(x, w1, s1);
  s2 = hn::MulAdd(x, w2, s2);
  s3 = hn::MulAdd(x, w3, s3);
}

template <class V>
HWY_INLINE void store_ranks(V s0, V s1, V s2, V s3, float* dst) {
  const BlockTag df;
  dst[0] = hn::ReduceSum(df, s0);
  dst[1] = hn::ReduceSum(df, s1);
  dst[2] = hn::ReduceSum(df, s2);
  dst[3] = hn::ReduceSum(df, s3);
}

/// Computes kTileRanks inner values of each row, from `first` on. The sums are named variables as in multiply_tile().
template <class T, std::size_t kRows>
void multiply_down(const Tile& tile, std::size_t first) {
  static_assert(kTileRanks == 4);
  const BlockTag df;
  const std::size_t cols = tile.matrix->cols();
  const T* HWY_RESTRICT down = values_of<T>(tile.matrix->down()) + first * padded(cols);
  auto s00 = hn::Zero(df), s01 = s00, s02 = s00, s03 = s00;
  auto s10 = s00, s11 = s00, s12 = s00, s13 = s00;
  auto s20 = s00, s21 = s00, s22 = s00, s23 = s00;
  auto s30 = s00, s31 = s00, s32 = s00, s33 = s00;
  for (std::size_t c = 0; c < cols; c += hn::Lanes(df)) {
    const T* block = down + c / kBlock * kBlock * kTileRanks + c % kBlock;
    const auto w0 = load_as_float(df, block);
    const auto w1 = load_as_float(df, block + kBlock);
    const auto w2 = load_as_float(df, block + 2 * kBlock);
    const auto w3 = load_as_float(df, block + 3 * kBlock);
    accumulate_ranks(load_or_zero(df, tile.src[0], c, cols), w0, w1, w2, w3, s00, s01, s02, s03);
    if constexpr (kRows > 1) {
      accumulate_ranks(load_or_zero(df, tile.src[1], c, cols), w0, w1, w2, w3, s10, s11, s12, s13);
    }
    if constexpr (kRows > 2) {
      accumulate_ranks(load_or_zero(df, tile.src[2], c, cols), w0, w1, w2, w3, s20, s21, s22, s23);
    }
    if constexpr (kRows > 3) {
      accumulate_ranks(load_or_zero(df, tile.src[3], c, cols), w0, w1, w2, w3, s30, s31, s32, s33);
    }
  }
  const std::size_t ranks = tile.matrix->padded_rank();
  float* inner = tile.inner + first;
  store_ranks(s00, s01, s02, s03, inner);
  if constexpr (kRows > 1) store_ranks(s10, s11, s12, s13, inner + ranks);
  if constexpr (kRows > 2) store_ranks(s20, s21, s22, s23, inner + 2 * ranks);
  if constexpr (kRows > 3) store_ranks(s30, s31, s32, s33, inner + 3 * ranks);
}

/// Adds outputs begin .. end of each row; `begin` is a multiple of kBlock.
template <class T, std::size_t kRows>
void multiply_up(const Tile& tile, std::size_t begin, std::size_t end) {
  const BlockTag df;
  const std::size_t lanes = hn::Lanes(df);
  const std::size_t rank = tile.matrix->rank();
  const T* HWY_RESTRICT up = values_of<T>(tile.matrix->up()) + begin * rank;
  for (std::size_t c = begin; c < end; c += 2 * lanes) {
    const T* block = up + (c - begin) / kBlock * kBlock * rank + c % kBlock;
    const auto add = [&](std::size_t row, auto sums0, auto sums1) HWY_ATTR {
      float* dst = tile.dst[row];
      const auto v0 = hn::Add(sums0, load_or_zero(df, tile.bias, c, end));
      const auto v1 = hn::Add(sums1, load_or_zero(df, tile.bias, c + lanes, end));
      store_pair(df, hn::Add(load_or_zero(df, dst, c, end), v0), hn::Add(load_or_zero(df, dst, c + lanes, end), v1),
                 end - c, dst + c);
    };
    multiply_tile<kRows>(tile.inner, tile.matrix->padded_rank(), block, kBlock, rank, add, 1, df);
  }
}

/// Calls visit.template operator()<T, kRows>() for the tile's type and number of rows.
template <class Visit>
void with_shape(const Tile& tile, const Visit& visit) {
  const auto with_rows = [&]<class T>() HWY_ATTR {
    switch (tile.count) {
      case 1:
        return visit.template operator()<T, 1>();
      case 2:
        return visit.template operator()<T, 2>();
      case 3:
        return visit.template operator()<T, 3>();
      default:
        return visit.template operator()<T, low_rank::kTileRows>();
    }
  };
  if (tile.matrix->type() == FloatType::kF32) return with_rows.template operator()<float>();
  return with_rows.template operator()<hwy::bfloat16_t>();
}

void multiply_down_tile(const Tile& tile, std::size_t first) {
  with_shape(tile, [&]<class T, std::size_t kRows>() HWY_ATTR { multiply_down<T, kRows>(tile, first); });
}

void multiply_up_tile(const Tile& tile, std::size_t begin, std::size_t end) {
  with_shape(tile, [&]<class T, std::size_t kRows>() HWY_ATTR { multiply_up<T, kRows>(tile, begin, end); });
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ballast::kernels {

HWY_EXPORT(multiply_down_tile);
HWY_EXPORT(multiply_up_tile);

namespace {

using low_rank::kTileRanks;
using low_rank::kTileRows;
using low_rank::Tile;

constexpr std::size_t kOutputsOfATask = 512;
constexpr std::size_t kOperationsAtOnce = 2;  // those of vectors are faster than others

/// Returns a copy in the memory of weights, which a token reads in the order of their allocation.
std::shared_ptr<std::byte[]> stored_values(const std::vector<float>& values, FloatType type) {
  std::shared_ptr<std::byte[]> bytes = allocate_weights(values.size() * float_type_bytes(type));
  from_float(values.data(), values.size(), type, bytes.get());
  return bytes;
}

std::size_t row_tiles(const LowRankProduct& product) {
  return (product.row_indices.size() + kTileRows - 1) / kTileRows;
}

/// Returns a product's rows from kTileRows * index on. `inner`: of the product's first row.
Tile tile_of(const LowRankProduct& product, std::size_t index, const float* src, float* inner) {
  const std::size_t first = index * kTileRows;
  Tile tile{.matrix = product.matrix, .inner = inner + first * product.matrix->padded_rank(), .bias = product.bias};
  tile.count = std::min(kTileRows, product.row_indices.size() - first);
  for (std::size_t i = 0; i < tile.count; ++i) {
    const std::size_t row = product.row_indices[first + i];
    tile.src[i] = src + row * product.matrix->cols();
    tile.dst[i] = product.dst + row * product.stride;
  }
  return tile;
}

/// Calls run(tile, task) for every task of every product's tiles; `count` returns the tasks of a tile.
template <class Count, class Run>
void run_tasks(std::span<const LowRankProduct> products, const float* src, std::size_t operations,
               LowRankScratch& scratch, const Count& count, const Run& run) {
  scratch.task_ends.clear();
  std::size_t tasks = 0;
  for (const LowRankProduct& product : products) {
    scratch.task_ends.push_back(tasks += row_tiles(product) * count(*product.matrix));
  }
  parallel_ranges(tasks, threads_for(operations / kOperationsAtOnce), [&](std::size_t begin, std::size_t end) {
    float* inner = scratch.inner.data();
    std::size_t first = 0;  // task of the product
    for (std::size_t i = 0; i < products.size() && first < end; ++i) {
      const LowRankProduct& product = products[i];
      const std::size_t own = count(*product.matrix);
      for (std::size_t task = std::max(first, begin); task < std::min(end, scratch.task_ends[i]); ++task) {
        run(tile_of(product, (task - first) / own, src, inner), (task - first) % own);
      }
      first = scratch.task_ends[i];
      inner += product.row_indices.size() * product.matrix->padded_rank();
    }
  });
}

}  // namespace

LowRankMatrix::LowRankMatrix(FloatType type, std::size_t rows, std::size_t cols, std::size_t rank, const float* up,
                             const float* down)
    : type_(type), rows_(rows), cols_(cols), rank_(rank) {
  assert(type == FloatType::kF32 || type == FloatType::kBF16);
  using low_rank::kBlock;
  using low_rank::padded;
  std::vector<float> blocks(padded_rank() * padded(cols));
  for (std::size_t k = 0; k < rank; ++k) {
    float* tile = blocks.data() + k / kTileRanks * kTileRanks * padded(cols) + k % kTileRanks * kBlock;
    for (std::size_t c = 0; c < cols; ++c) tile[c / kBlock * kBlock * kTileRanks + c % kBlock] = down[k * cols + c];
  }
  down_ = stored_values(blocks, type);
  blocks.assign(rank * padded(rows), 0.0F);
  for (std::size_t r = 0; r < rows; ++r) {
    float* block = blocks.data() + r / kBlock * kBlock * rank + r % kBlock;
    for (std::size_t k = 0; k < rank; ++k) block[k * kBlock] = up[r * rank + k];
  }
  up_ = stored_values(blocks, type);
}

std::size_t LowRankMatrix::padded_rank() const {
  return (rank_ + kTileRanks - 1) / kTileRanks * kTileRanks;
}

void add_low_rank(std::span<const LowRankProduct> products, const float* src, LowRankScratch& scratch) {
  std::size_t inner = 0;
  std::size_t down_operations = 0;
  std::size_t up_operations = 0;
  for (const LowRankProduct& product : products) {
    const std::size_t ranks = product.row_indices.size() * product.matrix->padded_rank();
    inner += ranks;
    down_operations += ranks * product.matrix->cols();
    up_operations += ranks * product.matrix->rows();
  }
  scratch.inner.grow(inner);
  const auto down = HWY_DYNAMIC_POINTER(multiply_down_tile);
  run_tasks(
      products, src, down_operations, scratch,
      [](const LowRankMatrix& matrix) { return matrix.padded_rank() / kTileRanks; },
      [&](const Tile& tile, std::size_t task) { down(tile, task * kTileRanks); });
  const auto up = HWY_DYNAMIC_POINTER(multiply_up_tile);
  run_tasks(
      products, src, up_operations, scratch,
      [](const LowRankMatrix& matrix) { return (matrix.rows() + kOutputsOfATask - 1) / kOutputsOfATask; },
      [&](const Tile& tile, std::size_t task) {
        const std::size_t begin = task * kOutputsOfATask;
        up(tile, begin, std::min(begin + kOutputsOfATask, tile.matrix->rows()));
      });
}

}  // namespace ballast::kernels
#endif  // HWY_ONCE
