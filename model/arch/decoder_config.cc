#include "model/arch/decoder_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

namespace ballast::model {

namespace {

struct ActivationName {
  std::string_view name;
  Activation activation;
};
constexpr std::array<ActivationName, 10> kActivations{{
    {"silu", Activation::kSilu},
    {"swish", Activation::kSilu},
    {"gelu", Activation::kGelu},
    {"gelu_new", Activation::kGeluTanh},
    {"gelu_fast", Activation::kGeluTanh},
    {"gelu_pytorch_tanh", Activation::kGeluTanh},
    {"quick_gelu", Activation::kGeluSigmoid},
    {"relu", Activation::kRelu},
    {"relu2", Activation::kReluSquared},
    {"tanh", Activation::kTanh},
}};

}  // namespace

files::JsonReader text_config(const files::JsonReader& config) {
  return config.has("text_config") ? config.object("text_config") : config;
}

ModelSpec spec_of_whole(const files::JsonReader& config, ModelSpec text) {
  text.tied_embeddings = config.flag("tie_word_embeddings", text.tied_embeddings);
  return text;
}

ModelSpec DecoderConfig::finish() const {
  ModelSpec finished = spec;
  finished.layers.assign(layers, {.mixer = attention, .mlp = mlp});
  return finished;
}

std::size_t read_layer_count(const files::JsonReader& config, std::string_view field) {
  constexpr std::size_t kMostLayers = 65536;
  const std::size_t layers = config.size(field);
  if (layers > kMostLayers) config.fail(field, std::to_string(layers) + " blocks are more than any model has");
  return layers;
}

DecoderConfig read_sizes(const files::JsonReader& config, std::size_t default_context, bool tied_by_default) {
  DecoderConfig decoder;
  decoder.layers = read_layer_count(config, "num_hidden_layers");
  decoder.spec.hidden_size = config.size("hidden_size");
  decoder.spec.vocab_size = config.size("vocab_size");
  decoder.spec.context_length = config.size("max_position_embeddings", default_context);
  // Configurations of mixtures without a plain MLP lack its size.
  const bool plain = config.has("intermediate_size") || !config.has("moe_intermediate_size");
  decoder.mlp.size = config.size(plain ? "intermediate_size" : "moe_intermediate_size");
  decoder.spec.tied_embeddings = config.flag("tie_word_embeddings", tied_by_default);
  return decoder;
}

DecoderConfig read_llama_line(const files::JsonReader& config, const LlamaLineDefaults& defaults) {
  DecoderConfig decoder = read_sizes(config, defaults.context, defaults.tied_embeddings);
  // The flag is false for decoders that were trained further into encoders of texts: gte-Qwen2.
  decoder.spec.causal = config.flag("is_causal", true);
  decoder.spec.norm.epsilon = config.positive("rms_norm_eps", defaults.epsilon);
  decoder.mlp.activation = read_activation(config, "hidden_act", defaults.activation);
  decoder.attention = read_heads(config, "num_attention_heads", "num_key_value_heads", decoder.spec.hidden_size,
                                 "head_dim", defaults.heads);
  decoder.attention.rope = read_rope(config, decoder.attention.head_size, defaults.rope);
  return decoder;
}

namespace {

constexpr const char* kClasses = "architectures";
constexpr std::string_view kOfTexts = "ForSequenceClassification";
constexpr std::string_view kOfTokens = "ForTokenClassification";

/// Returns the names of the labels, which config.json has as {"0": "negative", "1": "positive"}; without them as many
/// as `num_labels` says, at first two.
std::vector<std::string> read_labels(const files::JsonReader& config) {
  constexpr std::size_t kMostLabels = 1 << 20;
  std::vector<std::string> labels;
  if (!config.has("id2label")) {
    const std::size_t count = config.size("num_labels", 2);
    if (count > kMostLabels) config.fail("num_labels", std::to_string(count) + " labels are too many");
    for (std::size_t i = 0; i < count; ++i) labels.push_back("LABEL_" + std::to_string(i));
    return labels;
  }
  const files::JsonReader names = config.object("id2label");
  labels.resize(names.json().size());
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = names.text(std::to_string(i));
  if (labels.empty()) config.fail("id2label", "has no labels");
  return labels;
}

/// Returns the function of the scores of sentence-transformers' CrossEncoder, if the configuration names it.
std::optional<ClassifierSpec::Function> read_cross_encoder_function(const files::JsonReader& config) {
  constexpr std::string_view kOlder = "sbert_ce_default_activation_function";
  constexpr std::string_view kNewer = "sentence_transformers";
  if (config.has(kNewer) && config.object(kNewer).has("activation_fn")) {
    return read_torch_function(config.object(kNewer), "activation_fn");
  }
  if (config.has(kOlder)) return read_torch_function(config, kOlder);
  return {};
}

/// Returns the function that transformers' pipelines apply.
ClassifierSpec::Function read_score_function(const files::JsonReader& config, const ClassifierSpec& classifier) {
  using Function = ClassifierSpec::Function;
  if (classifier.of_tokens) return Function::kSoftmax;
  if (const std::optional<Function> named = read_cross_encoder_function(config)) return *named;
  const std::string problem = config.text("problem_type", "");
  if (problem == "regression") return Function::kNone;
  const bool independent = problem == "multi_label_classification" || classifier.labels.size() == 1;
  return independent ? Function::kSigmoid : Function::kSoftmax;
}

void set_classifier(const files::JsonReader& config, bool of_tokens, ModelSpec& spec) {
  spec.has_head = false;
  spec.tied_embeddings = true;
  spec.classifier = ClassifierSpec{.labels = read_labels(config), .of_tokens = of_tokens};
  spec.classifier->function = read_score_function(config, *spec.classifier);
}

}  // namespace

ClassifierSpec::Function read_torch_function(const files::JsonReader& config, std::string_view field) {
  const std::string name = config.text(field);
  if (name.ends_with(".Sigmoid")) return ClassifierSpec::Function::kSigmoid;
  if (name.ends_with(".Softmax")) return ClassifierSpec::Function::kSoftmax;
  if (name.ends_with(".Identity")) return ClassifierSpec::Function::kNone;
  config.fail(field, "'" + name + "' is not supported; supported: Sigmoid, Softmax, Identity");
}

void read_encoder_heads(const files::JsonReader& config, const EncoderHeads& heads, ModelSpec& spec) {
  const std::string masked = heads.name + "ForMaskedLM";
  std::string written = masked;
  if (config.has(kClasses)) {
    const std::vector<std::string> classes = config.at(kClasses).strings();
    if (classes.size() != 1) config.fail(kClasses, "must name one class");
    written = classes.front();
  }
  spec.has_head = written == masked || (heads.pretraining && written == heads.name + "ForPreTraining");
  if (spec.has_head) {
    spec.head_transform = heads.masked_words;
    spec.biases.head = spec.biases.head_transform = true;
    return;
  }
  spec.tied_embeddings = true;
  if (written == heads.name + "Model") return;
  const bool of_tokens = written == heads.name + std::string(kOfTokens);
  if (!of_tokens && written != heads.name + std::string(kOfTexts)) {
    config.fail(kClasses, "'" + written + "' is not supported; supported: " + heads.name + "Model, " + masked + ", " +
                              heads.name + std::string(kOfTexts) + ", " + heads.name + std::string(kOfTokens));
  }
  set_classifier(config, of_tokens, spec);
  spec.biases.classifier = true;
  if (of_tokens) return;
  spec.classifier->transform = heads.classifier;
  spec.biases.classifier_transform = true;
}

Pooling read_classifier_pooling(const files::JsonReader& config, const std::string& first_token) {
  const std::string name = config.text("classifier_pooling", first_token);
  if (name == first_token) return Pooling::kFirst;
  if (name != "mean") {
    config.fail("classifier_pooling", "'" + name + "' is not supported; supported: mean, " + first_token);
  }
  return Pooling::kMean;
}

void read_decoder_classifier(const files::JsonReader& config, ModelSpec& spec) {
  if (!config.has(kClasses)) return;
  for (const std::string& written : config.at(kClasses).strings()) {
    const bool of_tokens = written.ends_with(kOfTokens);
    if (!of_tokens && !written.ends_with(kOfTexts)) continue;
    set_classifier(config, of_tokens, spec);
    spec.classifier->pooling = Pooling::kLast;
    spec.biases.classifier = of_tokens;
  }
}

void make_bert_like(const files::JsonReader& config, const EncoderHeads& heads, DecoderConfig& encoder,
                    std::string_view positions) {
  ModelSpec& spec = encoder.spec;
  spec.norm.kind = NormSpec::Kind::kLayer;
  spec.norm.bias = true;
  spec.layout = BlockLayout::kPostNorm;
  spec.causal = false;
  spec.learned_positions = true;
  spec.embedding_norm = true;
  encoder.mlp.gated = false;
  spec.biases = {.query = true, .key = true, .value = true, .attention_output = true, .up = true, .down = true};
  read_encoder_heads(config, heads, spec);
  if (config.flag("is_decoder", false)) config.fail("is_decoder", "true is not supported");
  const std::string written = config.text("position_embedding_type", std::string(positions));
  if (written == positions) return;
  config.fail("position_embedding_type", "'" + written + "' is not supported; supported: " + std::string(positions));
}

void read_attention_biases(const files::JsonReader& config, BiasSpec& biases) {
  biases.query = biases.key = biases.value = biases.attention_output = config.flag("attention_bias", false);
}

void read_llama_biases(const files::JsonReader& config, BiasSpec& biases) {
  read_attention_biases(config, biases);
  biases.up = biases.down = config.flag("mlp_bias", false);
}

AttentionSpec read_heads(const files::JsonReader& config, std::string_view heads, std::string_view kv_heads,
                         std::size_t hidden_size, std::string_view head_size, const HeadDefaults& defaults) {
  AttentionSpec attention;
  attention.heads = config.size(heads);
  // A field that is null means the value derived from the sizes.
  const auto fallback = [&](std::string_view field, std::size_t by_class, std::size_t by_sizes) {
    return by_class == 0 || config.json().contains(field) ? by_sizes : by_class;
  };
  attention.kv_heads = config.size(kv_heads, fallback(kv_heads, defaults.kv_heads, attention.heads));
  if (attention.heads % attention.kv_heads != 0) {
    config.fail(kv_heads, std::to_string(attention.kv_heads) + " does not divide the " +
                              std::to_string(attention.heads) + " attention heads");
  }
  const bool given = !head_size.empty() && config.has(head_size);
  const std::size_t otherwise = fallback(head_size, defaults.head_size, 0);
  if (!given && otherwise == 0 && hidden_size % attention.heads != 0) {
    config.fail(heads, "must divide the hidden size" +
                           (head_size.empty() ? "" : " when " + std::string(head_size) + " is not given"));
  }
  attention.head_size = given ? config.size(head_size) : otherwise != 0 ? otherwise : hidden_size / attention.heads;
  attention.value_size = attention.head_size;
  attention.scale = 1.0 / std::sqrt(static_cast<double>(attention.head_size));
  return attention;
}

ExpertSpec read_experts(const files::JsonReader& config, std::string_view count, std::string_view size,
                        std::string_view per_token) {
  // No model has more experts. The limit keeps a wrong number from taking memory before any tensor is read.
  constexpr std::size_t kMostExperts = 65536;
  ExpertSpec experts;
  experts.count = config.size(count);
  if (experts.count > kMostExperts) config.fail(count, "must be at most " + std::to_string(kMostExperts));
  experts.size = config.size(size);
  experts.per_token = config.size(per_token);
  if (experts.per_token > experts.count) config.fail(per_token, "is more than the number of experts");
  return experts;
}

void set_sparse_layers(const files::JsonReader& config, const ExpertSpec& experts, ModelSpec& spec) {
  const std::size_t step = config.size("decoder_sparse_step", 1);
  std::vector<std::size_t> plain;
  if (config.has("mlp_only_layers")) plain = config.at("mlp_only_layers").integers<std::size_t>();
  for (std::size_t layer = 0; layer < spec.layers.size(); ++layer) {
    if ((layer + 1) % step != 0 || std::ranges::find(plain, layer) != plain.end()) continue;
    spec.layers[layer].mlp.experts = experts;
  }
}

Activation read_activation(const files::JsonReader& config, std::string_view field, std::string_view fallback) {
  const std::string name = config.text(field, fallback);
  std::string known;
  for (const ActivationName& entry : kActivations) {
    if (entry.name == name) return entry.activation;
    known += (known.empty() ? "" : ", ") + std::string(entry.name);
  }
  config.fail(field, "'" + name + "' is not supported; supported: " + known);
}

std::vector<std::size_t> read_windows(const files::JsonReader& config, std::size_t layers) {
  const bool none = config.json().contains("sliding_window") && !config.has("sliding_window");
  if (none) return {};
  std::vector<std::size_t> windows(layers, config.size("sliding_window", 4096));
  if (!config.has("layer_types")) return windows;
  const std::vector<bool> sliding =
      read_layers_of_type(config, layers, "sliding_attention", {"full_attention", "sliding_attention"});
  for (std::size_t layer = 0; layer < layers; ++layer) {
    if (!sliding[layer]) windows[layer] = 0;
  }
  return windows;
}

std::vector<std::size_t> read_windows_above(const files::JsonReader& config, std::size_t layers) {
  std::vector<std::size_t> windows = read_windows(config, layers);
  if (config.has("layer_types")) return windows;
  const std::size_t full = config.count("max_window_layers", 28);
  std::fill_n(windows.begin(), std::min(windows.size(), full), 0);
  return windows;
}

void set_windows(ModelSpec& spec, const std::vector<std::size_t>& windows) {
  if (!spec.causal && std::ranges::any_of(windows, [](std::size_t window) { return window > 0; })) {
    throw Error("config.json: is_causal", "false with a window of attention is not supported");
  }
  for (std::size_t layer = 0; layer < windows.size(); ++layer) spec.layers[layer].attention()->window = windows[layer];
}

void set_uniform_window(const files::JsonReader& config, std::optional<std::size_t> window_by_default,
                        ModelSpec& spec) {
  std::vector<std::size_t> windows;
  if (config.has("sliding_window")) {
    windows.assign(spec.layers.size(), config.size("sliding_window"));
  } else if (window_by_default && !config.json().contains("sliding_window")) {
    windows.assign(spec.layers.size(), *window_by_default);
  }
  if (!windows.empty()) check_layer_types(config, spec.layers.size(), {"sliding_attention"});
  set_windows(spec, windows);
}

std::vector<bool> read_rotated_layers(const files::JsonReader& config, std::size_t layers, EmptyList empty) {
  std::vector<bool> rotated(layers);
  std::vector<int> flags;
  if (config.has("no_rope_layers")) flags = config.at("no_rope_layers").integers<int>(0, 1);
  if (!config.has("no_rope_layers") || (flags.empty() && empty == EmptyList::kAbsent)) {
    const std::size_t interval = config.size("no_rope_layer_interval", 4);
    for (std::size_t layer = 0; layer < layers; ++layer) rotated[layer] = (layer + 1) % interval != 0;
    return rotated;
  }
  if (flags.size() < layers) {
    config.fail("no_rope_layers",
                "has " + std::to_string(flags.size()) + " entries for " + std::to_string(layers) + " layers");
  }
  for (std::size_t layer = 0; layer < layers; ++layer) rotated[layer] = flags[layer] != 0;
  return rotated;
}

std::size_t read_window(const files::JsonReader& config, std::size_t fallback) {
  return config.json().contains("sliding_window") ? config.size("sliding_window") : fallback;
}

std::vector<bool> read_sliding_layers(const files::JsonReader& config, std::size_t layers,
                                      std::size_t default_pattern) {
  if (config.has("layer_types")) {
    return read_layers_of_type(config, layers, "sliding_attention", {"full_attention", "sliding_attention"});
  }
  const std::size_t pattern = config.size("sliding_window_pattern", default_pattern);
  std::vector<bool> sliding(layers);
  for (std::size_t layer = 0; layer < layers; ++layer) sliding[layer] = (layer + 1) % pattern != 0;
  return sliding;
}

void set_layer_types(const std::vector<bool>& sliding, std::size_t window, const RopeSpec& local,
                     const std::optional<RopeSpec>& global, ModelSpec& spec) {
  for (std::size_t layer = 0; layer < sliding.size(); ++layer) {
    AttentionSpec& attention = *spec.layers[layer].attention();
    attention.window = sliding[layer] ? window : 0;
    attention.rope = sliding[layer] ? local : global;
  }
}

std::vector<bool> read_layers_of_type(const files::JsonReader& config, std::size_t layers, std::string_view type,
                                      std::initializer_list<std::string_view> known) {
  check_layer_types(config, layers, known);
  std::vector<bool> of_type;
  for (const std::string& named : config.at("layer_types").strings()) of_type.push_back(named == type);
  return of_type;
}

void check_layer_types(const files::JsonReader& config, std::size_t layers,
                       std::initializer_list<std::string_view> known) {
  if (!config.has("layer_types")) return;
  std::string list;
  for (const std::string_view name : known) list += (list.empty() ? "" : ", ") + std::string(name);
  const std::vector<files::JsonReader> types = config.at("layer_types").elements();
  for (const files::JsonReader& type : types) {
    if (std::ranges::find(known, type.string()) != known.end()) continue;
    type.fail("'" + type.string() + "' is not supported; supported: " + list);
  }
  if (types.size() != layers) {
    config.fail("layer_types",
                "has " + std::to_string(types.size()) + " entries for " + std::to_string(layers) + " layers");
  }
}

}  // namespace ballast::model
