// Gemma 1, 2 and the text models of Gemma 3: gains stored minus one, scaled embeddings, GELU in the gate. Gemma 2 and 3
// also normalize the outputs of attention and MLP and have layers with a window; 2 caps scores and logits; 3 normalizes
// queries and keys, and its layers with a window have their own rotation. EmbeddingGemma is such a model with
// bidirectional attention and no head. VaultGemma is Gemma 2 without output norms.
#include "model/arch/families/gemma.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/arch/architectures.h"
#include "model/arch/gguf_config.h"
#include "model/arch/gguf_fields.h"
#include "model/arch/rope_config.h"

namespace ballast::model {

namespace gemma {
namespace {

// Models without a head are published without the prefix of names.
constexpr std::array<std::string_view, 1> kNoPrefix = {""};

// Every kGemma2Pattern-th or kGemma3Pattern-th layer has full attention.
constexpr std::size_t kGemma2Pattern = 2;
constexpr std::size_t kGemma3Pattern = 6;

bool sees_both_ways(const files::JsonReader& config) {
  return config.flag("use_bidirectional_attention", false);
}

void refuse_both_ways(const files::JsonReader& config) {
  if (sees_both_ways(config)) config.fail("use_bidirectional_attention", "true is not supported");
}

ModelSpec describe_gemma(const files::JsonReader& config) {
  refuse_both_ways(config);
  DecoderConfig decoder = read_gemma_line(config, {.context = 8192,
                                                   .tied_embeddings = true,
                                                   .activation = "gelu_pytorch_tanh",
                                                   .heads = {.kv_heads = 16, .head_size = 256}});
  // The first configurations have "gelu" for the approximation, as transformers reads them.
  if (decoder.mlp.activation == Activation::kGelu) decoder.mlp.activation = Activation::kGeluTanh;
  return decoder.finish();
}

// Reads the common part of Gemma 2, Gemma 3 and VaultGemma.
DecoderConfig describe_with_windows(const files::JsonReader& config, std::size_t context) {
  DecoderConfig decoder = read_gemma_line(
      config, {.context = context, .tied_embeddings = true, .heads = {.kv_heads = 4, .head_size = 256}});
  decoder.mlp.activation = read_activation(config, "hidden_activation", "gelu_pytorch_tanh");
  decoder.attention.scale = 1.0 / std::sqrt(config.positive("query_pre_attn_scalar", 256));
  return decoder;
}

// Describes Gemma 2, except for its norms.
ModelSpec describe_capped(const files::JsonReader& config) {
  refuse_both_ways(config);
  DecoderConfig decoder = describe_with_windows(config, 8192);
  decoder.attention.score_cap = read_gemma_cap(config, "attn_logit_softcapping", 50.0);
  decoder.spec.logit_cap = read_gemma_cap(config, "final_logit_softcapping", 30.0);
  ModelSpec spec = decoder.finish();
  const RopeSpec rope = *decoder.attention.rope;
  set_layer_types(read_sliding_layers(config, decoder.layers, kGemma2Pattern), read_window(config, 4096), rope, rope,
                  spec);
  return spec;
}

ModelSpec describe_gemma2(const files::JsonReader& config) {
  ModelSpec spec = describe_capped(config);
  spec.post_norms = true;
  return spec;
}

void set_layer_attention(const files::JsonReader& config, ModelSpec& spec) {
  const std::size_t head_size = spec.first_attention()->head_size;
  const RopeSpec global = read_rope_of_type(config, "full_attention", head_size,
                                            {.theta = config.positive("rope_theta", 1e6)}, "rope_scaling");
  const RopeSpec local = read_rope_of_type(config, "sliding_attention", head_size,
                                           {.theta = config.positive("rope_local_base_freq", 1e4)});
  // An encoder's window is divided between both sides.
  const std::size_t window = spec.causal ? read_window(config, 4096) : read_window(config, 4096) / 2 + 1;
  set_layer_types(read_sliding_layers(config, spec.layers.size(), kGemma3Pattern), window, local, global, spec);
}

/// Returns whether the checkpoint was written by a class without a head.
bool is_headless(const files::JsonReader& config) {
  if (!config.has("architectures")) return false;
  return config.at("architectures").strings() == std::vector<std::string>{"Gemma3TextModel"};
}

ModelSpec describe_gemma3(const files::JsonReader& config) {
  DecoderConfig decoder = describe_with_windows(config, 131072);
  decoder.spec.post_norms = true;
  decoder.attention.query_key_norm = HeadNormSpec{};
  decoder.spec.logit_cap = read_gemma_cap(config, "final_logit_softcapping", 0.0);
  if (config.has("attn_logit_softcapping")) config.fail("attn_logit_softcapping", "is not supported");
  if (sees_both_ways(config)) {
    decoder.spec.causal = false;
    decoder.spec.has_head = !is_headless(config);
    if (!decoder.spec.has_head) decoder.spec.tied_embeddings = true;
  }
  ModelSpec spec = decoder.finish();
  set_layer_attention(config, spec);
  return spec;
}

constexpr int kLayersOfGemma2With27B = 46;
constexpr int kLayersOfGemma3With27B = 62;

// Returns the config.json of a GGUF whose keys begin with `architecture`.
nlohmann::json with_post_norms_from_gguf(const files::GgufFile& file, const std::string& architecture,
                                         int layers_of_largest) {
  nlohmann::json config = llama_line_from_gguf(file, architecture, {.window = true});
  const files::JsonReader metadata(file.config(), file.path().string());
  config.erase("hidden_act");  // the class has another field
  config["sliding_window"] = metadata.size(architecture + ".attention.sliding_window");
  const std::string cap = architecture + ".final_logit_softcapping";
  config["final_logit_softcapping"] = metadata.has(cap) ? nlohmann::json(metadata.positive(cap)) : nlohmann::json();
  // A GGUF does not store this: only the largest model scales by a size other than the heads'.
  const bool largest = config["num_hidden_layers"] == layers_of_largest;
  config["query_pre_attn_scalar"] =
      largest ? config["hidden_size"].get<std::size_t>() / config["num_attention_heads"].get<std::size_t>()
              : config["head_dim"].get<std::size_t>();
  return config;
}

nlohmann::json gemma_from_gguf(const files::GgufFile& file) {
  nlohmann::json config = llama_line_from_gguf(file, "gemma");
  config["architectures"] = {"GemmaForCausalLM"};
  config["hidden_act"] = "gelu_pytorch_tanh";
  return config;
}

nlohmann::json gemma2_from_gguf(const files::GgufFile& file) {
  nlohmann::json config = with_post_norms_from_gguf(file, "gemma2", kLayersOfGemma2With27B);
  config["architectures"] = {"Gemma2ForCausalLM"};
  const files::JsonReader metadata(file.config(), file.path().string());
  config["attn_logit_softcapping"] = metadata.positive("gemma2.attn_logit_softcapping", 50.0);
  return config;
}

nlohmann::json gemma3_from_gguf(const files::GgufFile& file) {
  nlohmann::json config = with_post_norms_from_gguf(file, "gemma3", kLayersOfGemma3With27B);
  const files::JsonReader metadata(file.config(), file.path().string());
  config["model_type"] = kGemma3Text.model_type;
  config["architectures"] = {"Gemma3ForCausalLM"};
  config["sliding_window_pattern"] = metadata.size("gemma3.attention.sliding_window_pattern", kGemma3Pattern);
  config["rope_parameters"] = {
      {"full_attention", config["rope_parameters"]},
      {"sliding_attention",
       {{"rope_type", "default"}, {"rope_theta", metadata.number("gemma3.rope.freq_base_swa", 10000.0)}}}};
  return config;
}

// Returns the common part of the GGUFs of all generations.
GgufLine gguf_line(const ModelSpec& spec, std::string_view architecture) {
  return {.architecture = architecture,
          .activation = Activation::kGeluTanh,
          .embedding_scale = std::sqrt(static_cast<double>(spec.hidden_size))};
}

std::vector<files::GgufField> gemma_to_gguf(const ModelSpec& spec) {
  GgufLine line = gguf_line(spec, "gemma");
  line.head = GgufLine::Head::kTied;
  return llama_line_to_gguf(spec, line);
}

// Returns the common part of Gemma 2 and 3; the caps have keys. For the largest model see with_post_norms_from_gguf().
GgufLine gguf_line_with_post_norms(const ModelSpec& spec, std::string_view architecture, int layers_of_largest) {
  GgufLine line = gguf_line(spec, architecture);
  const AttentionSpec& attention = *spec.first_attention();
  line.post_norms = true;
  line.windows = true;
  line.score_cap = attention.score_cap;
  line.logit_cap = spec.logit_cap;
  if (std::cmp_equal(spec.layers.size(), layers_of_largest)) {
    const std::size_t size = spec.hidden_size / attention.heads;
    line.attention_scale = 1.0 / std::sqrt(static_cast<double>(size));
  }
  return line;
}

// Returns the period of the layers with full attention, each the last of its period.
std::size_t period_of_windows(const ModelSpec& spec, const GgufLine& line) {
  const auto window = [](const LayerSpec& layer) { return layer.attention()->window; };
  const auto global = std::ranges::find(spec.layers, std::size_t{0}, window);
  const auto period = static_cast<std::size_t>(global - spec.layers.begin()) + 1;
  const AttentionSpec& first = *spec.first_attention();
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    const AttentionSpec& attention = *spec.layers[i].attention();
    const bool sees_everything = i % period == period - 1;
    if (attention.window != (sees_everything ? 0 : first.window)) {
      refuse_gguf(line, "windows do not come in a period, or differ");
    }
    if (!sees_everything && attention.rope != first.rope) refuse_gguf(line, "layers with a window rotate differently");
  }
  if (first.window == 0) refuse_gguf(line, "no layer has a window");
  return period;
}

std::vector<files::GgufField> gemma2_to_gguf(const ModelSpec& spec) {
  GgufLine line = gguf_line_with_post_norms(spec, "gemma2", kLayersOfGemma2With27B);
  line.head = GgufLine::Head::kTied;
  if (line.score_cap == 0 || line.logit_cap == 0) refuse_gguf(line, "scores or logits have no cap");
  std::vector<files::GgufField> fields = llama_line_to_gguf(spec, line);
  if (period_of_windows(spec, line) != kGemma2Pattern) refuse_gguf(line, "not every other layer has a window");
  fields.push_back(gguf_field(line, "attention.sliding_window", spec.first_attention()->window));
  fields.push_back(gguf_field(line, "attn_logit_softcapping", line.score_cap));
  fields.push_back(gguf_field(line, "final_logit_softcapping", line.logit_cap));
  return fields;
}

std::vector<files::GgufField> gemma3_to_gguf(const ModelSpec& spec) {
  const GgufLine line = gguf_line_with_post_norms(spec, "gemma3", kLayersOfGemma3With27B);
  std::vector<files::GgufField> fields = llama_line_to_gguf(spec, line);
  const AttentionSpec& local = *spec.first_attention();
  fields.push_back(gguf_field(line, "attention.sliding_window_pattern", period_of_windows(spec, line)));
  fields.push_back(gguf_field(line, "attention.sliding_window", local.window));
  if (local.rope->scaling != RopeSpec::Scaling::kNone)
    refuse_gguf(line, "layers with a window have stretched rotations");
  fields.push_back(gguf_field(line, "rope.freq_base_swa", local.rope->theta));
  if (line.logit_cap != 0) fields.push_back(gguf_field(line, "final_logit_softcapping", line.logit_cap));
  return fields;
}

ModelSpec describe_gemma3_decoder(const files::JsonReader& config) {
  refuse_both_ways(config);
  return describe_gemma3(config);
}

ModelSpec describe_gemma3_with_images(const files::JsonReader& config) {
  return describe_gemma_text(config,
                             {{"num_hidden_layers", 26},
                              {"hidden_size", 2304},
                              {"num_attention_heads", 8},
                              {"intermediate_size", 9216},
                              {"vocab_size", 262208}},
                             describe_gemma3_decoder);
}

}  // namespace
}  // namespace gemma

