// Golden models with a random head for multi-token prediction, as checkpoints of their families bring it.
#ifndef BALLAST_TESTS_SUPPORT_DRAFT_HEAD_MODEL_H_
#define BALLAST_TESTS_SUPPORT_DRAFT_HEAD_MODEL_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tiny_model.h"

namespace ballast::test {

/// Golden models of the families whose draft heads are known. Each has two layers, of which the second one attends.
inline constexpr std::array kDraftedGoldens = {"qwen3_next", "qwen3_5_text",  "deepseek_v3",
                                               "glm4_moe",   "glm4_moe_lite", "mimo"};

/// The names of a draft head's tensors, without ".weight".
struct DraftHeadNames {
  std::string block;  ///< before the rest of a name of the block's tensor
  std::string embedding_norm, hidden_norm, projection, norm;
  bool reads_hidden_first = false;
};

inline DraftHeadNames draft_head_names(const std::string& golden) {
  if (golden.starts_with("qwen")) {
    return {"mtp.layers.0.", "mtp.pre_fc_norm_embedding", "mtp.pre_fc_norm_hidden", "mtp.fc", "mtp.norm"};
  }
  if (golden == "mimo") {
    const std::string block = "model.mtp_layers.0.";
    return {
        block, block + "token_layernorm", block + "hidden_layernorm", block + "input_proj", block + "final_layernorm",
        true};
  }
  const std::string block = "model.layers.2.";
  return {block, block + "enorm", block + "hnorm", block + "eh_proj", block + "shared_head.norm"};
}

/// Returns the golden model with a draft head, whose block has other values than those of the model.
inline TinyModel model_with_draft_head(const std::string& golden, unsigned seed = 1) {
  TinyModel model = read_model(golden_model(golden));
  const DraftHeadNames names = draft_head_names(golden);
  std::mt19937 random(seed);
  const auto uniform = [&] { return static_cast<float>(random() % 20001) / 10000.0F - 1.0F; };
  const std::string last = "model.layers.1.";
  std::map<std::string, Tensor> head;
  for (const auto& [name, tensor] : model.tensors) {
    if (!name.starts_with(last)) continue;
    Tensor& copy = head[names.block + name.substr(last.size())] = tensor;
    for (float& value : copy.values) value *= 1 + 0.5F * uniform();
  }
  const std::int64_t size = model.at("model.norm.weight").shape.front();
  const auto add = [&](const std::string& name, const Shape& shape, float center, float spread) {
    Tensor& tensor = head[name + ".weight"] = {.shape = shape, .values = {}};
    tensor.values.resize(static_cast<std::size_t>(element_count(shape)));
    for (float& value : tensor.values) value = center + spread * uniform();
  };
  const float gain = golden.starts_with("qwen") ? 0.0F : 1.0F;  // Qwen stores gain - 1
  for (const std::string& norm : {names.embedding_norm, names.hidden_norm, names.norm}) add(norm, {size}, gain, 0.3F);
  add(names.projection, {size, 2 * size}, 0, 0.5F);
  model.tensors.merge(head);
  return model;
}

/// Returns a model of the head's block, with the head's last norm as its own: for the head's inputs as rows of the
/// embedding it gives the head's logits.
inline TinyModel model_of_draft_head(const std::string& golden, const TinyModel& with_head) {
  const DraftHeadNames names = draft_head_names(golden);
  TinyModel model{.config = with_head.config, .tensors = {}, .tokenizer = nullptr};
  model.config["num_hidden_layers"] = 1;
  model.config["num_nextn_predict_layers"] = 0;
  if (model.config.contains("layer_types")) model.config["layer_types"] = nlohmann::json::array({"full_attention"});
  if (model.config.contains("mlp_only_layers")) model.config["mlp_only_layers"] = nlohmann::json::array();
  if (model.config.contains("first_k_dense_replace")) model.config["first_k_dense_replace"] = 0;
  if (model.config.contains("mlp_layer_types")) {
    model.config["mlp_layer_types"] = nlohmann::json::array({with_head.config["mlp_layer_types"].back()});
  }
  for (const auto& [name, tensor] : with_head.tensors) {
    if (name.starts_with(names.block)) model.tensors["model.layers.0." + name.substr(names.block.size())] = tensor;
  }
  for (const char* name : {"model.embed_tokens.weight", "lm_head.weight"})
    model.tensors[name] = with_head.tensors.at(name);
  model.tensors["model.norm.weight"] = with_head.tensors.at(names.norm + ".weight");
  for (const std::string& own : {names.embedding_norm, names.hidden_norm, names.projection, names.norm}) {
    if (own.starts_with(names.block))
      model.tensors.erase("model.layers.0." + own.substr(names.block.size()) + ".weight");
  }
  return model;
}

/// Returns the same model with blocks that do nothing: model and head both predict (token + 1) % vocabulary.
inline TinyModel counting_model_with_draft_head(const std::string& golden) {
  TinyModel model = model_with_draft_head(golden);
  const DraftHeadNames names = draft_head_names(golden);
  const float gain = golden.starts_with("qwen") ? 0.0F : 1.0F;
  for (auto& [name, tensor] : model.tensors) {
    for (const char* writer : {".o_proj.", ".out_proj.", ".down_proj."}) {
      if (name.find(writer) != std::string::npos) std::ranges::fill(tensor.values, 0.0F);
    }
  }
  for (const std::string& norm : {std::string("model.norm"), names.embedding_norm, names.norm}) {
    std::ranges::fill(model.at(norm + ".weight").values, gain);
  }
  const Tensor& embedding = model.at("model.embed_tokens.weight");
  const auto vocab = static_cast<std::size_t>(embedding.shape[0]);
  const auto size = static_cast<std::size_t>(embedding.shape[1]);
  Tensor& head = model.at("lm_head.weight");
  for (std::size_t token = 0; token < vocab; ++token) {
    const float* row = embedding.values.data() + token * size;
    double squares = 0;
    for (std::size_t c = 0; c < size; ++c) squares += double{row[c]} * double{row[c]};
    float* next = head.values.data() + (token + 1) % vocab * size;
    for (std::size_t c = 0; c < size; ++c) next[c] = row[c] / static_cast<float>(std::sqrt(squares));
  }
  Tensor& projection = model.at(names.projection + ".weight");
  std::ranges::fill(projection.values, 0.0F);
  const std::size_t embedding_first = names.reads_hidden_first ? size : 0;
  for (std::size_t c = 0; c < size; ++c) projection.values[c * 2 * size + embedding_first + c] = 1;
  return model;
}

}  // namespace ballast::test

#endif  // BALLAST_TESTS_SUPPORT_DRAFT_HEAD_MODEL_H_
