#include "model/experts/expert_cache.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "error_message.h"
#include "model/model.h"
#include "model_runs.h"
#include "temporary_directory.h"
#include "with_threads.h"

namespace ballast::model {
namespace {

using test::Contains;
using test::error_message;

constexpr std::size_t kMatrixValues = 100;
constexpr std::uint64_t kExpertBytes = 2 * kMatrixValues * sizeof(float);

Linear matrix() {
  FloatMatrixHolder holder;
  holder.owned.resize(kMatrixValues);
  holder.matrix = {.data = holder.owned.data(), .type = kernels::FloatType::kF32, .rows = 10, .cols = 10};
  return {.part = {}, .name = "", .weights = std::move(holder), .bias = {}, .activations = {}};
}

/// A loader that records the requests.
class NotingLoader {
 public:
  ExpertLoader loader() {
    const auto load = [this](std::size_t layer, std::size_t expert) {
      const std::lock_guard lock(mutex_);
      loads_.emplace_back(layer, expert);
      return MlpWeights{.gate = {}, .up = matrix(), .down = matrix()};
    };
    return {.begin = {}, .load = load};
  }

  std::size_t loads_of(std::size_t layer, std::size_t expert) const {
    return static_cast<std::size_t>(std::ranges::count(loads_, std::pair(layer, expert)));
  }

