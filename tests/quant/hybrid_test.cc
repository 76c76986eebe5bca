// Models in which some layers attend and others have a recurrent mixer: each is calibrated, quantized and run.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/calibrate.h"
#include "ballast/convert.h"
#include "fixed_recipe.h"
#include "model/model.h"
#include "model/source/model_source.h"
#include "model_logits.h"
#include "model_runs.h"
#include "temporary_directory.h"
#include "tiny_model.h"

namespace ballast {
namespace {

struct Hybrid {
  const char* name;
  std::string_view output;  ///< a part of the names of the recurrent layers' output projections
};

constexpr std::array kHybrids = {Hybrid{"lfm2", ".conv.out_proj"}, Hybrid{"qwen3_5_text", ".linear_attn.out_proj"}};

std::vector<int> some_tokens(std::size_t count, std::size_t step) {
  std::vector<int> ids;
  for (std::size_t i = 0; i < count; ++i) ids.push_back(static_cast<int>(i * step % 31) + 1);
  return ids;
}

TEST_CASE("a hybrid returns to a snapshot instead of being truncated") {
  for (const Hybrid& hybrid : kHybrids) {
    CAPTURE(hybrid.name);
    const model::Model model(test::golden_model(hybrid.name));
    const std::vector<int> ids = some_tokens(40, 7);
    const std::span<const int> rest = std::span(ids).subspan(25);
    model::SequenceState state = model.make_exact_state(64);
    test::run_tokens(model, std::span(ids).first(25), state);
    const model::SequenceState::Snapshot snapshot = state.snapshot();
    const std::vector<float> once = test::run_tokens(model, rest, state);
    CHECK(!state.can_truncate_to(25));
    CHECK(state.can_truncate_to(40));
    REQUIRE(state.can_restore(snapshot));
    test::run_tokens(model, some_tokens(9, 11), state);
    state.restore(snapshot);
    CHECK(state.length() == 25);
    CHECK(test::run_tokens(model, rest, state) == once);
  }
}

TEST_CASE("statistics of a hybrid have keys, values and sinks where it attends, and all inputs") {
  for (const Hybrid& hybrid : kHybrids) {
    CAPTURE(hybrid.name);
    const std::filesystem::path path = test::golden_model(hybrid.name);
    const ModelSpec spec = model::ModelSource(path).spec();
    const Statistics statistics = calibrate(path, {.text_files = {}, .samples = 3, .length = 24});
    REQUIRE(statistics.key_values.size() == spec.layers.size());
    REQUIRE(statistics.sink_share.size() == spec.layers.size() * statistics.heads);
    for (std::size_t layer = 0; layer < spec.layers.size(); ++layer) {
      const bool attends = spec.layers[layer].attention() != nullptr;
      CHECK(statistics.key_values[layer].keys.min.empty() == !attends);
      CHECK((statistics.sink_share[layer * statistics.heads] > 0) == attends);
    }
    CHECK(std::ranges::any_of(statistics.inputs, [&](const LinearInputStatistics& input) {
      return std::ranges::any_of(input.linears, [&](const std::string& name) { return name.ends_with(hybrid.output); });
    }));
    CHECK(serialize_statistics(parse_statistics(serialize_statistics(statistics), "saved")) ==
          serialize_statistics(statistics));
  }
}

TEST_CASE("a hybrid's matrices become integers, its recurrent mixers' among them") {
  for (const Hybrid& hybrid : kHybrids) {
    CAPTURE(hybrid.name);
    const std::filesystem::path path = test::golden_model(hybrid.name);
    const std::vector<float> expected = test::logits_of(path);
    const test::TemporaryDirectory directory;
    for (const char* scheme : {"w8a8", "w4a16"}) {
      CAPTURE(scheme);
      ConvertOptions options;
      options.recipe = test::fixed_recipe(scheme);
      convert(path, directory / scheme, options);
      const model::ModelSource source(directory / scheme);
      const auto& tensors = source.quantization()->tensors;
      const auto output =
          std::ranges::find_if(tensors, [&](const auto& entry) { return entry.first.ends_with(hybrid.output); });
      REQUIRE(output != tensors.end());
      CHECK(output->second.is_integer());
      const double error = test::distance(test::logits_of(directory / scheme), expected);
      CHECK(error > 0);
      CHECK(error < 0.3);
    }
  }
}

}  // namespace
}  // namespace ballast
