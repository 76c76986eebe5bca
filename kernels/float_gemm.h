// Selects the implementation of float GEMM: ballast's own tiles or oneDNN's micro-kernels.
#ifndef BALLAST_KERNELS_FLOAT_GEMM_H_
#define BALLAST_KERNELS_FLOAT_GEMM_H_

#include <cstddef>
#include <string_view>

#include "ballast/compute_options.h"
#include "kernels/matrix/float_matrix.h"

namespace ballast::kernels {

/// A product: dst[i][r] = sum over k of rows[i][k] * panel[k][r], in F32, in ascending order of k; products of F32 are
/// fused with the sum.
struct FloatGemmTile {
  const void* rows = nullptr;  ///< [count][depth], `stride` values apart
  std::size_t count = 0;
  std::size_t stride = 0;
  const void* panel = nullptr;  ///< [depth][width]; BF16: [depth / 2][width][2], and an even depth
  std::size_t width = 0;
  std::size_t depth = 0;
  float* dst = nullptr;  ///< [count][width]
  bool adds = false;     ///< adds the finished sums to dst
};

/// An implementation of float GEMM that multiplies in place of ballast's own tiles.
class FloatGemm {
 public:
  FloatGemm() = default;
  FloatGemm(const FloatGemm&) = delete;
  FloatGemm& operator=(const FloatGemm&) = delete;
  virtual ~FloatGemm() = default;

  virtual std::string_view name() const = 0;

  /// Returns whether it multiplies values of this type on this processor.
  virtual bool supports(FloatType type) const = 0;

  /// Multiplies rows and panel of `type`, which must be supported. Called from several threads, within parallel tasks.
  virtual void multiply(FloatType type, const FloatGemmTile& tile) const = 0;
};

/// The factor by which another implementation must be faster than ballast's tiles: its products are copied, with the
/// bias, whereas own tiles store them directly. (2 cores of Zen 4, SmolLM2 in F16: 1.03 times as fast in a tile gave
/// 0.97 in prompts.)
inline constexpr double kSpeedWorthACopy = 1.06;

/// Returns oneDNN, which is loaded at the first call; null if it is not built in or not installed.
const FloatGemm* onednn_gemm();

/// Returns whether ComputeOptions::bf16_products is possible on this machine.
bool multiplies_bf16();

/// Returns the implementation that multiplies `m` tokens in F32; null for ballast's own tiles.
const FloatGemm* float_gemm_for(std::size_t m, FloatGemmChoice choice);

/// Multiply with ballast's own tiles, for comparisons of speed. Only F32; fused if the instruction set can.
std::size_t own_tile_width();
bool own_tile_fuses();
void multiply_own_tile(const FloatGemmTile& tile);

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_FLOAT_GEMM_H_
