// Conversions to other programs' checkpoints.
#include "quant/write/huggingface/huggingface_format.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "ballast/convert.h"
#include "error_message.h"
#include "fixed_recipe.h"
#include "model/source/model_source.h"
#include "model_logits.h"
#include "temporary_directory.h"
#include "tiny_model.h"

namespace ballast::quant {
namespace {

using test::Contains;
using test::distance;
using test::error_message;
using test::logits_of;
using test::TemporaryDirectory;
namespace fs = std::filesystem;

test::TinyModel plain_llama() {
  return test::random_model({.hidden = 64, .heads = 2, .kv_heads = 2, .head_size = 32, .mlp = 96, .weights = 0.06F});
}

ConvertOptions options_for(OutputFormat output, const std::string& scheme) {
  ConvertOptions options;
  options.output_format = output;
  options.recipe = test::fixed_recipe(scheme);
  options.calibration.samples = 8;
  options.calibration.length = 16;
  return options;
}

TEST_CASE("checkpoints load, give nearly the original's logits and take the planned bytes") {
  const TemporaryDirectory directory;
  const fs::path model = plain_llama().write(directory / "model");
  const std::vector<float> original = logits_of(model);
  const auto check = [&](OutputFormat output, const std::string& scheme, std::size_t group_size, double budget) {
    CAPTURE(output_format_name(output));
    CAPTURE(scheme);
    ConvertOptions options = options_for(output, scheme);
    options.recipe.linears.group_size = options.recipe.head.group_size = group_size;
    const fs::path out = directory / (std::string(output_format_name(output)) + scheme);
    const std::uint64_t planned = plan_conversion(model, options).most_bytes;
    const ConvertReport report = convert(model, out, options);
    CHECK(report.bytes_after == planned);
    CHECK(fs::file_size(out / "model.safetensors") == planned);
    const double error = distance(logits_of(out), original);
    CHECK(error > 0);
    CHECK(error < budget);
  };
  check(OutputFormat::kCompressedTensors, "w4a16", 32, 0.15);
  check(OutputFormat::kCompressedTensors, "w8a16", 32, 0.01);
  check(OutputFormat::kCompressedTensors, "w8a8", 0, 0.02);
  check(OutputFormat::kMlx, "w4a16", 32, 0.15);
  check(OutputFormat::kMlx, "w8a16", 32, 0.01);
  check(OutputFormat::kAwq, "w4a16", 32, 0.15);
  check(OutputFormat::kGptq, "w4a16", 32, 0.15);
  check(OutputFormat::kGptq, "w8a16", 32, 0.01);
}

TEST_CASE("with a size, matrices that are fused by servers have one format") {
  const TemporaryDirectory directory;
  const fs::path model = plain_llama().write(directory / "model");
  for (const OutputFormat output : {OutputFormat::kCompressedTensors, OutputFormat::kGptq}) {
    CAPTURE(output_format_name(output));
    ConvertOptions options = options_for(output, "w4a16");
    options.recipe.linears.group_size = options.recipe.head.group_size = 32;
    options.recipe.target_bytes = plan_conversion(model, options).most_bytes * 5 / 4;
    const fs::path out = directory / std::string(output_format_name(output));
    convert(model, out, options);
    CHECK(fs::file_size(out / "model.safetensors") <= options.recipe.target_bytes);
    const model::ModelSource source(out);
    const auto type_of = [&](std::size_t layer, const char* module) {
      return source.foreign_modules().at("model.layers." + std::to_string(layer) + "." + module).type;
    };
    for (std::size_t layer = 0; layer < 2; ++layer) {
      CHECK(type_of(layer, "self_attn.q_proj") == type_of(layer, "self_attn.k_proj"));
      CHECK(type_of(layer, "self_attn.q_proj") == type_of(layer, "self_attn.v_proj"));
      CHECK(type_of(layer, "mlp.gate_proj") == type_of(layer, "mlp.up_proj"));
    }
    CHECK(distance(logits_of(out), logits_of(model)) < 0.15);
  }
}

TEST_CASE("with a size, each matrix of an MLX checkpoint has its own bits and groups, including the embedding") {
  const TemporaryDirectory directory;
  const fs::path model = plain_llama().write(directory / "model");
  ConvertOptions options = options_for(OutputFormat::kMlx, "w4a16");
  options.recipe.target_bytes = plan_conversion(model, options).most_bytes * 5 / 4;
  options.recipe.overrides = {{"layers\\.0\\.mlp\\.up_proj", parse_format("int6-g32")},
                              {"layers\\.0\\.mlp\\.gate_proj", parse_format("bf16")},
                              {"embed_tokens", parse_format("affine3-g32")}};
  convert(model, directory / "out", options);
  CHECK(fs::file_size(directory / "out" / "model.safetensors") <= options.recipe.target_bytes);
  const nlohmann::json config = nlohmann::json::parse(test::read_file(directory / "out" / "config.json"));
  CHECK(config.at("quantization") == config.at("quantization_config"));
  const model::ModelSource source(directory / "out");
  const auto modules = source.foreign_modules();
  CHECK(modules.at("model.layers.0.mlp.up_proj").type == "MLX int6-g32");
  CHECK(modules.at("model.embed_tokens").type == "MLX int3-g32");
  CHECK(!modules.contains("model.layers.0.mlp.gate_proj"));
  std::set<std::string> types;
  for (const auto& [name, module] : modules) {
    types.insert(module.type);
    CHECK(module.keeps_codes);
  }
  CHECK(types.size() > 2);
  CHECK(distance(logits_of(directory / "out"), logits_of(model)) < 0.3);
}

TEST_CASE("the codebooks that 2 and 3 bits name become MLX's own 2 and 3 bits, and are refused where there are none") {
  const TemporaryDirectory directory;
  const fs::path model = plain_llama().write(directory / "model");
  for (const char* name : {"nl2-g32-s8", "nl3-g32-s8"}) {
    CAPTURE(name);
    ConvertOptions options = options_for(OutputFormat::kMlx, "w4a16");
    options.recipe.linears = parse_format(name);
    const fs::path out = directory / name;
    convert(model, out, options);
    const auto modules = model::ModelSource(out).foreign_modules();
    CHECK(modules.at("model.layers.1.mlp.up_proj").type == "MLX int" + std::string(1, name[2]) + "-g32");
    options.output_format = OutputFormat::kCompressedTensors;
    CHECK(error_message([&] { plan_conversion(model, options); }) == Contains("cannot hold " + std::string(name)));
  }
  ConvertOptions options = options_for(OutputFormat::kMlx, "w4a16");
  options.recipe.linears = parse_format("nl4-g32-s8");
  CHECK(error_message([&] { plan_conversion(model, options); }) == Contains("cannot hold nl4-g32-s8"));
}

TEST_CASE("rotations are also written in the fields of programs before transformers 5") {
  const TemporaryDirectory directory;
  test::TinyModel model = plain_llama();
  model.config.erase("rope_theta");
  const auto converted = [&](const nlohmann::json& parameters, const char* name) {
    model.config["rope_parameters"] = parameters;
    const fs::path original = model.write(directory / (std::string(name) + "-original"));
    ConvertOptions options = options_for(OutputFormat::kMlx, "w8a16");
    options.recipe.linears.group_size = options.recipe.embedding.group_size = options.recipe.head.group_size = 32;
    convert(original, directory / name, options);
    CHECK(distance(logits_of(directory / name), logits_of(original)) < 0.02);
    return nlohmann::json::parse(test::read_file(directory / name / "config.json"));
  };
  const nlohmann::json plain = converted({{"rope_type", "default"}, {"rope_theta", 500.0}}, "plain");
  CHECK(plain.at("rope_theta") == 500.0);
  const nlohmann::json stretched =
      converted({{"rope_type", "linear"}, {"rope_theta", 500.0}, {"factor", 2.0}}, "stretched");
  CHECK(stretched.at("rope_theta") == 500.0);
  CHECK(stretched.at("rope_scaling").at("factor") == 2.0);
  CHECK(!stretched.contains("rope_parameters"));
}

TEST_CASE("gains are rounded to the model's type, and the matrices compensate for the rounding") {
  const TemporaryDirectory directory;
  test::TinyModel model = plain_llama();
  std::mt19937 random(8);
  for (auto& [name, tensor] : model.tensors) {
    if (name.find("norm") == std::string::npos) continue;
    for (float& gain : tensor.values) gain = 0.5F + static_cast<float>(random() % 1000) / 1000.0F;
  }
  const fs::path original = model.write(directory / "model");
  ConvertOptions options;
  options.recipe = recipe_for_scheme("f32");
  options.recipe.fold_norms = false;
  options.recipe.float_type = DType::kBF16;
  convert(original, directory / "out", options);
  CHECK(distance(logits_of(directory / "out"), logits_of(original)) <= 1e-6);
  const test::TinyModel converted = test::read_model(directory / "out");
  std::size_t changed = 0;
  for (const auto& [name, tensor] : converted.tensors) {
    if (name.find("layernorm") == std::string::npos) continue;
    for (std::size_t i = 0; i < tensor.values.size(); ++i) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, &tensor.values[i], sizeof(bits));
      CHECK((bits & 0xFFFFU) == 0);
      changed += tensor.values[i] != model.tensors.at(name).values[i] ? 1 : 0;
    }
  }
  CHECK(changed > 100);
}

