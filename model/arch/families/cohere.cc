// Command R (Cohere) and R7B (Cohere2): attention and MLP in parallel on one LayerNorm without bias, interleaved RoPE,
// scaled logits. Command R+ also normalizes each head of queries and keys. In Cohere2 layers with a window rotate,
// those that see everything do not.
#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"
#include "model/arch/gguf_config.h"

namespace ballast::model {

namespace cohere {
namespace {

DecoderConfig describe_common(const files::JsonReader& config, double theta) {
  DecoderConfig decoder = read_llama_line(config, {.context = 8192, .tied_embeddings = true, .rope = {.theta = theta}});
  ModelSpec& spec = decoder.spec;
  spec.norm = {.kind = NormSpec::Kind::kLayer, .epsilon = config.positive("layer_norm_eps", 1e-5)};
  spec.layout = BlockLayout::kParallelShared;
  spec.logit_scale = config.positive("logit_scale", 0.0625);
  read_attention_biases(config, spec.biases);
  return decoder;
}

ModelSpec describe_cohere(const files::JsonReader& config) {
  DecoderConfig decoder = describe_common(config, 500000.0);
  if (config.flag("use_qk_norm", false)) {
    decoder.attention.query_key_norm = HeadNormSpec{.kind = HeadNormSpec::Kind::kLayer};
  }
  return decoder.finish();
}

ModelSpec describe_cohere2(const files::JsonReader& config) {
  constexpr std::size_t kPattern = 4;
  // Its configuration class has no such field.
  if (config.flag("use_qk_norm", false)) config.fail("use_qk_norm", "true is not supported");
  ModelSpec spec = describe_common(config, 10000.0).finish();
  const RopeSpec rope = *spec.first_attention()->rope;
  set_layer_types(read_sliding_layers(config, spec.layers.size(), kPattern), read_window(config, 4096), rope, {}, spec);
  return spec;
}

nlohmann::json cohere_from_gguf(const files::GgufFile& file) {
  nlohmann::json config = llama_line_from_gguf(file, "command-r", {.layer_norm = true});
  const GgufMetadata metadata(file, "command-r");
  if (file.contains("blk.0.attn_q_norm.weight")) {
    metadata.fail("block_count", "norms of queries and keys are not supported in a GGUF of this family");
  }
  config["model_type"] = kCohere.model_type;
  config["architectures"] = {"CohereForCausalLM"};
  config["logit_scale"] = metadata.positive("logit_scale");
  return config;
}

// A GGUF does not store which layers have a window: by the configuration class's default every fourth has none.
nlohmann::json cohere2_from_gguf(const files::GgufFile& file) {
  nlohmann::json config = llama_line_from_gguf(file, "cohere2", {.window = true, .layer_norm = true});
  const GgufMetadata metadata(file, "cohere2");
  config["architectures"] = {"Cohere2ForCausalLM"};
  config["logit_scale"] = metadata.positive("logit_scale");
  config["sliding_window"] = metadata.size("attention.sliding_window");
  return config;
}

}  // namespace
}  // namespace cohere

constinit const Architecture kCohere = {
    .model_type = "cohere",
    .gguf_architecture = "command-r",
    .names = kLlamaNames,
    .describe = cohere::describe_cohere,
    .config_from_gguf = cohere::cohere_from_gguf,
    .huggingface_interleaves_rope = true,
    .gguf_interleaves_rope = true,
};

constinit const Architecture kCohere2 = {
    .model_type = "cohere2",
    .gguf_architecture = "cohere2",
    .names = kLlamaNames,
    .describe = cohere::describe_cohere2,
    .config_from_gguf = cohere::cohere2_from_gguf,
    .huggingface_interleaves_rope = true,
    .gguf_interleaves_rope = true,
};

}  // namespace ballast::model
