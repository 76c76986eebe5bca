// Who multiplies floats beside ballast's own tiles.
#ifndef BALLAST_KERNELS_ENGINE_H_
#define BALLAST_KERNELS_ENGINE_H_

#include <cstddef>
#include <string_view>

#include "kernels/matrix/float_matrix.h"

namespace ballast::kernels {

/// dst[i][r] = sum over k of rows[i][k] * panel[k][r], from k = 0 on and in F32; F32 values are fused.
struct EngineTile {
  const void* rows = nullptr;  ///< [count][depth], `stride` values apart
  std::size_t count = 0;
  std::size_t stride = 0;
  const void* panel = nullptr;  ///< [depth][width]; BF16: [depth / 2][width][2], and an even depth
  std::size_t width = 0;
  std::size_t depth = 0;
  float* dst = nullptr;  ///< [count][width]
  bool adds = false;     ///< to what is in dst, once it is summed
};

class Engine {
 public:
  Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  virtual ~Engine() = default;

  virtual std::string_view name() const = 0;

  /// Whether it multiplies values of this type on this processor.
  virtual bool supports(FloatType type) const = 0;

  /// Rows and panel are of `type`, which it supports. Called from several threads, inside the team's tasks.
  virtual void multiply(FloatType type, const EngineTile& tile) const = 0;
};

/// How many times as fast as ballast's tiles an engine must be: what it multiplied is copied, with the bias, where own
/// tiles store it at once. (2 cores of Zen 4, SmolLM2 in F16: 1.03 times as fast in a tile, 0.97 in prompts.)
inline constexpr double kSpeedWorthACopy = 1.06;

/// oneDNN, loaded at the first call; null where it is not built in or not there.
const Engine* onednn_engine();

/// Whether there is matmul_bf16().
bool multiplies_bf16();

/// Who multiplies `m` tokens in F32; null: ballast's own tiles.
const Engine* engine_of_floats(std::size_t m);

/// ballast's own, called as the others are, for comparisons of speed. F32 alone; fused where the instruction set can.
std::size_t own_tile_width();
bool own_tile_fuses();
void multiply_own_tile(const EngineTile& tile);

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_ENGINE_H_
