#include "kernels/scratch.h"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <span>
#include <vector>

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

TEST_CASE("a size that overflows throws and leaves existing memory unchanged") {
  AlignedArray<float> array(3);
  const float* before = array.data();
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
  for (const std::size_t size : {kMost / 4 + 1, kMost}) {
    CHECK_THROWS_AS(array.grow(size), std::bad_alloc);
    CHECK(array.data() == before);
    CHECK(array.size() == 3);
  }
}

#ifdef __linux__

/// Returns the number of resident pages of a range of whole pages.
std::size_t resident_pages(std::byte* begin, std::size_t bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t before = -reinterpret_cast<std::uintptr_t>(begin) % page;
  std::vector<unsigned char> pages((bytes - before) / page);
  REQUIRE(mincore(begin + before, pages.size() * page, pages.data()) == 0);
  return static_cast<std::size_t>(std::ranges::count_if(pages, [](unsigned char bits) { return (bits & 1) != 0; }));
}

TEST_CASE("weights return their memory one by one") {
  constexpr std::size_t kBytes = (3 << 20) + 64;
  std::vector<std::shared_ptr<std::byte[]>> pieces;
  for (int i = 0; i < 8; ++i) {
    pieces.push_back(allocate_weights(kBytes));
    std::memset(pieces.back().get(), 1 + i, kBytes);
  }
  for (const std::size_t i : {1, 2, 5}) {  // pieces of each mapping remain in use
    std::byte* const piece = pieces[i].get();
    CHECK(resident_pages(piece, kBytes) > 0);
    pieces[i].reset();
    CHECK(resident_pages(piece, kBytes) == 0);
  }
  for (const std::size_t i : {0, 3, 4, 6, 7}) {
    CHECK(std::ranges::count(std::span(pieces[i].get(), kBytes), static_cast<std::byte>(1 + i)) == kBytes);
  }
}

#endif

}  // namespace
}  // namespace ballast::kernels