DecoderConfig read_gemma_line(const files::JsonReader& config, const LlamaLineDefaults& defaults) {
  DecoderConfig decoder = read_llama_line(config, defaults);
  ModelSpec& spec = decoder.spec;
  spec.norm.gain_offset = 1.0;
  spec.embedding_scale = gemma_embedding_scale(config, spec.hidden_size);
  read_attention_biases(config, spec.biases);
  return decoder;
}

double gemma_embedding_scale(const files::JsonReader& config, std::size_t size) {
  constexpr unsigned kDroppedByBF16 = 16;
  constexpr unsigned kDroppedByF16 = 13;
  const float root = std::sqrt(static_cast<float>(size));
  const std::string type = config.text("dtype", config.text("torch_dtype", "float32"));
  const unsigned dropped = type == "bfloat16" ? kDroppedByBF16 : type == "float16" ? kDroppedByF16 : 0;
  if (dropped == 0) return root;
  const auto bits = std::bit_cast<std::uint32_t>(root);
  const std::uint32_t to_even = (1U << (dropped - 1)) - 1 + ((bits >> dropped) & 1U);
  return std::bit_cast<float>((bits + to_even) >> dropped << dropped);
}

double read_gemma_cap(const files::JsonReader& config, std::string_view field, double by_class) {
  if (!config.has(field)) return config.json().contains(field) ? 0.0 : by_class;
  return config.positive(field);
}

