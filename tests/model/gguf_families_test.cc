// GGUFs of families without a golden GGUF: their golden directories, written as llama.cpp's converter does.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "draft_head_model.h"
#include "error_message.h"
#include "gguf_model.h"
#include "model/model.h"
#include "model/source/model_source.h"
#include "model_runs.h"
#include "temporary_directory.h"
#include "tiny_model.h"

namespace ballast::model {
namespace {

using nlohmann::json;
using test::Contains;
using test::golden_model;

struct Family {
  const char* golden;
  const char* architecture;  ///< general.architecture of the GGUF
  const char* metadata;      ///< in addition to, or instead of, the result of `sizes`; keys without the architecture
};

/// Returns the metadata that all families have, from a config.json.
json sizes(const json& config) {
  const std::size_t heads = config["num_attention_heads"];
  return {{"block_count", config["num_hidden_layers"]},
          {"context_length", config["max_position_embeddings"]},
          {"embedding_length", config["hidden_size"]},
          {"feed_forward_length", config["intermediate_size"]},
          {"attention.head_count", heads},
          {"attention.head_count_kv", config.value("num_key_value_heads", heads)},
          {"attention.layer_norm_rms_epsilon", config.value("rms_norm_eps", config.value("norm_eps", 1e-5))},
          {"attention.layer_norm_epsilon", config.value("layer_norm_eps", 1e-5)}};
}

json metadata_of(const Family& family, const json& config, const json& change) {
  json metadata = {{"general.architecture", family.architecture}};
  json values = sizes(config);
  values.update(json::parse(family.metadata));
  values.update(change);
  for (const auto& [key, value] : values.items()) metadata[std::string(family.architecture) + "." + key] = value;
  return metadata;
}

// Qwen3.5's last block predicts later tokens.
constexpr Family kFamilies[] = {
    {"gemma", "gemma", R"({"attention.key_length": 12, "attention.value_length": 12})"},
    {"granite", "granite",
     R"({"attention.scale": 0.2, "embedding_scale": 3.0, "residual_scale": 0.4, "logit_scale": 1.7})"},
    {"granitemoe", "granitemoe",
     R"({"attention.scale": 0.2, "embedding_scale": 3.0, "residual_scale": 0.4, "logit_scale": 1.7,
            "expert_count": 4, "expert_used_count": 2})"},
    {"mixtral", "llama", R"({"expert_count": 4, "expert_used_count": 2, "rope.freq_base": 1000000.0})"},
    {"qwen2_moe", "qwen2moe", R"({"expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 8,
            "expert_shared_feed_forward_length": 12})"},
    {"phi", "phi2", R"({"rope.dimension_count": 4})"},
    {"gpt_neox", "gptneox", R"({"rope.dimension_count": 4, "use_parallel_residual": true})"},
    {"stablelm", "stablelm", R"({"rope.dimension_count": 4, "use_parallel_residual": false})"},
    {"cohere", "command-r", R"({"logit_scale": 0.3, "rope.freq_base": 500000.0})"},
    {"olmo2", "olmo2", R"({})"},
    {"olmo3", "olmo2", R"({"attention.sliding_window": 5, "attention.sliding_window_pattern": [true, false],
            "rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
            "rope.scaling.original_context_length": 16})"},
    {"lfm2", "lfm2", R"({"attention.head_count_kv": [0, 1], "feed_forward_length": 8, "rope.freq_base": 1000000.0,
            "shortconv.l_cache": 3})"},
    {"deepseek_v3", "deepseek2",
     R"({"attention.head_count_kv": 1, "attention.key_length_mla": 10, "attention.value_length_mla": 5,
            "attention.q_lora_rank": 9, "attention.kv_lora_rank": 10, "rope.dimension_count": 4,
            "expert_count": 6, "expert_used_count": 2, "expert_group_count": 3,
            "expert_group_used_count": 2, "expert_shared_count": 1, "expert_feed_forward_length": 8,
            "expert_weights_scale": 2.5, "expert_weights_norm": true, "leading_dense_block_count": 1})"},
    {"qwen3_5_text", "qwen35", R"({"attention.key_length": 16, "attention.value_length": 16, "rope.dimension_count": 4,
            "attention.recurrent_layers": [true, false, false], "block_count": 3,
            "nextn_predict_layers": 1, "ssm.conv_kernel": 4, "ssm.state_size": 6, "ssm.group_count": 2,
            "ssm.time_step_rank": 4, "ssm.inner_size": 40})"},
};

std::filesystem::path write_gguf(const Family& family, const test::TemporaryDirectory& directory,
                                 const json& change = json::object()) {
  const ModelSource source(golden_model(family.golden));
  const test::GgufModel model(source, architecture_for_model_type(source.architecture().model_type, "test"));
  return test::write_file(directory / "m.gguf", model.bytes(metadata_of(family, source.config(), change)));
}

