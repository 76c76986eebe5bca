// Shared by the tests of kernels: targets, thread counts, random arrays, error budgets.
#ifndef BALLAST_TESTS_KERNELS_KERNEL_CASES_H_
#define BALLAST_TESTS_KERNELS_KERNEL_CASES_H_

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "every_target.h"
#include "kernels/matrix/float_matrix.h"
#include "kernels/reference/reference.h"
#include "random_floats.h"
#include "with_threads.h"

namespace ballast::kernels {

using test::for_every_target;
using test::random_floats;
using test::with_threads;

/// Lengths close to those of vectors and tiles.
inline constexpr std::size_t kVectorSizes[] = {1, 2, 3, 15, 16, 17, 31, 33, 64, 65, 576, 1535};

inline std::vector<std::uint8_t> random_bytes(std::size_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::vector<std::uint8_t> values(count);
  for (std::uint8_t& value : values) value = static_cast<std::uint8_t>(engine());
  return values;
}

/// Values encoded in a type, from an odd address on if `misaligned`.
struct EncodedFloats {
  std::vector<char> bytes;
  std::size_t offset;

  EncodedFloats(const std::vector<float>& values, FloatType type, bool misaligned = false)
      : bytes(values.size() * float_type_bytes(type) + 1), offset(misaligned ? 1 : 0) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (type == FloatType::kF32) {
        std::memcpy(bytes.data() + offset + 4 * i, &values[i], 4);
      } else {
        const std::uint16_t bits = reference::float_to_half(values[i], type);
        std::memcpy(bytes.data() + offset + 2 * i, &bits, 2);
      }
    }
  }
  const void* data() const { return bytes.data() + offset; }
};

/// Returns the largest difference relative to the largest expected magnitude; infinite if a value is not finite.
inline double relative_error(const std::vector<float>& actual, const std::vector<float>& expected) {
  REQUIRE(actual.size() == expected.size());
  double error = 0.0;
  double magnitude = 1e-30;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (!std::isfinite(actual[i])) return INFINITY;
    error = std::max(error, std::fabs(static_cast<double>(actual[i]) - expected[i]));
    magnitude = std::max(magnitude, std::fabs(static_cast<double>(expected[i])));
  }
  return error / magnitude;
}

/// The value of the gaps between dst rows, which must remain unchanged.
inline constexpr float kUntouched = -12345.0F;

}  // namespace ballast::kernels

#endif  // BALLAST_TESTS_KERNELS_KERNEL_CASES_H_
