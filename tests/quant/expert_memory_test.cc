// Converted mixtures with only a part of their experts in memory.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ballast/convert.h"
#include "files/safetensors/safetensors_file.h"
#include "fixed_recipe.h"
#include "model/model.h"
#include "model_runs.h"
#include "temporary_directory.h"
#include "tiny_model.h"

namespace ballast {
namespace {

std::vector<float> logits(const model::Model& model, const std::vector<int>& ids) {
  model::SequenceState state = model.make_exact_state(ids.size());
  return test::run_tokens(model, ids, state);
}

TEST_CASE("a converted mixture gives the same bits with a part of its experts in memory") {
  const test::TemporaryDirectory directory;
  for (const std::string golden : {"qwen3_moe", "deepseek_v3"}) {
    const std::vector<int> ids = test::read_golden(golden).ids[0];
    for (const std::string scheme : {"w8a8", "w4a16", "bf16", "w4a8"}) {
      CAPTURE(golden);
      CAPTURE(scheme);
      ConvertOptions options;
      options.recipe = test::fixed_recipe(scheme);
      if (scheme == "w4a8") {  // experts that need their rows in different forms
        options.recipe.overrides = {{"experts\\.[03]\\.down", parse_format("int8-g32")},
                                    {"experts\\.1\\.down", parse_format("int4-channel")},
                                    {"experts\\.2\\.up", parse_format("int8-channel")}};
      }
      options.calibration.samples = 2;
      options.calibration.length = 16;
      const auto path = directory / (golden + "-" + scheme);
      convert(test::golden_model(golden), path, options);
      const model::FloatLayout layout = model::FloatLayout::kPanels;
      const std::vector<float> expected = logits(model::Model(path, layout), ids);
      const std::uint64_t one = model::Model(path, layout, {.expert_bytes = 1 << 30}).expert_figures()->bytes;
      for (const std::uint64_t experts : {1, 3}) {
        const model::Model part(path, layout, {.expert_bytes = experts * one});
        CHECK(logits(part, ids) == expected);
        CHECK(part.expert_figures()->in_memory <= experts);
      }
    }
  }
}

TEST_CASE("the matrices of an expert are adjacent in written files") {
  const test::TemporaryDirectory directory;
  ConvertOptions options;
  options.recipe = recipe_for_scheme("bf16");
  convert(test::golden_model("qwen3_moe"), directory / "out", options);
  const files::SafetensorsFile file(directory / "out" / "model.safetensors");
  std::vector<std::pair<const std::byte*, std::string>> experts;
  for (const auto& [name, view] : file.tensors()) {
    const std::size_t at = name.find("mlp.experts.");
    if (at == std::string::npos) continue;
    const std::size_t number = at + std::string("mlp.experts.").size();
    experts.emplace_back(view.bytes.data(), name.substr(number, name.find('.', number) - number));
  }
  std::ranges::sort(experts);
  REQUIRE(experts.size() == 5 * 3);
  for (std::size_t i = 0; i < experts.size(); ++i) CHECK(experts[i].second == experts[i / 3 * 3].second);
}

}  // namespace
}  // namespace ballast