/// Returns a StableLM with norms of each head of queries and keys.
test::TinyModel model_with_head_norms() {
  test::TinyModel model = test::read_model(test::golden_model("stablelm"));
  model.config["qk_layernorm"] = true;
  const auto heads = model.config.at("num_attention_heads").get<std::size_t>();
  const std::size_t size = model.config.at("hidden_size").get<std::size_t>() / heads;
  const Tensor ones{{static_cast<std::int64_t>(size)}, std::vector<float>(size, 1.0F)};
  for (std::size_t layer = 0; layer < model.config.at("num_hidden_layers"); ++layer) {
    const std::string attention = "model.layers." + std::to_string(layer) + ".self_attn.";
    for (std::size_t head = 0; head < heads; ++head) {
      const std::string name = "_layernorm.norms." + std::to_string(head) + ".weight";
      model.tensors[attention + "q" + name] = ones;
      if (head < model.config.at("num_key_value_heads")) model.tensors[attention + "k" + name] = ones;
    }
  }
  return model;
}

TEST_CASE("features that such a checkpoint cannot hold are refused before anything is written") {
  const TemporaryDirectory directory;
  const fs::path model = plain_llama().write(directory / "model");
  const auto refusal = [&](const fs::path& source, const ConvertOptions& options) {
    return error_message([&] { convert(source, directory / "out", options); });
  };
  CHECK(refusal(model, options_for(OutputFormat::kCompressedTensors, "w4a8")) ==
        Contains("choose w4a16, w8a16 or w8a8"));
  CHECK(refusal(model, options_for(OutputFormat::kAwq, "w8a16")) == Contains("choose w4a16"));
  CHECK(refusal(model, options_for(OutputFormat::kGptq, "w8a8")) == Contains("keeps activations in 16 bits"));
  CHECK(refusal(model, options_for(OutputFormat::kMlx, "w8a8")) == Contains("choose w4a16 or w8a16"));
  ConvertOptions foreign = options_for(OutputFormat::kGptq, "w4a16");
  foreign.recipe.overrides = {{"up_proj", parse_format("affine4-g32")}};
  CHECK(refusal(model, foreign) == Contains("cannot be stored as affine4-g32"));
  foreign.output_format = OutputFormat::kGguf;
  CHECK(refusal(test::golden_model("llama3"), foreign) == Contains("cannot be stored as affine4-g32"));
  // Regression: queries and keys were written in another order than the class reads, or gains that it does not have.
  for (const char* family : {"cohere", "ernie4_5", "helium", "olmo"}) {
    CAPTURE(family);
    CHECK(refusal(test::golden_model(family), options_for(OutputFormat::kMlx, "w4a16")) ==
          Contains("can be written yet"));
  }
  CHECK(refusal(test::golden_model("gpt2"), options_for(OutputFormat::kGptq, "w4a16")) == Contains("gpt2"));
  CHECK(refusal(test::golden_model("llama.gguf"), options_for(OutputFormat::kGptq, "w4a16")) ==
        Contains("Hugging Face directory"));
  // Regression: norms of single heads were written as one tensor, which the class does not have.
  CHECK(refusal(model_with_head_norms().write(directory / "head_norms"), options_for(OutputFormat::kMlx, "w4a16")) ==
        Contains("of the family stablelm, of which no MLX checkpoint can be written yet"));
  ConvertOptions sized = options_for(OutputFormat::kAwq, "w4a16");
  sized.recipe.target_bytes = 1'000'000;
  CHECK(refusal(model, sized) == Contains("takes no target size"));
  // Regression: these were refused at the end, or written with a config.json that did not say them.
  ConvertOptions mixed = options_for(OutputFormat::kAwq, "w4a16");
  mixed.recipe.overrides = {{"up_proj", parse_format("int4-g64-asym")}};
  CHECK(refusal(model, mixed) == Contains("the same group size for all"));
  ConvertOptions rows = options_for(OutputFormat::kCompressedTensors, "w4a16");
  rows.recipe.overrides = {{"down_proj", parse_format("int8-channel")}};
  CHECK(refusal(model, rows) == Contains("name a group size for int8-channel"));
  ConvertOptions packed = options_for(OutputFormat::kCompressedTensors, "w8a8");
  packed.recipe.overrides = {{"down_proj", parse_format("int4-g32")}};
  CHECK(refusal(model, packed) == Contains("has no INT8 activations with weights of 4 bits"));
  // Regression: passes rounded rows with a part of a group beyond their end.
  ConvertOptions parts = options_for(OutputFormat::kMlx, "w4a16");
  parts.recipe.linears = parse_format("affine4-g128");
  parts.recipe.target_bytes = 1'000'000;
  CHECK(refusal(model, parts) == Contains("cannot be stored as affine4-g128"));
  ConvertOptions prefixed = options_for(OutputFormat::kGptq, "w4a16");
  prefixed.recipe.prefix.tokens = std::vector<int>{1};
  CHECK(refusal(model, prefixed) == Contains("cannot hold tokens"));
  CHECK(!fs::exists(directory / "out"));
}

}  // namespace
}  // namespace ballast::quant
