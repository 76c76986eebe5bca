#include "model/source/model_source.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "error_message.h"
#include "files/safetensors/safetensors_writer.h"
#include "layers.h"
#include "model/model.h"
#include "model/source/generation_config.h"
#include "model/source/written_spec.h"
#include "model/structure/block_structure.h"
#include "model_runs.h"
#include "role_tensors.h"
#include "temporary_directory.h"
#include "tiny_model.h"
#include "tiny_tokenizer.h"

namespace ballast::model {
namespace {

using test::Contains;
using test::error_message;
using test::golden_model;
using test::TinyModel;

/// Returns the error of loading a model with one change.
std::string refusal(const auto& change) {
  const test::TemporaryDirectory directory;
  TinyModel model = test::random_model();
  change(model);
  const auto path = model.write(directory.path());
  return error_message([&] { const Model loaded(path); });
}

std::string refusal_of_field(const char* field, const nlohmann::json& value) {
  return refusal([&](TinyModel& model) { model.config[field] = value; });
}

TEST_CASE("a random tiny model loads") {
  CHECK(refusal([](const TinyModel&) {}) == "no error");
}

TEST_CASE("a model type that is missing, foreign or no string is refused") {
  CHECK(refusal_of_field("model_type", nullptr) == Contains("config.json: architecture '' is not supported"));
  CHECK(refusal_of_field("model_type", "mamba") == Contains("architecture 'mamba' is not supported; supported: llama"));
  CHECK(refusal_of_field("model_type", 5) == Contains("config.json: model_type: must be a string, is 5"));
}

TEST_CASE("a missing tensor is named") {
  for (const char* name : {"model.embed_tokens.weight", "model.norm.weight", "model.layers.1.self_attn.v_proj.weight",
                           "model.layers.0.post_attention_layernorm.weight"}) {
    CHECK(refusal([&](TinyModel& model) { model.tensors.erase(name); }) ==
          Contains("has no tensor \"" + std::string(name) + "\""));
  }
  CHECK(refusal_of_field("attention_bias", true) == Contains("has no tensor \"model.layers.1.self_attn.q_proj.bias\""));
  CHECK(refusal_of_field("num_hidden_layers", 3) == Contains("has no tensor \"model.layers.2."));
}

// Of several names that a tensor may have, the error has the first.
std::string missed_name(const std::string& family, const std::string& tensor) {
  const auto renamed = [&](std::string_view from, std::string_view to) {
    const std::size_t at = tensor.find(from);
    return at == std::string::npos ? tensor : tensor.substr(0, at) + std::string(to);
  };
  if (family == "deepseek_v2") return renamed(".q_proj", ".q_b_proj.weight");
  if (family == "bert") return renamed("predictions.bias", "predictions.decoder.bias");
  if (family == "mpnet") return renamed("relative_attention_bias", "layer.1.attention.relative_attention_bias.weight");
  if (tensor.contains("Wqkv")) return tensor;
  if (family == "nomic_bert") {  // its checkpoints have the authors' names
    const std::string plain = tensor.contains("encoder.") ? "nomic_bert." + tensor.substr(19) : tensor;
    const std::pair<const char*, const char*> names[] = {{".emb_ln", ".embeddings.LayerNorm"},
                                                         {".attn.out_proj", ".self_attn.o_proj"},
                                                         {".norm1", ".post_attention_layernorm"},
                                                         {".norm2", ".post_mlp_layernorm"},
                                                         {".fc11", ".up_proj"},
                                                         {".fc12", ".gate_proj"},
                                                         {".fc2", ".down_proj"}};
    for (const auto& [own, written] : names) {
      if (const std::size_t at = plain.find(own); at != std::string::npos) {
        return plain.substr(0, at) + written + plain.substr(at + std::string_view(own).size());
      }
    }
    return renamed("predictions.bias", "predictions.decoder.bias");
  }
  if (tensor.contains("shared_mlp")) return tensor;
  if (tensor.contains("input_linear")) return renamed(".input_linear", ".experts.0.gate_proj.weight");
  if (tensor.contains("output_linear")) return renamed(".output_linear", ".experts.0.down_proj.weight");
  if (family == "gemma4_mixture" && tensor.contains(".experts.")) {
    return renamed(".experts",
                   tensor.contains("down_proj") ? ".experts.0.down_proj.weight" : ".experts.0.gate_proj.weight");
  }
  if (family != "mixtral") return tensor;
  if (tensor.contains("down_proj")) return renamed(".mlp", ".block_sparse_moe.experts.0.w2.weight");
  if (tensor.contains("gate_up_proj")) return renamed(".mlp", ".block_sparse_moe.experts.0.w1.weight");
  return renamed(".mlp.gate", ".block_sparse_moe.gate.weight");
}

TEST_CASE("a tensor that is missing from any family's checkpoint is named") {
  for (const std::string& name : test::golden_names()) {
    CAPTURE(name);
    const TinyModel model = test::read_model(golden_model(name));
    for (const auto& [tensor, values] : model.tensors) {
      CAPTURE(tensor);
      const test::TemporaryDirectory directory;
      TinyModel incomplete = model;
      incomplete.tensors.erase(tensor);
      const auto path = incomplete.write(directory.path());
      if (tensor == "lm_head.weight" || tensor == "embed_out.weight") {  // a model without a head can make vectors
        CHECK_FALSE(Model(path).spec().has_head);
        continue;
      }
      CHECK(error_message([&] { const Model loaded(path); }) ==
            Contains("has no tensor \"" + missed_name(name, tensor) + "\""));
    }
  }
}

TEST_CASE("absurd sizes in a configuration are refused before memory is taken for them") {
  constexpr int kHuge = 2147483646;
  CHECK(refusal_of_field("num_hidden_layers", kHuge) ==
        Contains("num_hidden_layers: 2147483646 blocks are more than any model has"));
  CHECK(refusal_of_field("num_hidden_layers", 65536) == Contains("has no tensor \"model.layers.65535."));
  CHECK(refusal_of_field("hidden_size", kHuge) == Contains("has shape"));
  CHECK(refusal_of_field("vocab_size", kHuge) == Contains("has shape"));
  CHECK(refusal_of_field("intermediate_size", kHuge) == Contains("has shape"));
  CHECK(refusal_of_field("head_dim", kHuge) == Contains("has shape"));
}

TEST_CASE("absurd sizes of heads in fused and interleaved matrices are refused before memory is taken for them") {
  const std::pair<std::string, std::string> cases[] = {{"qwen3_next", "head_dim"},
                                                       {"deepseek_v2", "v_head_dim"},
                                                       {"deepseek_v2", "qk_nope_head_dim"},
                                                       {"deepseek_v3", "qk_rope_head_dim"},
                                                       {"deepseek_v3", "kv_lora_rank"}};
  for (const auto& [name, field] : cases) {
    CAPTURE(name);
    CAPTURE(field);
    const test::TemporaryDirectory directory;
    TinyModel model = test::read_model(golden_model(name));
    model.config[field] = 2147483640;  // of which every part rotates evenly
    const auto path = model.write(directory.path());
    CHECK(error_message([&] { const Model loaded(path); }) == Contains("has shape"));
  }
}

TEST_CASE("a tensor whose shape is not the configuration's is named with both shapes") {
  CHECK(refusal_of_field("vocab_size", 263) ==
        Contains("model.embed_tokens.weight: has shape [264, 32], config.json gives [263, 32]"));
  CHECK(refusal_of_field("intermediate_size", 47) ==
        Contains("mlp.gate_proj.weight: has shape [48, 32], config.json gives [47, 32]"));
  CHECK(refusal([](TinyModel& model) { model.at("model.norm.weight").shape = {32, 1}; }) ==
        Contains("model.norm.weight: has shape [32, 1], config.json gives [32]"));
}

TEST_CASE("a weight that is not finite is named with its place") {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    CHECK(refusal([&](TinyModel& model) { model.at("model.layers.1.mlp.down_proj.weight").values[77] = bad; }) ==
          Contains("model.layers.1.mlp.down_proj.weight: value 77 is NaN or infinite"));
    CHECK(refusal([&](TinyModel& model) { model.at("model.embed_tokens.weight").values[3] = bad; }) ==
          Contains("model.embed_tokens.weight: value 3 is NaN or infinite"));
    CHECK(refusal([&](TinyModel& model) { model.at("model.norm.weight").values[31] = bad; }) ==
          Contains("model.norm.weight"));
  }
}

TEST_CASE("a head that is left out is the embedding only when the configuration is silent, else there is none") {
  const test::TemporaryDirectory directory;
  TinyModel model = test::random_model();
  const auto written_spec = [&] { return ModelSource(model.write(directory.path())).spec(); };
  model.tensors.erase("lm_head.weight");
  CHECK_FALSE(written_spec().has_head);
  model.config["architectures"] = {"LlamaForCausalLM"};
  CHECK_FALSE(written_spec().has_head);
  model.config["tie_word_embeddings"] = true;
  CHECK(written_spec().has_head);
  model.config.erase("tie_word_embeddings");
  CHECK(written_spec().has_head);
  CHECK(written_spec().tied_embeddings);
  model.config["architectures"] = {"LlamaModel"};
  CHECK_FALSE(written_spec().has_head);
}

TEST_CASE("an encoder whose class has a head, but whose checkpoint has none, makes vectors") {
  for (const char* family : {"bert", "roberta", "mpnet", "distilbert", "modernbert"}) {
    CAPTURE(family);
    const test::TemporaryDirectory directory;
    TinyModel model = test::read_model(golden_model(family));
    std::erase_if(model.tensors, [](const auto& tensor) {
      return std::ranges::any_of(std::array{"lm_head", "cls.", "vocab_", "head.", "decoder."},
                                 [&](const char* part) { return tensor.first.starts_with(part); });
    });
    const ModelSpec spec = ModelSource(model.write(directory.path())).spec();
    CHECK_FALSE(spec.has_head);
    CHECK_FALSE(spec.head_transform);
    CHECK_FALSE(spec.biases.head);
  }
}

TEST_CASE("names may lack the word that a family's bare model does not have") {
  const test::TemporaryDirectory directory;
  const TinyModel whole = test::random_model();
  TinyModel bare = whole;
  bare.tensors.clear();
  for (const auto& [name, tensor] : whole.tensors) {
    bare.tensors[name.starts_with("model.") ? name.substr(6) : name] = tensor;
  }
  const ModelSource source(bare.write(directory.path() / "bare"));
  const ModelSource original(whole.write(directory.path() / "whole"));
  CHECK(source.float_weights(Role::kQuery, 1).values == original.float_weights(Role::kQuery, 1).values);
  CHECK(source.norm(Role::kFinalNorm).gain == original.norm(Role::kFinalNorm).gain);
}

TEST_CASE("a quantization configuration is ignored if the tensors are plain") {
  for (const nlohmann::json& leftover : std::vector<nlohmann::json>{{{"quant_method", "bitsandbytes"}},
                                                                    {{"quant_method", "awq"}, {"bits", 3}},
                                                                    nlohmann::json::object(),
                                                                    "int8"}) {
    CAPTURE(leftover.dump());
    CHECK(refusal_of_field("quantization_config", leftover) == "no error");
  }
}

TEST_CASE("ids that end a text are those of config.json and of generation_config.json") {
  const test::TemporaryDirectory directory;
  TinyModel model = test::random_model();
  model.config["eos_token_id"] = {3, 4};
  const auto stops = [&] { return ModelSource(model.write(directory.path())).spec().stop_tokens; };
  CHECK(stops() == std::vector{3, 4});
  test::write_file(directory.path() / "generation_config.json", R"({"eos_token_id": [4, 5], "temperature": 0.5})");
  CHECK(stops() == std::vector{3, 4, 5});
  const ModelSource source(directory.path());
  CHECK(read_generation_defaults(source.checkpoint()) == GenerationDefaults{.temperature = 0.5});
  test::write_file(directory.path() / "generation_config.json", R"({"eos_token_id": "x"})");
  CHECK(error_message(stops) == Contains("generation_config.json: eos_token_id: must be"));
  CHECK(error_message(stops) == Contains("fix the file or remove it"));
}

TEST_CASE("a model that is quantized in an unknown way is refused by method") {
  CHECK(refusal_of_field("quantization_config", {{"quant_method", "ballast"}, {"version", 99}}) ==
        Contains("quantization_config.version: is 99, this program reads version 1"));
  CHECK(refusal_of_field("quantization_config",
                         {{"quant_method", "ballast"}, {"version", 2}, {"written_by", "ballast 1.0.0"}}) ==
        Contains("version: is 2, this program reads version 1; it was written by ballast 1.0.0"));
  const nlohmann::json tensors = {{"lm_head", "int3-g32"}};
  CHECK(refusal_of_field("quantization_config", {{"quant_method", "ballast"}, {"version", 1}, {"tensors", tensors}}) ==
        Contains("format 'int3-g32': unknown"));
  const auto wide = [](const nlohmann::json& inputs) -> nlohmann::json {
    return {
        {"quant_method", "ballast"}, {"version", 1}, {"wide_inputs", inputs}, {"tensors", nlohmann::json::object()}};
  };
  CHECK(refusal_of_field("quantization_config", wide("lm_head")) ==
        Contains("wide_inputs: must be a list, is \"lm_head\""));
  CHECK(refusal_of_field("quantization_config", wide({"lm_head", 3})) ==
        Contains("wide_inputs[1]: must be a string, is 3"));
  CHECK(refusal_of_field("quantization_config", wide({"lm_hat"})) ==
        Contains("wide_inputs: 'lm_hat' is not among the tensors"));
}

TEST_CASE("a tensor that does not match its checksum is refused") {
  const test::TemporaryDirectory directory;
  const TinyModel model = test::random_model();
  test::write_file(directory / "config.json", model.config.dump());
  std::vector<files::TensorPlan> plan;
  for (const auto& [name, tensor] : model.tensors) plan.push_back({name, DType::kF32, tensor.shape});
  files::SafetensorsWriter writer(directory.path(), plan, {});
  for (const auto& [name, tensor] : model.tensors) writer.write(name, std::as_bytes(std::span(tensor.values)));
  writer.finish();
  CHECK(error_message([&] { const Model loaded(directory.path()); }) == "no error");

  std::string bytes = test::read_file(directory / "model.safetensors");
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  test::write_file(directory / "model.safetensors", bytes);
  CHECK(error_message([&] { const Model loaded(directory.path()); }) == Contains("checksum"));
}

/// Returns a model's tensors, with norm gains including their offset.
test::RoleTensors tensors_with_whole_gains(const ModelSource& source) {
  test::RoleTensors tensors = test::read_tensors(source);
  for (auto& [key, tensor] : tensors) {
    if (!is_norm(std::get<0>(key))) continue;
    const auto offset = static_cast<float>(norm_spec(source.spec(), std::get<1>(key), std::get<0>(key)).gain_offset);
    for (float& gain : tensor.weight) gain += offset;
  }
  return tensors;
}

TEST_CASE("a GGUF's tensors have the names, shapes and values of the Hugging Face directory") {
  for (const std::string name : test::kGoldenGgufs) {
    CAPTURE(name);
    const ModelSource directory(golden_model(name));
    const ModelSource gguf(golden_model(name + ".gguf"));
    CHECK(gguf.spec().layers.size() == directory.spec().layers.size());
    CHECK(test::attention_of(gguf.spec()).kv_heads == test::attention_of(directory.spec()).kv_heads);
    CHECK(test::attention_of(gguf.spec()).head_size == test::attention_of(directory.spec()).head_size);
    CHECK(gguf.spec().vocab_size == directory.spec().vocab_size);
    CHECK(gguf.spec().context_length == directory.spec().context_length);
    CHECK(gguf.spec().norm.epsilon == doctest::Approx(directory.spec().norm.epsilon));
    CHECK(gguf.spec().tied_embeddings == directory.spec().tied_embeddings);
    for (const Part& part : block_linears(directory.spec(), 0)) {
      CHECK(gguf.name(part.role, 0) == directory.name(part.role, 0));
    }
    CHECK((tensors_with_whole_gains(gguf) == tensors_with_whole_gains(directory)));
  }
}

TEST_CASE("linears of a GGUF keep the codes of their blocks if requested, with the same values") {
  const ModelSource floats(golden_model("llama.gguf"));
  ModelSource codes(golden_model("llama.gguf"));
  codes.set_code_activations(ActivationType::kInt16);
  std::size_t kept = 0;
  for (std::size_t layer = 0; layer < codes.spec().layers.size(); ++layer) {
    for (const Part& part : block_linears(codes.spec(), layer)) {
      CHECK(std::holds_alternative<FloatMatrixHolder>(floats.linear(part.role, layer).weights));
      const Linear linear = codes.linear(part.role, layer);
      const auto* matrix = std::get_if<kernels::QuantizedMatrix>(&linear.weights);
      if (matrix == nullptr) continue;
      ++kept;
      CHECK(linear.activations->type == ActivationType::kInt16);
      const FloatWeights expected = floats.float_weights(part.role, layer);
      std::vector<float> row(expected.cols);
      for (std::size_t r = 0; r < expected.rows; ++r) {
        matrix->decode_row(r, row.data());
        CHECK(
            std::equal(row.begin(), row.end(), expected.values.begin() + static_cast<std::ptrdiff_t>(r * row.size())));
      }
    }
  }
  CHECK(kept > 0);
}

TEST_CASE("a GGUF of a family whose GGUFs are not read is refused by name") {
  const test::TemporaryDirectory directory;
  const auto path =
      test::write_file(directory / "m.gguf", test::GgufBytes().string("general.architecture", "nomic-bert").bytes());
  CHECK(error_message([&] { const ModelSource source(path); }) ==
        Contains("architecture 'nomic-bert' is not supported; supported: llama, qwen2, qwen3, "));
}

TEST_CASE("fused, transposed or interleaved matrices of an original are written as separate matrices") {
  for (const std::string& name : test::golden_names()) {
    CAPTURE(name);
    const test::Golden golden = test::read_golden(name);
    const ModelSource source(golden_model(name));
    nlohmann::json config = source.config();
    config[kWrittenSpecField] = written_spec(source.spec());
    const test::RoleTensors tensors = tensors_with_whole_gains(source);
    const test::TemporaryDirectory directory;
    Model written(test::named_model(config, tensors).write(directory / name));
    CHECK(test::relative_error(test::run_at_once(written, golden.ids[0]), golden.logits[0]) <= 1e-4);
  }
}

TEST_CASE("text needs a tokenizer that fits the embedding") {
  const test::TemporaryDirectory directory;
  TinyModel model = test::random_model({.vocab = 250});  // fewer rows than the tokenizer has bytes
  const ModelSource without(model.write(directory / "without"));
  CHECK(error_message([&] { require_tokenizer(without); }) == Contains("has no tokenizer.json"));
  model.tokenizer = test::tiny_tokenizer_json();
  const ModelSource small(model.write(directory / "small"));
  CHECK(error_message([&] { require_tokenizer(small); }) ==
        Contains("the tokenizer has 262 tokens, the embedding 250 rows: they do not belong together"));
}

}  // namespace
}  // namespace ballast::model