TEST_CASE("a GGUF of a family gives the logits of its directory") {
  for (const Family& family : kFamilies) {
    CAPTURE(family.golden);
    const test::TemporaryDirectory directory;
    Model model(write_gguf(family, directory));
    const test::Golden golden = test::read_golden(family.golden);
    CHECK(test::relative_error(test::run_at_once(model, golden.ids[0]), golden.logits[0]) <= 1e-4);
  }
}

/// Returns the logits of a model's draft head after some tokens.
std::vector<float> draft_logits(const std::filesystem::path& path) {
  const Model model(std::make_unique<ModelSource>(path), FloatLayout::kRows,
                    {.activations = ActivationType::kFloat, .draft_head = true});
  REQUIRE(model.draft_head() != nullptr);
  const std::vector<int> ids = {3, 20, 11, 7, 29, 16};
  std::vector<float> hidden = model.residual_stream(ids, model.spec().layers.size());
  model.draft_head()->normalize(hidden.data(), ids.size());
  SequenceState state = model.draft_head()->make_state(ids.size());
  const DraftHeadTokens text = {.tokens = std::span(ids).subspan(1), .hidden = hidden.data(), .state = &state};
  DraftHeadWorkspace workspace;
  std::vector<float> output(model.spec().hidden_size), logits(model.spec().vocab_size);
  model.run_draft_head({&text, 1}, output.data(), logits.data(), workspace);
  return logits;
}

TEST_CASE("the draft head of a GGUF gives the logits of that of its directory") {
  for (const char* golden : {"qwen3_5_text", "deepseek_v3"}) {
    CAPTURE(golden);
    const Family& family = *std::ranges::find(kFamilies, std::string(golden), &Family::golden);
    const test::TemporaryDirectory directory;
    const std::filesystem::path path = test::model_with_draft_head(golden).write(directory / "model");
    const ModelSource source(path);
    const std::unique_ptr<const ModelSource> head = source.draft_head();
    REQUIRE(head != nullptr);
    const test::GgufModel model(*head, source.architecture());
    const json blocks = {{"block_count", 3}, {"nextn_predict_layers", 1}};
    const std::filesystem::path gguf =
        test::write_file(directory / "m.gguf", model.bytes(metadata_of(family, source.config(), blocks)));
    CHECK(test::relative_error(draft_logits(gguf), draft_logits(path)) <= 1e-4);
  }
}

TEST_CASE("metadata of a GGUF that its family needs is named when it is missing or wrong") {
  const auto refusal = [](const std::string& golden, const std::string& key, const json& value) {
    const Family& family = *std::ranges::find(kFamilies, golden, &Family::golden);
    const test::TemporaryDirectory directory;
    return test::error_message([&] { const ModelSource source(write_gguf(family, directory, {{key, value}})); });
  };
  CHECK(refusal("qwen3_5_text", "ssm.inner_size", 41) ==
        Contains("qwen35.ssm.inner_size: must be a multiple of ssm.time_step_rank"));
  CHECK(refusal("qwen3_5_text", "nextn_predict_layers", 3) ==
        Contains("qwen35.nextn_predict_layers: must be less than block_count"));
  CHECK(refusal("deepseek_v3", "attention.key_length_mla", 4) ==
        Contains("deepseek2.attention.key_length_mla: must be more than rope.dimension_count"));
  CHECK(refusal("lfm2", "attention.head_count_kv", json::array({0, 0})) ==
        Contains("lfm2.attention.head_count_kv: is 0 for all layers"));
  CHECK(refusal("olmo2", "rope.scaling.type", "longrope") ==
        Contains("'longrope' is not supported; supported: none, linear, yarn"));
  CHECK(refusal("gemma", "attention.sliding_window", 5) == Contains("a window is not supported in a GGUF"));
  CHECK(refusal("gemma", "attention.causal", false) == Contains("attention.causal: false is not supported"));
  CHECK(refusal("phi", "rope.dimension_count", 3) == Contains("it must be an even number"));
}

TEST_CASE("a GGUF with a rotation factor but no type is stretched by that factor") {
  const Family& family = *std::ranges::find(kFamilies, std::string("gemma"), &Family::golden);
  for (const char* key : {"rope.scaling.factor", "rope.scale_linear"}) {
    CAPTURE(key);
    for (const double factor : {0.0, 1.0, 4.0}) {
      const test::TemporaryDirectory directory;
      const ModelSource source(write_gguf(family, directory, {{key, factor}}));
      const RopeSpec& rope = *source.spec().layers.front().attention()->rope;
      CHECK(rope.factor == (factor == 4 ? 4 : 1));
      CHECK((rope.scaling == RopeSpec::Scaling::kLinear) == (factor == 4));
    }
  }
}

constexpr Family kEncoder = {"bert", "bert", R"({"attention.causal": false, "attention.layer_norm_epsilon": 1e-12,
            "pooling_type": 2})"};