ModelSpec describe_gemma_text(const files::JsonReader& config, nlohmann::json by_class,
                              ModelSpec (*describe)(const files::JsonReader&)) {
  for (const char* field : {"dtype", "torch_dtype"}) {
    if (config.has(field)) by_class[field] = config.text(field);
  }
  by_class.update(config.object("text_config").json());
  return spec_of_whole(config, describe(files::JsonReader(by_class, config.context() + ": text_config")));
}

constinit const Architecture kGemma = {
    .model_type = "gemma",
    .gguf_architecture = "gemma",
    .names = kLlamaNames,
    .describe = gemma::describe_gemma,
    .config_from_gguf = gemma::gemma_from_gguf,
    .gguf_fields = gemma::gemma_to_gguf,
};

constinit const Architecture kGemma2 = {
    .model_type = "gemma2",
    .gguf_architecture = "gemma2",
    .names = kGemmaNames,
    .describe = gemma::describe_gemma2,
    .config_from_gguf = gemma::gemma2_from_gguf,
    .gguf_fields = gemma::gemma2_to_gguf,
};

constinit const Architecture kVaultGemma = {
    .model_type = "vaultgemma",
    .names = kGemmaNames,
    .describe = gemma::describe_capped,
};

constinit const Architecture kGemma3Text = {
    .model_type = "gemma3_text",
    .gguf_architecture = "gemma3",
    .names = kGemmaNames,
    .describe = gemma::describe_gemma3,
    .config_from_gguf = gemma::gemma3_from_gguf,
    .gguf_fields = gemma::gemma3_to_gguf,
    .prefix = "model.",
    .other_prefixes = gemma::kNoPrefix,
};

constinit const Architecture kGemma3 = {
    .model_type = "gemma3",
    .gguf_architecture = "gemma3",
    .names = kGemmaNames,
    .describe = gemma::describe_gemma3_with_images,
    .gguf_fields = gemma::gemma3_to_gguf,
    .prefix = "model.",
    .other_prefixes = kTextPrefixes,
};

}  // namespace ballast::model
