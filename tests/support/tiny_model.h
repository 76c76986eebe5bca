// Llama models that are small enough for tests; tests can change their values.
#ifndef BALLAST_TESTS_SUPPORT_TINY_MODEL_H_
#define BALLAST_TESTS_SUPPORT_TINY_MODEL_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ballast/tensor.h"
#include "file_bytes.h"
#include "files/checkpoint.h"
#include "files/safetensors/safetensors_file.h"
#include "formats/decode_floats.h"
#include "temporary_directory.h"

namespace ballast::test {

/// Returns a model of tests/data/models, which scripts/make_golden_models.py writes.
inline std::filesystem::path golden_model(const std::string& name) {
  return std::filesystem::path(BALLAST_TEST_DATA) / "models" / name;
}

/// Returns values as one safetensors file in F32, without checksums.
inline std::string float_tensors_bytes(const std::map<std::string, Tensor>& tensors) {
  nlohmann::json header = nlohmann::json::object();
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    const std::size_t begin = data.size();
    data.append(reinterpret_cast<const char*>(tensor.values.data()), tensor.values.size() * sizeof(float));
    header[name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
  }
  return safetensors_bytes(header.dump(), data);
}

struct TinyModel {
  nlohmann::json config;
  std::map<std::string, Tensor> tensors;
  nlohmann::json tokenizer;  ///< tokenizer.json, written unless null

  Tensor& at(const std::string& name) { return tensors.at(name); }

  std::filesystem::path write(const std::filesystem::path& directory) const {
    std::filesystem::create_directories(directory);
    write_file(directory / "config.json", config.dump());
    write_file(directory / "model.safetensors", float_tensors_bytes(tensors));
    if (!tokenizer.is_null()) write_file(directory / "tokenizer.json", tokenizer.dump());
    return directory;
  }
};

/// Reads a directory with plain weights.
inline TinyModel read_model(const std::filesystem::path& directory) {
  const auto checkpoint = files::open_checkpoint(directory);
  TinyModel result{.config = checkpoint->config(), .tensors = {}, .tokenizer = nullptr};
  for (const std::string& name : checkpoint->names()) {
    const TensorView view = checkpoint->tensor(name);
    Tensor& tensor = result.tensors[name];
    tensor.shape = view.shape;
    tensor.values.resize(static_cast<std::size_t>(element_count(view.shape)));
    formats::decode_floats(view, name, tensor.values.data());
  }
  return result;
}

struct TinyModelOptions {
  std::int64_t vocab = 264;
  std::int64_t hidden = 32;
  std::int64_t layers = 2;
  std::int64_t heads = 4;
  std::int64_t kv_heads = 2;
  std::int64_t head_size = 8;
  std::int64_t mlp = 48;
  std::int64_t context = 64;
  float weights = 0.15F;  ///< spread of the blocks' matrices; with 0, blocks pass their input on
};

/// Returns an untied model with random weights (the same on every machine) and norm gains of 1.
inline TinyModel random_model(const TinyModelOptions& options = {}) {
  TinyModel model;
  model.config = {{"model_type", "llama"},
                  {"vocab_size", options.vocab},
                  {"hidden_size", options.hidden},
                  {"num_hidden_layers", options.layers},
                  {"num_attention_heads", options.heads},
                  {"num_key_value_heads", options.kv_heads},
                  {"head_dim", options.head_size},
                  {"intermediate_size", options.mlp},
                  {"max_position_embeddings", options.context},
                  {"rms_norm_eps", 1e-6},
                  {"tie_word_embeddings", false}};
  std::mt19937 random(1);
  const auto add = [&](const std::string& name, Shape shape, float spread, float center) {
    Tensor& tensor = model.tensors[name + ".weight"];
    tensor.values.resize(static_cast<std::size_t>(element_count(shape)));
    tensor.shape = std::move(shape);
    for (float& value : tensor.values) {
      value = center + spread * (static_cast<float>(random() % 20001) / 5000.0F - 2.0F);  // uniform in [-2, 2]
    }
  };
  add("model.embed_tokens", {options.vocab, options.hidden}, 0.5F, 0);
  add("model.norm", {options.hidden}, 0, 1);
  add("lm_head", {options.vocab, options.hidden}, 0.15F, 0);
  for (std::int64_t layer = 0; layer < options.layers; ++layer) {
    const std::string block = "model.layers." + std::to_string(layer) + ".";
    const std::int64_t queries = options.heads * options.head_size;
    const std::int64_t keys = options.kv_heads * options.head_size;
    add(block + "input_layernorm", {options.hidden}, 0, 1);
    add(block + "self_attn.q_proj", {queries, options.hidden}, options.weights, 0);
    add(block + "self_attn.k_proj", {keys, options.hidden}, options.weights, 0);
    add(block + "self_attn.v_proj", {keys, options.hidden}, options.weights, 0);
    add(block + "self_attn.o_proj", {options.hidden, queries}, options.weights, 0);
    add(block + "post_attention_layernorm", {options.hidden}, 0, 1);
    add(block + "mlp.gate_proj", {options.mlp, options.hidden}, options.weights, 0);
    add(block + "mlp.up_proj", {options.mlp, options.hidden}, options.weights, 0);
    add(block + "mlp.down_proj", {options.hidden, options.mlp}, options.weights, 0);
  }
  return model;
}

/// Returns a model whose blocks do nothing and that predicts `successor` of each token: logit `logit` for it, 0 for all
/// others. Tokens from `successors.size()` on have no successor.
inline TinyModel successor_model(const std::vector<int>& successors, float logit) {
  TinyModelOptions options;
  options.hidden = options.vocab;
  options.heads = options.kv_heads = 1;
  options.weights = 0;
  TinyModel model = random_model(options);
  Tensor& embedding = model.at("model.embed_tokens.weight");
  Tensor& head = model.at("lm_head.weight");
  std::fill(embedding.values.begin(), embedding.values.end(), 0.0F);
  std::fill(head.values.begin(), head.values.end(), 0.0F);
  const auto hidden = static_cast<std::size_t>(options.hidden);
  // The final norm turns a single value into sqrt(hidden).
  const float weight = logit / std::sqrt(static_cast<float>(hidden));
  for (std::size_t token = 0; token < hidden; ++token) embedding.values[token * hidden + token] = 1.0F;
  for (std::size_t token = 0; token < successors.size(); ++token) {
    head.values[static_cast<std::size_t>(successors[token]) * hidden + token] = weight;
  }
  model.config["rms_norm_eps"] = 1e-12;
  return model;
}

/// Returns a model that predicts the next byte after each byte.
inline TinyModel alphabet_model(float logit) {
  std::vector<int> successors(256);
  std::iota(successors.begin(), successors.end(), 1);
  return successor_model(successors, logit);
}

}  // namespace ballast::test

#endif  // BALLAST_TESTS_SUPPORT_TINY_MODEL_H_