 private:
  std::mutex mutex_;
  std::vector<std::pair<std::size_t, std::size_t>> loads_;
};

void use(const ExpertCache& cache, std::size_t layer, const std::vector<std::size_t>& experts) {
  const auto weights = cache.of_layer(layer)->get(experts);
  REQUIRE(weights.size() == experts.size());
  for (const auto& expert : weights) CHECK(expert != nullptr);
}

TEST_CASE("the least recently used expert is evicted") {
  NotingLoader notes;
  const ExpertCache cache(3 * kExpertBytes, notes.loader(), 0);  // holds expert 0 of layer 0
  CHECK(cache.streamed_bytes() == kExpertBytes);
  use(cache, 0, {1, 2});
  use(cache, 0, {0});  // expert 1 is now the least recently used
  use(cache, 1, {0});
  use(cache, 0, {0, 2});
  CHECK(notes.loads_of(0, 0) == 1);
  CHECK(notes.loads_of(0, 2) == 1);
  CHECK(notes.loads_of(1, 0) == 1);
  use(cache, 0, {1});
  CHECK(notes.loads_of(0, 1) == 2);
  const ExpertFigures figures = cache.figures();
  CHECK(figures.used == 7);
  CHECK(figures.found == 3);
  CHECK(figures.hit_rate() == doctest::Approx(3.0 / 7));
  CHECK(figures.in_memory == 3);
  CHECK(figures.bytes == 3 * kExpertBytes);
  CHECK(figures.loaded_bytes == 4 * kExpertBytes);
}

TEST_CASE("the number of experts that may be requested together never exceeds the budget, and is at least one") {
  NotingLoader notes;
  const ExpertCache cache(2 * kExpertBytes + 1, notes.loader(), 0);
  CHECK(cache.of_layer(0)->most_at_once() == 2);
  use(cache, 0, {3, 4});
  use(cache, 0, {4, 5});
  CHECK(notes.loads_of(0, 4) == 1);
  CHECK(cache.figures().bytes == 2 * kExpertBytes);
}

TEST_CASE("weights stay valid while they are in use, even after they are evicted") {
  NotingLoader notes;
  const ExpertCache cache(kExpertBytes, notes.loader(), 0);
  const std::vector<std::size_t> first = {0};
  const auto held = cache.of_layer(0)->get(first);
  use(cache, 0, {1});
  CHECK(held.front()->up.rows() == 10);
  CHECK(cache.figures().in_memory == 1);
}

TEST_CASE("memory for less than one expert is refused") {
  NotingLoader notes;
  CHECK(error_message([&] { ExpertCache(kExpertBytes - 1, notes.loader(), 0); }) ==
        "expert memory: 799 bytes are too few: one expert takes 800");
}

TEST_CASE("an expert that cannot be read is named in the error, and loaded again at the next request") {
  NotingLoader notes;
  ExpertLoader loader = notes.loader();
  bool broken = false;
  loader.begin = [&](std::size_t, std::span<const std::size_t>) {
    if (broken) throw Error("file", "is gone");
  };
  const ExpertCache cache(2 * kExpertBytes, loader, 0);
  broken = true;
  CHECK(error_message([&] { use(cache, 0, {0, 1}); }) == "file: is gone");
  broken = false;
  use(cache, 0, {0, 1});
  CHECK(cache.figures().in_memory == 2);
}

constexpr std::array kMixtures = {"qwen3_moe", "mixtral", "olmoe", "deepseek_v3", "granitemoe", "qwen2_moe", "gpt_oss"};

/// Returns the bytes of one expert of a model in memory.
std::uint64_t expert_bytes(const std::filesystem::path& path, FloatLayout layout) {
  const Model model(path, layout, {.expert_bytes = std::uint64_t{1} << 30});
  return model.expert_figures()->bytes;
}

TEST_CASE("logits are bit-identical for any number of experts in memory") {
  for (const std::string name : kMixtures) {
    CAPTURE(name);
    const test::Golden golden = test::read_golden(name);
    for (const FloatLayout layout : {FloatLayout::kRows, FloatLayout::kPanels}) {
      const Model whole(test::golden_model(name), layout);
      CHECK(!whole.expert_figures());
      SequenceState state = whole.make_exact_state(golden.tokens);
      const std::vector<float> expected = test::run_tokens(whole, golden.ids[0], state);
      for (const std::uint64_t experts : {1, 2, 100}) {
        CAPTURE(experts);
        const Model part(test::golden_model(name), layout,
                         {.expert_bytes = experts * expert_bytes(test::golden_model(name), layout)});
        SequenceState own = part.make_exact_state(golden.tokens);
        CHECK(test::run_tokens(part, golden.ids[0], own) == expected);
        const ExpertFigures figures = *part.expert_figures();
        CHECK(figures.used > 0);
        CHECK(figures.bytes <= figures.budget);
        CHECK(part.prompt_weights(7) == doctest::Approx(whole.prompt_weights(7)));
        CHECK(static_cast<double>(part.streamed_bytes()) ==
              doctest::Approx(static_cast<double>(whole.streamed_bytes())).epsilon(0.01));
      }
    }
  }
}

TEST_CASE("used experts are found in memory if all experts fit") {
  const test::Golden golden = test::read_golden("qwen3_moe");
  const Model model(test::golden_model("qwen3_moe"), FloatLayout::kPanels, {.expert_bytes = std::uint64_t{1} << 30});
  SequenceState state = model.make_exact_state(golden.tokens);
  test::run_tokens(model, golden.ids[0], state);
  const ExpertFigures once = *model.expert_figures();
  state.truncate(0);
  test::run_tokens(model, golden.ids[0], state);
  const ExpertFigures twice = *model.expert_figures();
  CHECK(twice.used == 2 * once.used);
  CHECK(twice.found == once.found + once.used);
  CHECK(twice.loaded_bytes == once.loaded_bytes);
  CHECK(twice.experts == 5);
}

TEST_CASE("memory for experts of a model that has none is refused") {
  CHECK(error_message([] { Model(test::golden_model("llama3"), FloatLayout::kRows, {.expert_bytes = 1000}); }) ==
        Contains("has no experts"));
}

TEST_CASE("a file that is truncated while experts are read from it is named in one line") {
  const test::TemporaryDirectory directory;
  const std::filesystem::path copy = directory / "model";
  std::filesystem::copy(test::golden_model("qwen3_moe"), copy);
  const test::Golden golden = test::read_golden("qwen3_moe");
  const Model model(copy, FloatLayout::kPanels, {.expert_bytes = expert_bytes(copy, FloatLayout::kPanels)});
  SequenceState state = model.make_exact_state(golden.tokens);
  std::filesystem::resize_file(copy / "model.safetensors", 4096);
  const std::string message = error_message([&] { test::run_tokens(model, golden.ids[0], state); });
  CHECK(message == Contains("model.safetensors: was cut off while it was in use: of "));
  CHECK(message == Contains(" bytes it has 4096 left"));
}

}  // namespace
}  // namespace ballast::model
