// Heads for multi-token prediction in conversions.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/convert.h"
#include "draft_head_model.h"
#include "error_message.h"
#include "file_bytes.h"
#include "fixed_recipe.h"
#include "model/model.h"
#include "model_logits.h"
#include "model_runs.h"
#include "quant/conversion/draft_head_block.h"
#include "quant/write/ballast_format.h"
#include "temporary_directory.h"

namespace ballast::quant::draft_heads {
namespace {

/// Returns the head's logits after some tokens, computed from the model's own outputs.
std::vector<float> head_logits(const std::filesystem::path& path) {
  const model::Model model(std::make_unique<model::ModelSource>(path), model::FloatLayout::kRows,
                           {.activations = ActivationType::kFloat, .draft_head = true});
  REQUIRE(model.draft_head() != nullptr);
  const std::vector<int> ids = {1, 7, 30, 12, 4, 9, 22, 15};
  std::vector<float> hidden = model.residual_stream(ids, model.spec().layers.size());
  model.draft_head()->normalize(hidden.data(), ids.size());
  model::SequenceState state = model.draft_head()->make_state(ids.size());
  const model::DraftHeadTokens text = {.tokens = std::span(ids).subspan(1), .hidden = hidden.data(), .state = &state};
  model::DraftHeadWorkspace workspace;
  std::vector<float> output(model.spec().hidden_size), logits(model.spec().vocab_size);
  model.run_draft_head({&text, 1}, output.data(), logits.data(), workspace);
  return logits;
}

std::string note_of(const ConvertReport& report) {
  const auto note =
      std::ranges::find_if(report.notes, [](const std::string& line) { return line.starts_with("draft head"); });
  return note == report.notes.end() ? "" : *note;
}

TEST_CASE("folds leave the logits of a draft head unchanged") {
  for (const char* golden : test::kDraftedGoldens) {
    CAPTURE(golden);
    const test::TemporaryDirectory directory;
    const std::filesystem::path original = test::model_with_draft_head(golden).write(directory / "original");
    const std::vector<float> expected = head_logits(original);
    for (const bool fold : {false, true}) {
      CAPTURE(fold);
      ConvertOptions options{.recipe = recipe_for_scheme("f32"), .replace = true};
      options.recipe.fold_norms = fold;
      CHECK(note_of(convert(original, directory / "converted", options)).empty());
      CHECK(test::relative_error(head_logits(directory / "converted"), expected) < 2e-3);  // its cache is F16
    }
  }
}

TEST_CASE("a draft head gets 8 bits, in any scheme") {
  for (const char* golden : test::kDraftedGoldens) {
    CAPTURE(golden);
    const test::TemporaryDirectory directory;
    const std::filesystem::path original = test::model_with_draft_head(golden).write(directory / "original");
    const std::vector<float> expected = head_logits(original);
    for (const char* scheme : {"w8a8", "w4a16"}) {
      CAPTURE(scheme);
      ConvertOptions options{.recipe = test::fixed_recipe(scheme)};
      CHECK(note_of(convert(original, directory / scheme, options)) == test::Contains("kept, in 8 bits or more"));
      CHECK(test::distance(head_logits(directory / scheme), expected) < (scheme[1] == '8' ? 0.1 : 0.5));
      const model::ModelSource source(directory / scheme);
      std::size_t matrices = 0;
      for (const auto& [name, format] : source.quantization()->tensors) {
        if (!name.starts_with(test::draft_head_names(golden).block)) continue;
        ++matrices;
        CHECK(format.bits == 8);
      }
      // A mixture's matrices get more bits than its experts.
      const bool mixture = source.spec().has_experts();
      CHECK((matrices > 0 || (mixture && std::string_view(scheme) == "w8a8")));
    }
  }
}

TEST_CASE("a target size counts the draft head") {
  const test::TemporaryDirectory directory;
  const std::filesystem::path original = test::model_with_draft_head("glm4_moe").write(directory / "original");
  ConvertOptions options{.recipe = recipe_for_scheme("w4a8")};
  options.calibration.samples = 4;
  options.calibration.length = 16;
  options.recipe.target_bytes = Recipe::kNaturalSize;
  const ConvertReport natural = convert(original, directory / "natural", options);
  options.recipe.target_bytes = natural.bytes_after - 500;
  const ConvertReport smaller = convert(original, directory / "smaller", options);
  CHECK(smaller.bytes_after <= options.recipe.target_bytes);
  CHECK(test::distance(head_logits(directory / "smaller"), head_logits(directory / "natural")) < 1);
}

TEST_CASE("a stopped conversion of a model with a draft head goes on to the same bytes") {
  const test::TemporaryDirectory directory;
  const std::filesystem::path original = test::model_with_draft_head("qwen3_5_text").write(directory / "original");
  ConvertOptions options{.recipe = recipe_for_scheme("w4a8")};
  options.calibration.samples = 4;
  options.calibration.length = 16;
  convert(original, directory / "undisturbed", options);
  struct Cancelled {};
  for (std::size_t stop = 1; stop <= 4; ++stop) {
    const auto cancel = [&](std::string_view stage, std::size_t done, std::size_t) {
      if (stage == "converting" && done == stop) throw Cancelled{};
    };
    CHECK_THROWS_AS(convert(original, directory / "out", options, cancel), Cancelled);
  }
  convert(original, directory / "out", options);
  CHECK(test::read_file(directory / "out" / "model.safetensors") ==
        test::read_file(directory / "undisturbed" / "model.safetensors"));
}

/// A format that is ballast's but for draft heads.
class OtherFormat : public BallastFormat {
 public:
  using BallastFormat::BallastFormat;
  bool holds_draft_head() const override { return false; }
};

TEST_CASE("a draft head is left out, with a line, where the files or the passes have no place for it") {
  const test::TemporaryDirectory directory;
  const std::filesystem::path original = test::model_with_draft_head("qwen3_5_text").write(directory / "original");
  ConvertOptions options{.recipe = test::fixed_recipe("w8a8")};
  options.recipe.rotate = true;
  CHECK(note_of(convert(original, directory / "rotated", options)) == test::Contains("left out, because it reads"));
  CHECK(!model::ModelSource(directory / "rotated").has_draft_head());

  const model::ModelSource source(original);
  const Recipe recipe = test::fixed_recipe("w8a8");
  const DraftHeadBlock head(source, recipe, OtherFormat(recipe));
  CHECK(!head.kept());
  CHECK(head.plan().empty());
  CHECK(head.note() == test::Contains("left out, as files"));
}

TEST_CASE("a damaged draft head stops a conversion that would keep it") {
  const test::TemporaryDirectory directory;
  test::TinyModel damaged = test::model_with_draft_head("qwen3_5_text");
  damaged.tensors.erase("mtp.layers.0.mlp.up_proj.weight");
  const std::filesystem::path original = damaged.write(directory / "original");
  const Recipe recipe = test::fixed_recipe("w8a8");
  CHECK(test::error_message([&] { convert(original, directory / "own", {.recipe = recipe}); }) ==
        test::Contains("mtp.layers.0.mlp.up_proj.weight"));
  const model::ModelSource source(original);
  CHECK(!DraftHeadBlock(source, recipe, OtherFormat(recipe)).kept());
}

}  // namespace
}  // namespace ballast::quant::draft_heads
