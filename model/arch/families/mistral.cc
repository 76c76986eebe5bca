// Mistral: Llama with a sliding window in every layer, whose GGUFs have the name "llama"; Ministral: in some layers.
// Ministral 3: YaRN, and queries that grow with their position. Multimodal models (Mistral Small 3.1 and 4, Ministral
// 3, Devstral) contain one of these, or Mistral 4, for text.
#include <array>
#include <string>

#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"
#include "model/arch/gguf_config.h"
#include "model/arch/gguf_fields.h"
#include "model/arch/mixtures/latent.h"

namespace ballast::model {

namespace mistral {
namespace {

ModelSpec describe_mistral(const files::JsonReader& config) {
  ModelSpec spec = read_llama_line(config).finish();
  set_uniform_window(config, 4096, spec);
  return spec;
}

ModelSpec describe_ministral(const files::JsonReader& config) {
  DecoderConfig decoder = read_llama_line(config, {.context = 131072, .heads = {.kv_heads = 8}});
  ModelSpec spec = decoder.finish();
  set_windows(spec, read_windows(config, decoder.layers));
  return spec;
}

ModelSpec describe_ministral3(const files::JsonReader& config) {
  // By default the configuration class stretches the rotation, unlike every other one.
  if (!config.has("rope_parameters")) config.fail("rope_parameters", "missing");
  const files::JsonReader rope = config.object("rope_parameters");
  DecoderConfig decoder =
      read_llama_line(config, {.context = 262144, .epsilon = 1e-5, .heads = {.kv_heads = 8, .head_size = 128}});
  decoder.attention.query_growth = QueryGrowthSpec{.slope = rope.number("llama_4_scaling_beta"),
                                                   .length = rope.positive("original_max_position_embeddings")};
  ModelSpec spec = decoder.finish();
  set_uniform_window(config, {}, spec);
  return spec;
}

ModelSpec describe_text(const files::JsonReader& text) {
  const std::string type = text.text("model_type", "mistral");
  if (type == "mistral") return describe_mistral(text);
  if (type == "ministral3") return describe_ministral3(text);
  if (type == "mistral4") return describe_mistral4(text);
  text.fail("model_type", "'" + type + "' is not supported; supported: mistral, ministral3, mistral4");
}

ModelSpec describe_mistral3(const files::JsonReader& config) {
  return spec_of_whole(config, describe_text(config.object("text_config")));
}

// In multimodal models the head's name has another prefix, too.
constexpr std::array<TensorNames, 1> kOtherHead{{{Role::kHead, "language_model.lm_head", ""}}};
constexpr auto kNamesBesideImages = joined_names(kLlamaNames, kOtherHead, kLatentMixtureNames);

nlohmann::json ministral3_from_gguf(const files::GgufFile& file) {
  nlohmann::json config = llama_line_from_gguf(file, "mistral3");
  const GgufMetadata metadata(file, "mistral3");
  config["model_type"] = kMinistral3.model_type;
  config["architectures"] = {"Ministral3ForCausalLM"};
  nlohmann::json& rope = config["rope_parameters"];
  if (rope["rope_type"] != "yarn") metadata.fail("rope.scaling.type", "must be 'yarn'");
  // A GGUF does not store the factors: all published models have the same value for both.
  rope["mscale"] = rope["mscale_all_dim"] = metadata.number("rope.scaling.yarn_log_multiplier", 1.0);
  rope["llama_4_scaling_beta"] = metadata.number("attention.temperature_scale", 0.0);
  return config;
}

}  // namespace
}  // namespace mistral

constinit const Architecture kMistral = {
    .model_type = "mistral",
    .gguf_architecture = "llama",
    .names = kLlamaNames,
    .describe = mistral::describe_mistral,
    .gguf_fields = [](const ModelSpec& spec) { return llama_line_to_gguf(spec, kLlamaGguf); },
    .gguf_interleaves_rope = true,
};

constinit const Architecture kMinistral = {
    .model_type = "ministral",
    .names = kLlamaNames,
    .describe = mistral::describe_ministral,
};

constinit const Architecture kMinistral3 = {
    .model_type = "ministral3",
    .gguf_architecture = "mistral3",
    .names = kLlamaNames,
    .describe = mistral::describe_ministral3,
    .config_from_gguf = mistral::ministral3_from_gguf,
    .gguf_interleaves_rope = true,
};

constinit const Architecture kMistral3 = {
    .model_type = "mistral3",
    .names = mistral::kNamesBesideImages,
    .fused = kFusedLatentMixture,
    .describe = mistral::describe_mistral3,
    .prefix = "model.",
    .other_prefixes = kTextPrefixes,
};

}  // namespace ballast::model