/// Writes the golden encoder without its head, as encoders of texts are published.
std::filesystem::path write_encoder(const std::filesystem::path& directory, int token_types) {
  test::TinyModel encoder = test::read_model(golden_model("bert"));
  encoder.config["architectures"] = {"BertModel"};
  encoder.config["type_vocab_size"] = token_types;
  Tensor& types = encoder.at("bert.embeddings.token_type_embeddings.weight");
  types.shape[0] = token_types;
  types.values.resize(static_cast<std::size_t>(token_types) * 32);
  if (token_types == 0) encoder.tensors.erase("bert.embeddings.token_type_embeddings.weight");
  return encoder.write(directory);
}

/// Returns the GGUF of an encoder. `fused`: queries, keys and values are one tensor, as older converters wrote them.
std::string encoder_gguf(const std::filesystem::path& directory, bool fused, const json& change = json::object()) {
  const ModelSource source(directory);
  Architecture architecture = architecture_for_model_type("bert", "test");
  if (!fused) architecture.fused = {};
  return test::GgufModel(source, architecture).bytes(metadata_of(kEncoder, source.config(), change));
}

std::vector<float> hidden_values(const std::filesystem::path& path, const std::vector<int>& ids) {
  const Model model(path);
  SequenceState state = model.make_state({.type = CacheOptions::Type::kF32}, ids.size());
  const SequenceTokens sequence = {ids, &state, ids.size()};
  Workspace workspace;
  const std::span<const float> hidden = model.forward({&sequence, 1}, workspace);
  return {hidden.begin(), hidden.end()};
}

TEST_CASE("a GGUF of an encoder gives the hidden values of its directory") {
  const std::vector<int> ids = test::read_golden("bert").ids[0];
  for (const int token_types : {2, 1, 0}) {  // BERT's, RoBERTa's, DistilBERT's
    CAPTURE(token_types);
    const test::TemporaryDirectory directory;
    const std::filesystem::path original = write_encoder(directory / "m", token_types);
    const std::vector<float> expected = hidden_values(original, ids);
    for (const bool fused : {false, true}) {
      CAPTURE(fused);
      const std::filesystem::path gguf = test::write_file(directory / "m.gguf", encoder_gguf(original, fused));
      CHECK(test::relative_error(hidden_values(gguf, ids), expected) <= 1e-6);
      const ModelSource source(gguf);
      CHECK(source.spec().token_types == static_cast<std::size_t>(token_types));
      CHECK_FALSE(source.spec().causal);
      CHECK_FALSE(source.spec().has_head);
    }
  }
}

TEST_CASE("a GGUF specifies the pooling of a text's hidden values") {
  const test::TemporaryDirectory directory;
  const std::filesystem::path original = write_encoder(directory / "m", 2);
  const auto vectors = [&](const json& type) {
    const std::filesystem::path path =
        test::write_file(directory / "m.gguf", encoder_gguf(original, false, {{"pooling_type", type}}));
    return ModelSource(path).spec().text_vectors;
  };
  CHECK(vectors(0) == std::nullopt);
  CHECK(vectors(1) == TextVectorSpec{.pooling = Pooling::kMean, .normalized = true, .most_tokens = 0});
  CHECK(vectors(2) == TextVectorSpec{.pooling = Pooling::kFirst, .normalized = true, .most_tokens = 0});
  CHECK(vectors(3) == TextVectorSpec{.pooling = Pooling::kLast, .normalized = true, .most_tokens = 0});
  CHECK(test::error_message([&] { vectors(4); }) ==
        Contains("bert.pooling_type: 4 (a score for a pair of texts) is not supported"));
  CHECK(test::error_message([&] { vectors(5); }) == Contains("bert.pooling_type: must be 0 (unspecified), 1 (mean)"));
  CHECK(test::error_message([&] { vectors("mean"); }) == Contains("bert.pooling_type: must be"));
}

TEST_CASE("a GGUF of an encoder that does not fit its metadata, or ends early, is refused in one line") {
  const test::TemporaryDirectory directory;
  const std::filesystem::path original = write_encoder(directory / "m", 2);
  const std::filesystem::path path = directory / "m.gguf";
  const auto refusal = [&](const json& change) {
    test::write_file(path, encoder_gguf(original, false, change));
    return test::error_message([&] { const ModelSource source(path); });
  };
  CHECK(refusal({{"attention.causal", true}}) == Contains("bert.attention.causal: true is not supported"));
  CHECK(refusal({{"context_length", 63}}) == Contains("position_embd.weight: has shape [64, 32]"));
  CHECK(refusal({{"block_count", 3}}) == Contains("blk.2."));
  CHECK(refusal({{"attention.layer_norm_epsilon", 0.0}}) == Contains("bert.attention.layer_norm_epsilon: must be"));
  CHECK(refusal({{"feed_forward_length", "many"}}) == Contains("bert.feed_forward_length: must be"));

  const std::string whole = encoder_gguf(original, true);
  for (std::size_t size = 0; size < whole.size(); size += 997) {
    test::write_file(path, whole.substr(0, size));
    const std::string error = test::error_message([&] { const ModelSource source(path); });
    CHECK(error != "no error");
    CHECK(error.find('\n') == std::string::npos);
  }
}

}  // namespace
}  // namespace ballast::model
