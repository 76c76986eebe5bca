// Replaces operator new in this room's test program, so that it can be counted. Not inlined: gcc 12 takes malloc and
// free behind new and delete for a mismatch (-Wmismatched-new-delete).
#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "ballast/generate.h"
#include "temporary_directory.h"
#include "tiny_model.h"
#include "tiny_tokenizer.h"
#include "with_threads.h"

namespace {

std::atomic<std::size_t> allocations{0};

void* allocate(std::size_t size) {
  ++allocations;
  return std::malloc(size);
}

void* allocate(std::size_t size, std::align_val_t alignment) {
  ++allocations;
  const auto step = static_cast<std::size_t>(alignment);
  return std::aligned_alloc(step, (size + step - 1) / step * step);
}

void* checked(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

[[gnu::noinline]] void* operator new(std::size_t size) {
  return checked(allocate(size));
}
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment) {
  return checked(allocate(size, alignment));
}
// The library's own call those above, but AddressSanitizer's do not, and std::stable_sort mixes them with plain delete.
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return allocate(size);
}
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return allocate(size, alignment);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t, const std::nothrow_t&) noexcept {
  std::free(memory);
}

namespace ballast {
namespace {

/// Allocations between the second token and the last but one.
std::size_t allocations_of_tokens(const std::filesystem::path& path, const GenerateOptions& options) {
  Generator generator{Model(path)};
  generator.generate("ab", options);  // fills what calls keep
  std::vector<std::size_t> counts;
  counts.reserve(options.max_tokens + 1);
  generator.generate("ab", options, [&](const GenerateStep&) {
    counts.push_back(allocations);
    return true;
  });
  REQUIRE(counts.size() > 4);
  return counts[counts.size() - 2] - counts[1];
}

TEST_CASE("a generated token costs no allocation") {
  const test::TemporaryDirectory directory;
  test::TinyModel model = test::random_model();
  model.tokenizer = test::tiny_tokenizer_json();
  const auto path = model.write(directory / "model");
  for (const int threads : {1, 2}) {
    for (const CacheOptions::Type type : {CacheOptions::Type::kF32, CacheOptions::Type::kF16}) {
      CAPTURE(threads);
      GenerateOptions options;
      options.max_tokens = 20;
      options.cache.type = type;
      CHECK(test::with_threads(threads, [&] { return allocations_of_tokens(path, options); }) == 0);
      options.temperature = 0.8;
      options.top_p = 0.9;
      options.top_k = 20;
      options.repetition_penalty = 1.1;
      CHECK(test::with_threads(threads, [&] { return allocations_of_tokens(path, options); }) == 0);
    }
  }
}

}  // namespace
}  // namespace ballast
