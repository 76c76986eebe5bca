#include "model/source/written_spec.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "files/format_version.h"
#include "model/source/sentence_modules.h"

namespace ballast::model {

namespace {

constexpr std::size_t kVersion = 1;

struct BiasField {
  const char* name;
  bool BiasSpec::* flag;
  bool newer = false;  ///< absent from the first files of this version, which then have the family's value
};
constexpr std::array<BiasField, 13> kBiases{{
    {"query", &BiasSpec::query},
    {"key", &BiasSpec::key},
    {"value", &BiasSpec::value},
    {"output_gate", &BiasSpec::output_gate, true},
    {"attention_output", &BiasSpec::attention_output},
    {"latent", &BiasSpec::latent},
    {"mixer_input", &BiasSpec::mixer_input, true},
    {"mixer_output", &BiasSpec::mixer_output, true},
    {"up", &BiasSpec::up},
    {"down", &BiasSpec::down},
    {"router", &BiasSpec::router, true},
    {"head", &BiasSpec::head},
    {"head_transform", &BiasSpec::head_transform, true},
}};

constexpr std::array<std::pair<const char*, Pooling>, 3> kWrittenPoolings{
    {{"mean", Pooling::kMean}, {"cls", Pooling::kFirst}, {"last", Pooling::kLast}}};

const char* written_pooling(Pooling pooling) {
  return std::ranges::find(kWrittenPoolings, pooling, &std::pair<const char*, Pooling>::second)->first;
}

Pooling read_written_pooling(const files::JsonReader& config) {
  const std::string name = config.text("pooling");
  for (const auto& [known, pooling] : kWrittenPoolings) {
    if (name == known) return pooling;
  }
  config.fail("pooling", "must be 'mean', 'cls' or 'last'");
}

using Function = ClassifierSpec::Function;
constexpr std::array<std::pair<const char*, Function>, 3> kWrittenFunctions{
    {{"none", Function::kNone}, {"sigmoid", Function::kSigmoid}, {"softmax", Function::kSoftmax}}};

/// Reads a JSON object that is written as text.
std::string read_template_arguments_text(const files::JsonReader& config) {
  constexpr const char* kField = "template_arguments";
  const std::string text = config.text(kField, "");
  if (text.empty()) return text;
  const nlohmann::json arguments = nlohmann::json::parse(text, nullptr, false);
  if (!arguments.is_object()) config.fail(kField, "is no JSON object");
  check_template_arguments({arguments, config.context() + ": " + kField});
  return text;
}

/// Reads what files beside the original's config.json say about the classifier.
void read_classifier(const files::JsonReader& config, ModelSpec& spec) {
  if (config.has("token")) {
    const auto most = static_cast<int>(spec.vocab_size) - 1;
    TokenScoreSpec score{.token = config.at("token").integer<int>(0, most)};
    if (config.has("other_token")) score.other_token = config.at("other_token").integer<int>(0, most);
    score.instruction = config.text("instruction", "");
    score.template_arguments = read_template_arguments_text(config);
    spec.classifier = ClassifierSpec{.labels = {"LABEL_0"}, .pooling = Pooling::kLast, .token_score = std::move(score)};
  }
  if (!spec.classifier) config.fail("function", "config.json names no class with a classifier");
  const std::string name = config.text("function");
  const auto known = std::ranges::find(kWrittenFunctions, name, [](const auto& entry) { return entry.first; });
  if (known == kWrittenFunctions.end()) config.fail("function", "must be 'none', 'sigmoid' or 'softmax'");
  spec.classifier->function = known->second;
}

nlohmann::json written_classifier(const ClassifierSpec& classifier) {
  const auto function =
      std::ranges::find(kWrittenFunctions, classifier.function, [](const auto& entry) { return entry.second; });
  nlohmann::json written = {{"function", function->first}};
  if (!classifier.token_score) return written;
  const TokenScoreSpec& score = *classifier.token_score;
  written["token"] = score.token;
  if (score.other_token) written["other_token"] = *score.other_token;
  if (!score.instruction.empty()) written["instruction"] = score.instruction;
  if (!score.template_arguments.empty()) written["template_arguments"] = score.template_arguments;
  return written;
}

bool has_output_gate(const ModelSpec& spec) {
  return std::ranges::any_of(spec.layers, [](const LayerSpec& layer) {
    return layer.attention() != nullptr && layer.attention()->output_gate;
  });
}

std::vector<TextPrompt> read_written_prompts(const files::JsonReader& config) {
  std::vector<TextPrompt> prompts;
  if (!config.has("prompts")) return prompts;
  const files::JsonReader written = config.object("prompts");
  for (const auto& member : written.json().items()) {
    prompts.push_back({.name = member.key(), .text = written.text(member.key())});
  }
  return prompts;
}

/// Reads the field `text_vectors`. The dense modules have been read before, from files of their own.
void read_text_vectors(const files::JsonReader& config, ModelSpec& spec) {
  std::vector<TextDenseSpec> dense;
  if (spec.text_vectors) dense = std::move(spec.text_vectors->dense);
  const std::size_t written = config.count("dense_modules", 0);
  if (written != dense.size()) {
    config.fail("dense_modules", "says " + std::to_string(written) + ", but modules.json beside it names " +
                                     std::to_string(dense.size()) + ": files of the model are missing");
  }
  spec.text_vectors = TextVectorSpec{.pooling = read_written_pooling(config),
                                     .normalized = config.flag("normalized"),
                                     .most_tokens = config.count("most_tokens"),
                                     .dense = std::move(dense),
                                     .prompts = read_written_prompts(config),
                                     .default_prompt = config.text("default_prompt", "")};
}

}  // namespace

nlohmann::json written_spec(const ModelSpec& spec) {
  nlohmann::json biases = nlohmann::json::object();
  for (const BiasField& field : kBiases) biases[field.name] = spec.biases.*field.flag;
  if (!spec.head_transform) biases.erase("head_transform");
  if (!has_output_gate(spec)) biases.erase("output_gate");
  nlohmann::json written = {{"version", kVersion},
                            {"norm", spec.norm.kind == NormSpec::Kind::kRms ? "rms" : "layer"},
                            {"norm_bias", spec.norm.bias},
                            {"biases", biases}};
  if (!spec.has_head) written["head"] = false;
  // Some families derive the scale from the type of the original's weights, which is lost.
  if (spec.embedding_scale != 1.0) written["embedding_scale"] = spec.embedding_scale;
  // T5's depends on whether the original's head was its embedding.
  if (spec.encoder) written["logit_scale"] = spec.logit_scale;
  if (spec.token_inputs) written["token_table_scale"] = spec.token_inputs->table_scale;
  if (spec.text_vectors) {
    written["text_vectors"] = {{"pooling", written_pooling(spec.text_vectors->pooling)},
                               {"normalized", spec.text_vectors->normalized},
                               {"most_tokens", spec.text_vectors->most_tokens}};
    const std::size_t dense = spec.text_vectors->dense.size();
    if (dense > 0) written["text_vectors"]["dense_modules"] = dense;
    for (const TextPrompt& prompt : spec.text_vectors->prompts) {
      written["text_vectors"]["prompts"][prompt.name] = prompt.text;
    }
    const std::string& usual = spec.text_vectors->default_prompt;
    if (!usual.empty()) written["text_vectors"]["default_prompt"] = usual;
  }
  if (spec.classifier) written["classifier"] = written_classifier(*spec.classifier);
  return written;
}

std::optional<std::vector<int>> read_massive_tokens(const files::JsonReader& config) {
  if (!config.has(kMassiveTokensField)) return {};
  return config.at(kMassiveTokensField).integers<int>(-1);
}

void read_written_spec(const files::JsonReader& config, ModelSpec& spec) {
  files::check_format_version(config, kVersion);
  const std::string norm = config.text("norm", "");
  if (norm != "rms" && norm != "layer") config.fail("norm", "must be 'rms' or 'layer'");
  spec.norm.kind = norm == "rms" ? NormSpec::Kind::kRms : NormSpec::Kind::kLayer;
  spec.norm.bias = config.flag("norm_bias");
  spec.norm.gain = true;
  for_each_attention(spec, [](AttentionSpec& attention) {
    if (attention.query_key_norm) attention.query_key_norm->gain = true;
  });
  spec.norm.gain_offset = 0;
  if (!config.flag("head", true)) {
    spec.has_head = false;
    spec.tied_embeddings = true;
  }
  spec.embedding_scale = config.positive("embedding_scale", spec.embedding_scale);
  spec.logit_scale = config.positive("logit_scale", spec.logit_scale);
  if (spec.token_inputs) {
    spec.token_inputs->table_scale = config.positive("token_table_scale", spec.token_inputs->table_scale);
  }
  if (config.has("classifier")) read_classifier(config.object("classifier"), spec);
  if (config.has("text_vectors")) read_text_vectors(config.object("text_vectors"), spec);
  const files::JsonReader biases = config.object("biases");
  // The first files of this version have one flag for the biases of queries and gates.
  if (has_output_gate(spec)) spec.biases.output_gate = biases.flag("query");
  for (const BiasField& field : kBiases) {
    bool& flag = spec.biases.*field.flag;
    flag = field.newer ? biases.flag(field.name, flag) : biases.flag(field.name);
  }
}

}  // namespace ballast::model
