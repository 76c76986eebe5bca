// AMX: eight registers ("tiles") of up to 16 rows of 64 bytes each, and the product of two of them.
#ifndef BALLAST_KERNELS_MATRIX_AMX_H_
#define BALLAST_KERNELS_MATRIX_AMX_H_

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace ballast::kernels {

inline constexpr std::size_t kAmxTiles = 8;
inline constexpr std::size_t kAmxRows = 16;
inline constexpr std::size_t kAmxRowBytes = 64;

/// The shapes of all tiles, in the bytes that the processor reads.
struct alignas(64) AmxShapes {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::array<std::uint8_t, 14> reserved = {};
  std::array<std::uint16_t, 16> row_bytes = {};
  std::array<std::uint8_t, 16> rows = {};
};
static_assert(sizeof(AmxShapes) == 64);

// AmxTiles and EmulatedAmxTiles have the same functions:
//   configure(shapes) sets all tiles to zero release() releases the tiles, so that the system need not save them
//   zero<kTile>() load<kTile>(src, stride), store<kTile>(dst, stride): rows `stride` bytes apart multiply<kC, kA, kB>()
//   c[i][j] += sum over k of a[i][k] * b[k / 4][4 j + k % 4], with signed bytes in a, unsigned
//                           ones in b, and 32-bit integers in c

#if defined(__x86_64__)

/// Uses the processor's instructions. They are in inline assembly, because compilers know them only with options that
/// would also change other code.
class AmxTiles {
 public:
  static void configure(const AmxShapes& shapes) { asm volatile("ldtilecfg %0" : : "m"(shapes)); }
  static void release() { asm volatile("tilerelease"); }

  template <int kTile>
  static void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
  }
  template <int kTile, class T>
  static void load(const T* src, std::size_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(src), "r"(stride), "i"(kTile) : "memory");
  }
  template <int kTile, class T>
  static void store(T* dst, std::size_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(dst), "r"(stride), "i"(kTile) : "memory");
  }
  template <int kC, int kA, int kB>
  static void multiply() {
    asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kC), "i"(kA), "i"(kB));
  }
};

#endif

/// Emulates the instructions, for tests on machines that lack them.
class EmulatedAmxTiles {
 public:
  void configure(const AmxShapes& shapes) {
    assert(shapes.palette == 1 && shapes.start_row == 0);
    shapes_ = shapes;
    tiles_ = {};
  }
  void release() { shapes_ = {}; }

  template <int kTile>
  void zero() {
    static_assert(kTile < kAmxTiles);
    tiles_[kTile] = {};
  }
  template <int kTile, class T>
  void load(const T* src, std::size_t stride) {
    zero<kTile>();
    for (std::size_t row = 0; row < rows(kTile); ++row) {
      std::memcpy(tiles_[kTile].data() + row * kAmxRowBytes, reinterpret_cast<const std::byte*>(src) + row * stride,
                  row_bytes(kTile));
    }
  }
  template <int kTile, class T>
  void store(T* dst, std::size_t stride) const {
    static_assert(kTile < kAmxTiles);
    for (std::size_t row = 0; row < rows(kTile); ++row) {
      std::memcpy(reinterpret_cast<std::byte*>(dst) + row * stride, tiles_[kTile].data() + row * kAmxRowBytes,
                  row_bytes(kTile));
    }
  }
  template <int kC, int kA, int kB>
  void multiply() {
    static_assert(kC < kAmxTiles && kA < kAmxTiles && kB < kAmxTiles);
    assert(rows(kC) == rows(kA) && row_bytes(kC) == row_bytes(kB) && row_bytes(kA) == 4 * rows(kB));
    for (std::size_t i = 0; i < rows(kC); ++i) {
      for (std::size_t j = 0; j < row_bytes(kC) / 4; ++j) {
        std::int32_t sum;
        std::byte* c = tiles_[kC].data() + i * kAmxRowBytes + 4 * j;
        std::memcpy(&sum, c, sizeof(sum));
        for (std::size_t k = 0; k < row_bytes(kA); ++k) {
          const auto a = static_cast<std::int8_t>(tiles_[kA][i * kAmxRowBytes + k]);
          const auto b = static_cast<std::uint8_t>(tiles_[kB][k / 4 * kAmxRowBytes + 4 * j + k % 4]);
          sum += a * b;
        }
        std::memcpy(c, &sum, sizeof(sum));
      }
    }
  }

 private:
  std::size_t rows(std::size_t tile) const { return shapes_.rows[tile]; }
  std::size_t row_bytes(std::size_t tile) const { return shapes_.row_bytes[tile]; }

  AmxShapes shapes_;
  std::array<std::array<std::byte, kAmxRows * kAmxRowBytes>, kAmxTiles> tiles_ = {};
};

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_MATRIX_AMX_H_
