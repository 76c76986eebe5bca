// The text models of Qwen2-VL, Qwen2.5-VL and Qwen3-VL: Qwen2 and Qwen3. A token's three positions are equal without
// images, so one is used.
#include <span>
#include <string_view>

#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"

namespace ballast::model {

namespace qwen_vl {
namespace {

ModelSpec finish(const files::JsonReader& config, const DecoderConfig& decoder) {
  ModelSpec spec = decoder.finish();
  spec.tied_embeddings = config.flag("tie_word_embeddings", false) || spec.tied_embeddings;
  return spec;
}

ModelSpec describe_qwen2(const files::JsonReader& config) {
  const files::JsonReader text = text_config(config);
  if (text.flag("use_sliding_window", false)) text.fail("use_sliding_window", "true is not supported");
  DecoderConfig decoder =
      read_llama_line(text, {.context = 32768, .epsilon = 1e-5, .heads = {.kv_heads = 8}, .rope = {.theta = 1e6}});
  BiasSpec& biases = decoder.spec.biases;
  biases.query = biases.key = biases.value = true;
  return finish(config, decoder);
}

ModelSpec describe_qwen3(const files::JsonReader& config) {
  const files::JsonReader text = text_config(config);
  DecoderConfig decoder = read_llama_line(
      text, {.context = 128000, .heads = {.kv_heads = 32, .head_size = 128}, .rope = {.theta = 500000.0}});
  decoder.attention.query_key_norm = HeadNormSpec{};
  read_attention_biases(text, decoder.spec.biases);
  return finish(config, decoder);
}

constexpr Architecture architecture(std::string_view model_type, ModelSpec (*describe)(const files::JsonReader&)) {
  return {.model_type = model_type,
          .names = kLlamaNames,
          .describe = describe,
          .prefix = "model.",
          .other_prefixes = std::span(kTextPrefixes).first(1)};
}

}  // namespace
}  // namespace qwen_vl

constinit const Architecture kQwen2Vl = qwen_vl::architecture("qwen2_vl", qwen_vl::describe_qwen2);
constinit const Architecture kQwen25Vl = qwen_vl::architecture("qwen2_5_vl", qwen_vl::describe_qwen2);
constinit const Architecture kQwen3Vl = qwen_vl::architecture("qwen3_vl", qwen_vl::describe_qwen3);

}  // namespace ballast::model
