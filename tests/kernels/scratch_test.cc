#include "kernels/scratch.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>

namespace ballast::kernels {
namespace {

TEST_CASE("memory is aligned for any vector, and to huge pages from their size on") {
  for (const std::size_t bytes :
       {std::size_t{1}, std::size_t{1000}, kHugePageBytes - 1, kHugePageBytes, 5 * kHugePageBytes + 3}) {
    CAPTURE(bytes);
    AlignedArray<std::byte> array(bytes);
    const auto address = reinterpret_cast<std::uintptr_t>(array.data());
    CHECK(address % (bytes < kHugePageBytes ? 64 : kHugePageBytes) == 0);
    array.data()[0] = array.data()[bytes - 1] = std::byte{1};
    CHECK(array.bytes() == bytes);
  }
}

TEST_CASE("more bytes than can be counted throw, and leave what was there") {
  AlignedArray<float> array(3);
  const float* before = array.data();
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
  for (const std::size_t size : {kMost / 4 + 1, kMost}) {
    CHECK_THROWS_AS(array.grow(size), std::bad_alloc);
    CHECK(array.data() == before);
    CHECK(array.size() == 3);
  }
}

}  // namespace
}  // namespace ballast::kernels
