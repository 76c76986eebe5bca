#include "model/source/lora_adapter.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "error_message.h"
#include "model/source/model_source.h"
#include "temporary_directory.h"
#include "tiny_adapter.h"
#include "tiny_model.h"

namespace ballast::model {
namespace {

using nlohmann::json;
using test::Contains;
using test::error_message;
using test::TinyModel;

constexpr std::size_t kRank = test::TinyAdapter::kRank;
using test::TinyAdapter;

/// Returns a weight of a module with what its factors add times `scale`.
float adapted_weight(const TinyModel& model, const TinyAdapter& adapter, const std::string& module, double scale,
                     std::size_t row, std::size_t col) {
  const Tensor& weight = model.tensors.at(module + ".weight");
  const Tensor& down = adapter.tensors.at("base_model.model." + module + ".lora_A.weight");
  const Tensor& up = adapter.tensors.at("base_model.model." + module + ".lora_B.weight");
  const auto cols = static_cast<std::size_t>(weight.shape[1]);
  double sum = 0;
  for (std::size_t k = 0; k < kRank; ++k)
    sum += double{up.values[row * kRank + k]} * double{down.values[k * cols + col]};
  return static_cast<float>(double{weight.values[row * cols + col]} + scale * sum);
}

const std::string kAdaptedQuery = "model.layers.0.self_attn.q_proj";
const std::string kAdaptedDown = "model.layers.1.mlp.down_proj";

TinyAdapter two_modules() {
  TinyAdapter adapter;
  adapter.add(kAdaptedQuery, 32, 32);
  adapter.add(kAdaptedDown, 32, 48);
  return adapter;
}

/// Opens the adapter in a folder inside of its model's.
std::string refusal(const std::function<void(TinyAdapter&)>& change) {
  const test::TemporaryDirectory directory;
  test::random_model().write(directory.path());
  TinyAdapter adapter = two_modules();
  change(adapter);
  const auto path = adapter.write(directory / "adapter");
  return error_message([&] { const ModelSource source(path); });
}

TEST_CASE("an adapter's products are added to the matrices of its modules, and to no others") {
  const test::TemporaryDirectory directory;
  const TinyModel model = test::random_model();
  model.write(directory.path());
  TinyAdapter adapter = two_modules();
  struct Scaling {
    json fields;
    double query, down;
  };
  for (const Scaling& scaling :
       {Scaling{json::object(), 2, 2}, Scaling{{{"use_rslora", true}}, 6 / std::sqrt(3.0), 6 / std::sqrt(3.0)},
        Scaling{{{"alpha_pattern", {{"self_attn.q_proj", 12}}}}, 4, 2}}) {
    TinyAdapter scaled = adapter;
    scaled.config.update(scaling.fields);
    const ModelSource source(scaled.write(directory / "adapter"));
    const FloatWeights query = source.float_weights(Role::kQuery, 0), down = source.float_weights(Role::kDown, 1);
    const Linear loaded = source.linear(Role::kQuery, 0);
    std::vector<float> row(32);
    for (const std::size_t r : {0, 7, 31}) {
      decode_row(loaded, r, row.data());
      for (std::size_t c = 0; c < 32; ++c) {
        const float expected = adapted_weight(model, adapter, kAdaptedQuery, scaling.query, r, c);
        CHECK(query.values[r * 32 + c] == doctest::Approx(expected).epsilon(1e-5));
        CHECK(row[c] == query.values[r * 32 + c]);
        CHECK(down.values[r * 48 + c] ==
              doctest::Approx(adapted_weight(model, adapter, kAdaptedDown, scaling.down, r, c)).epsilon(1e-5));
      }
    }
    CHECK(source.float_weights(Role::kQuery, 1).values ==
          model.tensors.at("model.layers.1.self_attn.q_proj.weight").values);
    CHECK(source.paths() == std::vector<std::filesystem::path>{source.checkpoint().path(), directory / "adapter"});
  }
}

TEST_CASE("a table's factors are those of its transpose, and words before a module's name may differ") {
  const test::TemporaryDirectory directory;
  const TinyModel model = test::random_model();
  model.write(directory / "base");
  TinyAdapter adapter;
  adapter.config["base_model_name_or_path"] = (directory / "base").string();
  adapter.add_tensor("base_model.model.embed_tokens.lora_embedding_A", kRank, 264);
  adapter.add_tensor("base_model.model.embed_tokens.lora_embedding_B", 32, kRank);
  adapter.add_tensor("base_model.model.embed_tokens.base_layer.weight", 264, 32);
  const ModelSource source(adapter.write(directory / "elsewhere" / "adapter"));
  CHECK(source.checkpoint().path() == directory / "base");
  const std::vector<float> rows = source.float_rows(Role::kEmbedding, 5, 2);
  const std::vector<float>& table = model.tensors.at("model.embed_tokens.weight").values;
  const std::vector<float>& down = adapter.tensors.at("base_model.model.embed_tokens.lora_embedding_A").values;
  const std::vector<float>& up = adapter.tensors.at("base_model.model.embed_tokens.lora_embedding_B").values;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::size_t token = 5 + i / 32, channel = i % 32;
    float expected = table[token * 32 + channel];
    for (std::size_t k = 0; k < kRank; ++k) expected += 2 * up[channel * kRank + k] * down[k * 264 + token];
    CHECK(rows[i] == doctest::Approx(expected).epsilon(1e-5));
  }
}

TEST_CASE("adapters that are not supported or do not fit are refused") {
  CHECK(refusal([](TinyAdapter& a) { a.config["peft_type"] = "IA3"; }) ==
        Contains("adapter_config.json: peft_type: 'IA3' is not supported; supported: LORA"));
  for (const char* flag : {"use_dora", "lora_bias"}) {
    CHECK(refusal([&](TinyAdapter& a) { a.config[flag] = true; }) ==
          Contains(std::string(flag) + ": true is not supported"));
  }
  CHECK(refusal([](TinyAdapter& a) { a.config["bias"] = "all"; }) == Contains("bias: 'all' is not supported"));
  CHECK(refusal([](TinyAdapter& a) { a.config["alpha_pattern"] = {{"layers.[01].q_proj", 4}}; }) ==
        Contains("alpha_pattern: 'layers.[01].q_proj' is a regular expression"));
  CHECK(refusal([](TinyAdapter& a) { a.add("model.layers.2.mlp.up_proj", 48, 32); }) ==
        Contains("changes 'model.layers.2.mlp.up_proj', which the model does not have"));
  CHECK(refusal([](TinyAdapter& a) { a.add("model.layers.0.mlp.up_proj", 40, 32); }) ==
        Contains("has products of 40 x 32, which cannot be added to the model's matrix of 48 x 32"));
  CHECK(refusal([](TinyAdapter& a) { a.tensors.erase("base_model.model." + kAdaptedQuery + ".lora_A.weight"); }) ==
        Contains("has one factor of two for '" + kAdaptedQuery + "'"));
  CHECK(refusal([](TinyAdapter& a) {
          a.add_tensor("base_model.model." + kAdaptedQuery + ".lora_A.weight", kRank + 1, 32);
        }) == Contains("cannot be multiplied"));
  CHECK(refusal([](TinyAdapter& a) { a.add_tensor("base_model.model.score.weight", 2, 32); }) ==
        Contains("base_model.model.score.weight: is no factor of LoRA, which alone is supported"));
  const test::TemporaryDirectory alone;
  const auto path = two_modules().write(alone / "outer" / "adapter");
  CHECK(
      error_message([&] { const ModelSource source(path); }) ==
      Contains(
          "base_model_name_or_path: 'somewhere' is no folder here with a config.json, and neither is the one around"));
}

}  // namespace
}  // namespace ballast::model
