#include "model/arch/gguf_config.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "ballast/error.h"
#include "files/checkpoint.h"
#include "formats/decode_floats.h"
#include "model/arch/rope_config.h"

namespace ballast::model {

namespace {

using nlohmann::json;

// Llama 3.1 to 3.3 have these values in common; only the factor differs (8 or 32).
constexpr double kLlama3LowFrequency = 1.0;
constexpr double kLlama3HighFrequency = 4.0;
constexpr double kLlama3Context = 8192.0;

json llama3_from_gguf(const files::GgufFile& file, double theta, std::size_t rotated) {
  const TensorView view = file.tensor("rope_freqs.weight");
  const std::string context = file.path().string() + ": rope_freqs.weight";
  if (rotated < 2 || element_count(view.shape) != static_cast<std::int64_t>(rotated / 2)) {
    throw Error(context, "has shape " + shape_string(view.shape) + ", expected [" + std::to_string(rotated / 2) + "]");
  }
  std::vector<float> stored(rotated / 2);
  formats::decode_floats(view, context, stored.data());

  RopeSpec guess;
  guess.scaling = RopeSpec::Scaling::kLlama3;
  guess.theta = theta;
  guess.rotary_size = rotated;
  guess.factor = *std::ranges::max_element(stored);
  guess.low_freq_factor = kLlama3LowFrequency;
  guess.high_freq_factor = kLlama3HighFrequency;
  guess.original_context = kLlama3Context;
  const std::vector<double> expected = frequency_factors(guess);
  const bool same = std::ranges::equal(stored, expected,
                                       [](float a, double b) { return std::abs(double{a} - b) <= 1e-4 * std::abs(b); });
  if (!same)
    throw Error(context, "holds other factors than Llama 3's: convert from the Hugging Face checkpoint instead");
  return {{"rope_type", "llama3"},
          {"factor", guess.factor},
          {"low_freq_factor", guess.low_freq_factor},
          {"high_freq_factor", guess.high_freq_factor},
          {"original_max_position_embeddings", static_cast<std::int64_t>(guess.original_context)}};
}

json yarn_from_gguf(const files::JsonReader& metadata, const std::string& base) {
  json parameters = {{"rope_type", "yarn"},
                     {"factor", metadata.positive(base + "factor")},
                     {"original_max_position_embeddings", metadata.positive(base + "original_context_length")}};
  for (const char* field : {"beta_fast", "beta_slow"}) {
    const std::string key = base + "yarn_" + field;
    if (metadata.has(key)) parameters[field] = metadata.positive(key);
  }
  for (const char* key : {"yarn_ext_factor", "yarn_attn_factor", "attn_factor"}) {
    if (metadata.number(base + key, 1.0) != 1.0) metadata.fail(base + key, "other than 1 is not supported");
  }
  return parameters;
}

void check_extras(const GgufMetadata& metadata, std::size_t head_size, std::size_t rotated, GgufExtras extras) {
  if (!extras.experts && metadata.number("expert_count", 0) > 0) {
    metadata.fail("expert_count",
                  "a GGUF of this family with experts is not supported: convert from the Hugging Face checkpoint");
  }
  if (!extras.partial_rotation && rotated != head_size) {
    metadata.fail("rope.dimension_count", "is " + std::to_string(rotated) + ", the heads have " +
                                              std::to_string(head_size) + " channels: not supported");
  }
  if (const std::size_t size = metadata.size("attention.value_length", head_size); size != head_size) {
    metadata.fail("attention.value_length", "is " + std::to_string(size) + ", the keys have " +
                                                std::to_string(head_size) + " channels: not supported");
  }
  if (!metadata.flag("attention.causal", true)) {
    metadata.fail("attention.causal", "false is not supported in a GGUF of this family");
  }
  if (!extras.window && metadata.number("attention.sliding_window", 0) > 0) {
    metadata.fail("attention.sliding_window",
                  "a window is not supported in a GGUF: convert from the Hugging Face checkpoint");
  }
}

}  // namespace

std::vector<double> frequency_factors(const RopeSpec& rope) {
  RopeSpec plain;
  plain.theta = rope.theta;
  plain.rotary_size = rope.rotary_size;
  std::vector<double> factors = rope_frequencies(plain);
  const std::vector<double> stretched = rope_frequencies(rope);
  for (std::size_t i = 0; i < factors.size(); ++i) factors[i] /= stretched[i];
  return factors;
}

std::size_t GgufMetadata::layers() const {
  const std::size_t blocks = size("block_count");
  const std::size_t further = count("nextn_predict_layers", 0);
  if (further >= blocks) fail("nextn_predict_layers", "must be less than block_count");
  return blocks - further;
}

std::size_t GgufMetadata::largest(std::string_view name, std::size_t fallback) const {
  if (!has(name) || !at(name).json().is_array()) return size(name, fallback);
  const std::vector<std::size_t> values = at(name).integers<std::size_t>();
  const std::size_t value = values.empty() ? 0 : std::ranges::max(values);
  if (value == 0) fail(name, "is 0 for all layers");
  for (const std::size_t other : values) {
    if (other != 0 && other != value) fail(name, "differs between layers: not supported");
  }
  return value;
}

json llama_line_from_gguf(const files::GgufFile& file, std::string_view architecture, GgufExtras extras) {
  const GgufMetadata metadata(file, architecture);
  const std::size_t hidden = metadata.size("embedding_length");
  const std::size_t heads = metadata.size("attention.head_count");
  const std::size_t head_size = metadata.size("attention.key_length", hidden / heads);
  const std::size_t rotated = metadata.size("rope.dimension_count", head_size);
  check_extras(metadata, head_size, rotated, extras);
  const bool plain = !extras.experts || metadata.has("feed_forward_length");  // mixtures may lack an MLP
  json config = {
      {"model_type", architecture},
      {"hidden_act", "silu"},
      {"num_hidden_layers", metadata.layers()},
      {"hidden_size", hidden},
      {"num_attention_heads", heads},
      {"num_key_value_heads", metadata.largest("attention.head_count_kv", heads)},
      {"head_dim", head_size},
      {"intermediate_size", metadata.size(plain ? "feed_forward_length" : "expert_feed_forward_length")},
      {"vocab_size", gguf_vocab_size(file)},
      {"max_position_embeddings", metadata.size("context_length", 2048)},
      {"rope_parameters", rope_parameters_from_gguf(file, metadata.key(""), rotated)},
      {"tie_word_embeddings", !file.contains("output.weight")},
  };
  if (extras.partial_rotation) {
    config["rope_parameters"]["partial_rotary_factor"] = static_cast<double>(rotated) / static_cast<double>(head_size);
  }
  if (extras.layer_norm) {
    config["layer_norm_eps"] = metadata.positive("attention.layer_norm_epsilon");
  } else {
    config["rms_norm_eps"] = metadata.positive("attention.layer_norm_rms_epsilon");
  }
  copy_token_ids(file, config);
  return config;
}

json rope_parameters_from_gguf(const files::GgufFile& file, std::string_view prefix, std::size_t rotated) {
  const files::JsonReader metadata(file.config(), file.path().string());
  const std::string base = std::string(prefix) + "rope.";
  json parameters = {{"rope_type", "default"}, {"rope_theta", metadata.number(base + "freq_base", RopeSpec{}.theta)}};
  // Older files have a factor but no type.
  const double factor = metadata.number(base + "scaling.factor", metadata.number(base + "scale_linear", 1.0));
  const bool stretched = factor != 0 && factor != 1;
  const std::string scaling = metadata.text(base + "scaling.type", stretched ? "linear" : "none");
  if (scaling == "linear") {
    parameters["rope_type"] = "linear";
    parameters["factor"] = stretched ? factor : 1.0;
  } else if (scaling == "yarn") {
    parameters.update(yarn_from_gguf(metadata, base + "scaling."));
  } else if (scaling != "none") {
    metadata.fail(base + "scaling.type", "'" + scaling + "' is not supported; supported: none, linear, yarn");
  }
  if (file.contains("rope_freqs.weight")) parameters.update(llama3_from_gguf(file, parameters["rope_theta"], rotated));
  return parameters;
}

json layer_types_from_gguf(const GgufMetadata& metadata) {
  json types = json::array();
  for (const files::JsonReader& sliding : metadata.at("attention.sliding_window_pattern").elements()) {
    types.push_back(sliding.boolean() ? "sliding_attention" : "full_attention");
  }
  return types;
}

json list_from_gguf(const files::GgufFile& file, std::string_view tensor) {
  const TensorView view = file.tensor(tensor);
  std::vector<float> values(static_cast<std::size_t>(element_count(view.shape)));
  formats::decode_floats(view, file.path().string() + ": " + std::string(tensor), values.data());
  return values;
}

void copy_token_ids(const files::GgufFile& file, json& config) {
  for (const char* key : {"bos_token_id", "eos_token_id"}) {
    const auto it = file.config().find("tokenizer.ggml." + std::string(key));
    if (it != file.config().end()) config[key] = *it;
  }
}

std::size_t table_rows(const files::GgufFile& file, std::string_view tensor) {
  const Shape shape = file.tensor(tensor).shape;
  if (shape.size() != 2) {
    throw Error(file.path().string() + ": " + std::string(tensor), "has shape " + shape_string(shape));
  }
  return static_cast<std::size_t>(shape[0]);
}

std::size_t gguf_vocab_size(const files::GgufFile& file) {
  return table_rows(file, "token_embd.weight");
}

std::optional<TextVectorSpec> text_vectors_from_gguf(const files::GgufFile& file, std::string_view architecture) {
  constexpr std::string_view kKey = "pooling_type";
  const GgufMetadata metadata(file, architecture);
  // llama.cpp's numbers for the kinds of pooling. With 0 the program decides.
  switch (metadata.count(kKey, 0)) {
    case 0:
      return {};
    case 1:
      return TextVectorSpec{.pooling = Pooling::kMean};
    case 2:
      return TextVectorSpec{.pooling = Pooling::kFirst};
    case 3:
      return TextVectorSpec{.pooling = Pooling::kLast};
    case 4:
      metadata.fail(kKey, "4 (a score for a pair of texts) is not supported");
    default:
      metadata.fail(kKey, "must be 0 (unspecified), 1 (mean), 2 (first token) or 3 (last token)");
  }
}

}  // namespace ballast::model
