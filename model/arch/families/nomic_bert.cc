// Encoders like BERT with rotation instead of learned positions: Nomic BERT and GTE with gated MLPs, and Jina
// Embeddings v3. `new` is the name of GTE in checkpoints of its authors' own code.
#include <array>
#include <cmath>
#include <string>
#include <string_view>

#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"
#include "model/arch/rope_config.h"

namespace ballast::model {

namespace nomic_bert {
namespace {

// The second names are those of checkpoints that were written by the authors' own code.
constexpr std::array<TensorNames, 26> kNames{{
    {Role::kEmbedding, "nomic_bert.embeddings.word_embeddings", ""},
    {Role::kTokenTypeEmbedding, "nomic_bert.embeddings.token_type_embeddings", ""},
    {Role::kEmbeddingNorm, "nomic_bert.embeddings.LayerNorm", ""},
    {Role::kEmbeddingNorm, "nomic_bert.emb_ln", ""},
    {Role::kHeadTransform, "cls.predictions.transform.dense", ""},
    {Role::kHeadNorm, "cls.predictions.transform.layer_norm", ""},
    {Role::kHead, "cls.predictions.decoder", ""},
    {Role::kHeadBias, "cls.predictions.decoder.bias", ""},
    {Role::kHeadBias, "cls.predictions.bias", ""},
    {Role::kClassifierTransform, "nomic_bert.pooler.dense", ""},
    {Role::kClassifier, "classifier", ""},
    {Role::kQuery, "nomic_bert.layers.{}.self_attn.q_proj", ""},
    {Role::kKey, "nomic_bert.layers.{}.self_attn.k_proj", ""},
    {Role::kValue, "nomic_bert.layers.{}.self_attn.v_proj", ""},
    {Role::kAttentionOutput, "nomic_bert.layers.{}.self_attn.o_proj", ""},
    {Role::kAttentionOutput, "nomic_bert.encoder.layers.{}.attn.out_proj", ""},
    {Role::kAttentionNorm, "nomic_bert.layers.{}.post_attention_layernorm", ""},
    {Role::kAttentionNorm, "nomic_bert.encoder.layers.{}.norm1", ""},
    {Role::kGate, "nomic_bert.layers.{}.mlp.gate_proj", ""},
    {Role::kGate, "nomic_bert.encoder.layers.{}.mlp.fc12", ""},
    {Role::kUp, "nomic_bert.layers.{}.mlp.up_proj", ""},
    {Role::kUp, "nomic_bert.encoder.layers.{}.mlp.fc11", ""},
    {Role::kDown, "nomic_bert.layers.{}.mlp.down_proj", ""},
    {Role::kDown, "nomic_bert.encoder.layers.{}.mlp.fc2", ""},
    {Role::kMlpNorm, "nomic_bert.layers.{}.post_mlp_layernorm", ""},
    {Role::kMlpNorm, "nomic_bert.encoder.layers.{}.norm2", ""},
}};

constexpr std::array kAttentionParts = {Role::kQuery, Role::kKey, Role::kValue};
constexpr std::array<FusedTensor, 1> kFused{{{"nomic_bert.encoder.layers.{}.attn.Wqkv", "", kAttentionParts}}};

constexpr std::array<TensorNames, 26> kGteNames{{
    {Role::kEmbedding, "gte.embeddings.word_embeddings", ""},
    {Role::kTokenTypeEmbedding, "gte.embeddings.token_type_embeddings", ""},
    {Role::kEmbeddingNorm, "gte.embeddings.LayerNorm", ""},
    {Role::kHeadTransform, "lm_head.dense", ""},
    {Role::kHeadNorm, "lm_head.layer_norm", ""},
    {Role::kHeadNorm, "lm_head.norm", ""},
    {Role::kHead, "lm_head.decoder", ""},
    {Role::kHeadBias, "lm_head.decoder.bias", ""},
    {Role::kClassifierTransform, "gte.pooler.dense", ""},
    {Role::kClassifier, "classifier", ""},
    {Role::kQuery, "gte.layers.{}.self_attn.q_proj", ""},
    {Role::kQuery, "gte.encoder.layer.{}.attention.q_proj", ""},
    {Role::kKey, "gte.layers.{}.self_attn.k_proj", ""},
    {Role::kKey, "gte.encoder.layer.{}.attention.k_proj", ""},
    {Role::kValue, "gte.layers.{}.self_attn.v_proj", ""},
    {Role::kValue, "gte.encoder.layer.{}.attention.v_proj", ""},
    {Role::kAttentionOutput, "gte.layers.{}.self_attn.o_proj", ""},
    {Role::kAttentionOutput, "gte.encoder.layer.{}.attention.o_proj", ""},
    {Role::kAttentionNorm, "gte.layers.{}.post_attention_layernorm", ""},
    {Role::kAttentionNorm, "gte.encoder.layer.{}.attn_ln", ""},
    {Role::kGate, "gte.layers.{}.mlp.gate_proj", ""},
    {Role::kUp, "gte.layers.{}.mlp.up_proj", ""},
    {Role::kDown, "gte.layers.{}.mlp.down_proj", ""},
    {Role::kDown, "gte.encoder.layer.{}.mlp.down_proj", ""},
    {Role::kMlpNorm, "gte.layers.{}.post_mlp_layernorm", ""},
    {Role::kMlpNorm, "gte.encoder.layer.{}.mlp_ln", ""},
}};

constexpr std::array kMlpParts = {Role::kUp, Role::kGate};
constexpr std::array<FusedTensor, 2> kGteFused{{{"gte.encoder.layer.{}.attention.qkv_proj", "", kAttentionParts},
                                                {"gte.encoder.layer.{}.mlp.up_gate_proj", "", kMlpParts}}};

constexpr std::array<TensorNames, 25> kJinaNames{{
    {Role::kEmbedding, "roberta.embeddings.word_embeddings", ""},
    {Role::kTokenTypeEmbedding, "roberta.embeddings.token_type_embeddings", ""},
    {Role::kEmbeddingNorm, "roberta.embeddings.LayerNorm", ""},
    {Role::kEmbeddingNorm, "roberta.emb_ln", ""},
    {Role::kHeadTransform, "lm_head.dense", ""},
    {Role::kHeadNorm, "lm_head.layer_norm", ""},
    {Role::kHead, "lm_head.decoder", ""},
    {Role::kHeadBias, "lm_head.bias", ""},
    {Role::kHeadBias, "lm_head.decoder.bias", ""},
    {Role::kClassifierTransform, "classifier.dense", ""},
    {Role::kClassifier, "classifier.out_proj", ""},
    {Role::kClassifier, "classifier", ""},
    {Role::kQuery, "roberta.layers.{}.self_attn.q_proj", ""},
    {Role::kKey, "roberta.layers.{}.self_attn.k_proj", ""},
    {Role::kValue, "roberta.layers.{}.self_attn.v_proj", ""},
    {Role::kAttentionOutput, "roberta.layers.{}.self_attn.o_proj", ""},
    {Role::kAttentionOutput, "roberta.encoder.layers.{}.mixer.out_proj", ""},
    {Role::kAttentionNorm, "roberta.layers.{}.post_attention_layernorm", ""},
    {Role::kAttentionNorm, "roberta.encoder.layers.{}.norm1", ""},
    {Role::kUp, "roberta.layers.{}.mlp.fc1", ""},
    {Role::kUp, "roberta.encoder.layers.{}.mlp.fc1", ""},
    {Role::kDown, "roberta.layers.{}.mlp.fc2", ""},
    {Role::kDown, "roberta.encoder.layers.{}.mlp.fc2", ""},
    {Role::kMlpNorm, "roberta.layers.{}.post_mlp_layernorm", ""},
    {Role::kMlpNorm, "roberta.encoder.layers.{}.norm2", ""},
}};

constexpr std::array<FusedTensor, 1> kJinaFused{{{"roberta.encoder.layers.{}.mixer.Wqkv", "", kAttentionParts}}};

constexpr std::array<std::string_view, 2> kGtePrefixes = {"new.", ""};

/// A family's name in its classes, and its defaults.
struct Family {
  std::string name;
  std::size_t context;
  std::string_view activation;
  double epsilon = 1e-12;
  double theta;
  std::size_t token_types;
};

/// Reads a configuration without its rotation.
DecoderConfig read_unrotated(const files::JsonReader& config, const Family& family,
                             std::string_view positions = "absolute") {
  DecoderConfig encoder = read_sizes(config, family.context, true);
  encoder.mlp.activation = read_activation(config, "hidden_act", family.activation);
  ModelSpec& spec = encoder.spec;
  make_bert_like(config, {.name = family.name, .masked_words = Activation::kGelu}, encoder, positions);
  spec.learned_positions = false;
  spec.norm.epsilon = config.positive("layer_norm_eps", family.epsilon);
  spec.token_types = config.count("type_vocab_size", family.token_types);
  encoder.attention = read_heads(config, "num_attention_heads", "num_attention_heads", spec.hidden_size, "head_dim");
  return encoder;
}

/// Reads a configuration of transformers.
DecoderConfig read_encoder(const files::JsonReader& config, const Family& family) {
  DecoderConfig encoder = read_unrotated(config, family);
  encoder.attention.rope = read_rope(config, encoder.attention.head_size, {.theta = family.theta});
  return encoder;
}

/// Reads the configuration of the authors' own code.
DecoderConfig read_nomic_of_authors(const files::JsonReader& config) {
  DecoderConfig encoder;
  ModelSpec& spec = encoder.spec;
  encoder.layers = read_layer_count(config, "n_layer");
  spec.hidden_size = config.size("n_embd");
  spec.vocab_size = config.size("vocab_size");
  spec.context_length = config.size("n_positions", 8192);
  spec.tied_embeddings = true;
  encoder.mlp.size = config.size("n_inner", 4 * spec.hidden_size);
  make_bert_like(config, {.name = "NomicBert", .masked_words = Activation::kGelu}, encoder);
  spec.learned_positions = false;
  spec.norm.epsilon = config.positive("layer_norm_epsilon", 1e-12);
  spec.token_types = config.count("type_vocab_size", 2);
  encoder.attention = read_heads(config, "n_head", "n_head", spec.hidden_size);
  const std::string activation = config.text("activation_function", "swiglu");
  if (activation != "swiglu")
    config.fail("activation_function", "'" + activation + "' is not supported; supported: swiglu");
  encoder.mlp.activation = Activation::kSilu;
  for (const std::string_view flag : {"prenorm", "parallel_block", "use_rms_norm", "causal", "qkv_proj_bias",
                                      "mlp_fc1_bias", "mlp_fc2_bias", "rotary_emb_interleaved"}) {
    if (config.flag(flag, false)) config.fail(flag, "true is not supported");
  }
  if (config.number("rotary_emb_fraction", 1.0) != 1.0) config.fail("rotary_emb_fraction", "is not 1");
  for (const std::string_view field : {"rotary_emb_scale_base", "rotary_scaling_factor"}) {
    if (config.has(field)) config.fail(field, "is not supported");
  }
  const double theta = config.positive("rotary_emb_base", 1000);
  encoder.attention.rope = RopeSpec{.theta = theta, .rotary_size = encoder.attention.head_size};
  return encoder;
}

ModelSpec describe_nomic(const files::JsonReader& config) {
  const Family family = {.name = "NomicBert", .context = 2048, .activation = "silu", .theta = 1000, .token_types = 2};
  DecoderConfig encoder = config.has("n_embd") ? read_nomic_of_authors(config) : read_encoder(config, family);
  encoder.mlp.gated = true;
  BiasSpec& biases = encoder.spec.biases;
  if (encoder.spec.has_head) encoder.spec.head_transform = encoder.mlp.activation;
  biases.query = biases.key = biases.value = biases.attention_output = biases.up = biases.down = false;
  return encoder.finish();
}

ModelSpec describe_gte(const files::JsonReader& config) {
  DecoderConfig encoder =
      read_encoder(config, {.name = "Gte", .context = 8192, .activation = "gelu", .theta = 160000, .token_types = 1});
  encoder.mlp.gated = true;
  encoder.spec.biases.up = false;
  return encoder.finish();
}

/// Reads the rotation of the authors' own code, whose type "ntk" stretches all texts.
RopeSpec read_rope_of_new(const files::JsonReader& config, double default_theta, std::size_t head_size) {
  constexpr std::string_view kField = "rope_scaling";
  RopeSpec rope = {.theta = config.positive("rope_theta", default_theta), .rotary_size = head_size};
  if (!config.has(kField)) return rope;
  const files::JsonReader scaling = config.object(kField);
  const std::string type = scaling.text("type");
  if (type != "ntk") scaling.fail("type", "'" + type + "' is not supported; supported: ntk");
  if (scaling.has("mixed_b")) scaling.fail("mixed_b", "is not supported");
  const double factor = scaling.positive("factor");
  if (factor <= 1) return rope;
  rope.theta *= factor;
  rope.scaling = RopeSpec::Scaling::kLinear;
  rope.factor = std::pow(factor, 2.0 / static_cast<double>(head_size));
  return rope;
}

ModelSpec describe_new(const files::JsonReader& config) {
  constexpr std::string_view kNorm = "layer_norm_type";
  const Family family = {.name = "New", .context = 2048, .activation = "gelu", .theta = 10000, .token_types = 1};
  DecoderConfig encoder = read_unrotated(config, family, "rope");
  if (config.text(kNorm, "layer_norm") != "layer_norm") config.fail(kNorm, "is not layer_norm");
  if (config.flag("logn_attention_scale", false)) config.fail("logn_attention_scale", "true is not supported");
  if (encoder.spec.has_head) encoder.spec.head_transform = encoder.mlp.activation;
  encoder.spec.biases.up = false;
  encoder.mlp.gated = true;
  encoder.attention.rope = read_rope_of_new(config, family.theta, encoder.attention.head_size);
  return encoder.finish();
}

ModelSpec describe_jina(const files::JsonReader& config) {
  const Family family = {.name = "JinaEmbeddingsV3",
                         .context = 8194,
                         .activation = "gelu",
                         .epsilon = 1e-5,
                         .theta = 20000,
                         .token_types = 1};
  return read_encoder(config, family).finish();
}

}  // namespace
}  // namespace nomic_bert

constinit const Architecture kNomicBert = {
    .model_type = "nomic_bert",
    .names = nomic_bert::kNames,
    .fused = nomic_bert::kFused,
    .describe = nomic_bert::describe_nomic,
    .prefix = "nomic_bert.",
    .other_prefixes = kNoPrefix,
};

constinit const Architecture kGte = {
    .model_type = "gte",
    .names = nomic_bert::kGteNames,
    .fused = nomic_bert::kGteFused,
    .describe = nomic_bert::describe_gte,
    .prefix = "gte.",
    .other_prefixes = nomic_bert::kGtePrefixes,
};

constinit const Architecture kNew = {
    .model_type = "new",
    .names = nomic_bert::kGteNames,
    .fused = nomic_bert::kGteFused,
    .describe = nomic_bert::describe_new,
    .prefix = "gte.",
    .other_prefixes = nomic_bert::kGtePrefixes,
};

constinit const Architecture kJinaEmbeddingsV3 = {
    .model_type = "jina_embeddings_v3",
    .names = nomic_bert::kJinaNames,
    .fused = nomic_bert::kJinaFused,
    .describe = nomic_bert::describe_jina,
    .prefix = "roberta.",
    .other_prefixes = kNoPrefix,
};

}  // namespace ballast::model
