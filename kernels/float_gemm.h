// Selects the implementation of float GEMM: ballast's own tiles or oneDNN's micro-kernels.
#ifndef BALLAST_KERNELS_FLOAT_GEMM_H_
#define BALLAST_KERNELS_FLOAT_GEMM_H_

#include <cstddef>
#include <string_view>

#include "ballast/compute_options.h"
#include "kernels/matrix/float_matrix.h"

namespace ballast::kernels {

/// dst[i][r] = sum over k of rows[i][k] * panel[k][r], from k = 0 on and in F32; F32 values are fused.
struct FloatGemmTile {
  const void* rows = nullptr;  ///< [count][depth], `stride` values apart
  std::size_t count = 0;
  std::size_t stride = 0;
  const void* panel = nullptr;  ///< [depth][width]; BF16: [depth / 2][width][2], and an even depth
  std::size_t width = 0;
  std::size_t depth = 0;
  float* dst = nullptr;  ///< [count][width]
  bool adds = false;     ///< to what is in dst, once it is summed
};

/// An implementation of float GEMM that multiplies in place of ballast's own tiles.
class FloatGemm {
 public:
  FloatGemm() = default;
  FloatGemm(const FloatGemm&) = delete;
  FloatGemm& operator=(const FloatGemm&) = delete;
  virtual ~FloatGemm() = default;

  virtual std::string_view name() const = 0;

  /// Whether it multiplies values of this type on this processor.
  virtual bool supports(FloatType type) const = 0;

  /// Rows and panel are of `type`, which it supports. Called from several threads, inside the team's tasks.
  virtual void multiply(FloatType type, const FloatGemmTile& tile) const = 0;
};

/// How many times as fast as ballast's tiles another implementation must be: its products are copied, with the bias,
/// where own tiles store them at once. (2 cores of Zen 4, SmolLM2 in F16: 1.03 times as fast in a tile, 0.97 in
/// prompts.)
inline constexpr double kSpeedWorthACopy = 1.06;

/// Returns oneDNN, loaded at the first call; null where it is not built in or not installed.
const FloatGemm* onednn_gemm();

/// Whether ComputeOptions::bf16_products is possible here.
bool multiplies_bf16();

/// Returns what multiplies `m` tokens in F32; null: ballast's own tiles.
const FloatGemm* float_gemm_for(std::size_t m, FloatGemmChoice choice);

/// ballast's own tiles, called as the others are, for comparisons of speed. F32 alone; fused where the instruction set
/// can.
std::size_t own_tile_width();
bool own_tile_fuses();
void multiply_own_tile(const FloatGemmTile& tile);

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_FLOAT_GEMM_H_
