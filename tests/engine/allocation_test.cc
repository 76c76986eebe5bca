#include <doctest/doctest.h>

#include <atomic>
#include <string>
#include <vector>

#include "ballast/generate.h"
#include "replaced_new.h"
#include "temporary_directory.h"
#include "tiny_model.h"
#include "tiny_tokenizer.h"
#include "with_threads.h"

namespace ballast {
namespace {

std::atomic<std::size_t> allocations{0};

}  // namespace

bool test::allocation_fails(std::size_t) {
  ++allocations;
  return false;
}

void test::on_allocated(void*) {}

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
