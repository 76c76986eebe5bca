// nanochat: RMSNorms without gains, also of the embeddings and of each head after its rotation, which goes backwards;
// squared ReLU, capped logits.
#include <array>

#include "model/arch/architectures.h"
#include "model/arch/decoder_config.h"

namespace ballast::model {

namespace nanochat {
namespace {

// Names of the norms. They are those of the Llama line except for the first; ballast writes the gains that folds create
// under these names.
constexpr std::array<TensorNames, 3> kOwnNames{{
    {Role::kEmbeddingNorm, "model.embedding_norm", ""},
    {Role::kUp, "model.layers.{}.mlp.fc1", ""},
    {Role::kDown, "model.layers.{}.mlp.fc2", ""},
}};
constexpr auto kNames = joined_names(kOwnNames, kLlamaNames);

ModelSpec describe(const files::JsonReader& config) {
  constexpr double kCap = 15.0;
  DecoderConfig decoder = read_llama_line(config, {.activation = "relu2"});
  ModelSpec& spec = decoder.spec;
  spec.norm.gain = false;
  spec.embedding_norm = true;
  const bool uncapped = config.json().contains("final_logit_softcapping") && !config.has("final_logit_softcapping");
  if (!uncapped) spec.logit_cap = config.positive("final_logit_softcapping", kCap);
  read_attention_biases(config, spec.biases);
  decoder.attention.query_key_norm = HeadNormSpec{.after_rotation = true};
  decoder.attention.rope->backwards = true;
  decoder.mlp.gated = false;
  return decoder.finish();
}

}  // namespace
}  // namespace nanochat

constinit const Architecture kNanoChat = {
    .model_type = "nanochat",
    .names = nanochat::kNames,
    .describe = nanochat::describe,
};

}  // namespace ballast::model
