#include "model/source/sentence_modules.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <utility>

#include "ballast/error.h"
#include "files/checkpoint.h"
#include "files/config_file.h"
#include "files/json_reader.h"
#include "files/safetensors/safetensors_file.h"
#include "model/arch/decoder_config.h"
#include "model/source/float_linear.h"

namespace ballast::model {

namespace {

constexpr const char* kModulesFile = "modules.json";

constexpr std::array<std::pair<std::string_view, Pooling>, 3> kSentencePoolings{
    {{"cls", Pooling::kFirst}, {"mean", Pooling::kMean}, {"lasttoken", Pooling::kLast}}};
constexpr std::array kFlags = {
    "pooling_mode_cls_token",  "pooling_mode_mean_tokens",          "pooling_mode_lasttoken",
    "pooling_mode_max_tokens", "pooling_mode_mean_sqrt_len_tokens", "pooling_mode_weightedmean_tokens"};

/// Reads the kind of pooling: newer files name it, older ones have a flag for each kind.
Pooling read_sentence_pooling(const files::JsonReader& config) {
  std::optional<Pooling> found;
  if (config.has("pooling_mode")) {
    const std::string mode = config.text("pooling_mode");
    for (const auto& [name, pooling] : kSentencePoolings) {
      if (mode == name) found = pooling;
    }
    if (!found) config.fail("pooling_mode", "'" + mode + "' is not supported; supported: cls, mean, lasttoken");
    return *found;
  }
  for (std::size_t i = 0; i < kFlags.size(); ++i) {
    if (!config.flag(kFlags[i], false)) continue;
    if (i >= kSentencePoolings.size()) config.fail(kFlags[i], "is not supported; supported: cls, mean, lasttoken");
    if (found) config.fail(kFlags[i], "several kinds of pooling together are not supported");
    found = kSentencePoolings[i].second;
  }
  if (!found) config.fail("says no kind of pooling");
  return *found;
}

constexpr const char* kSentenceFile = "config_sentence_transformers.json";

/// Reads the prompts, in the order of their names.
void read_prompts(const std::filesystem::path& directory, TextVectorSpec& spec) {
  if (!std::filesystem::exists(directory / kSentenceFile)) return;
  const files::ConfigFile file(directory / kSentenceFile);
  const files::JsonReader config = file.reader();
  if (config.has("prompts")) {
    const files::JsonReader prompts = config.object("prompts");
    for (const auto& member : prompts.json().items()) {
      spec.prompts.push_back({.name = member.key(), .text = prompts.text(member.key())});
    }
  }
  if (!config.has("default_prompt_name")) return;
  spec.default_prompt = config.text("default_prompt_name");
  if (std::ranges::find(spec.prompts, spec.default_prompt, &TextPrompt::name) == spec.prompts.end()) {
    config.fail("default_prompt_name", "'" + spec.default_prompt + "' is not among the prompts");
  }
}

std::size_t read_most_tokens(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / "sentence_bert_config.json";
  if (!std::filesystem::exists(path)) return 0;
  const files::ConfigFile file(path);
  return file.reader().has("max_seq_length") ? file.reader().size("max_seq_length") : 0;
}

/// Returns the last part of the name of a module's class.
std::string module_kind(const files::JsonReader& module) {
  const std::string type = module.text("type");
  return type.substr(type.rfind('.') + 1);
}

/// Returns the folder of a module's files. It must be beside modules.json, because it is copied with the model.
std::string read_folder(const files::JsonReader& module) {
  const std::string folder = module.text("path");
  const bool plain = !folder.empty() && folder != "." && folder != ".." && folder.find('/') == std::string::npos;
  if (!plain) module.fail("path", "'" + folder + "' is no folder beside this file");
  return folder;
}

TextDenseSpec read_dense(const std::filesystem::path& directory, const std::string& folder) {
  const files::ConfigFile file(directory / folder / "config.json");
  const files::JsonReader config = file.reader();
  TextDenseSpec dense{.folder = folder,
                      .inputs = config.size("in_features"),
                      .outputs = config.size("out_features"),
                      .bias = config.flag("bias", true)};
  const std::string function = config.text("activation_function", "torch.nn.modules.activation.Tanh");
  const std::string name = function.substr(function.rfind('.') + 1);
  dense.tanh = name == "Tanh";
  if (!dense.tanh && name != "Identity") {
    config.fail("activation_function", "'" + function + "' is not supported; supported: Identity, Tanh");
  }
  for (const char* field : {"module_input_name", "module_output_name"}) {
    const std::string read = config.text(field, "sentence_embedding");
    if (read != "sentence_embedding") {
      config.fail(field, "'" + read + "' is not supported; supported: sentence_embedding");
    }
  }
  return dense;
}

constexpr const char* kDenseFile = "model.safetensors";

/// Returns the values of a tensor of a dense module.
std::vector<float> read_tensor(const files::SafetensorsFile& file, const char* name, const Shape& shape) {
  return checked_values(file.tensor(name), file.path().string() + ": " + name, shape, "the module's config.json gives");
}

Linear read_dense_linear(const std::filesystem::path& directory, const TextDenseSpec& spec,
                         const ComputeOptions& compute) {
  const files::SafetensorsFile file(directory / spec.folder / kDenseFile);
  const auto outputs = static_cast<std::int64_t>(spec.outputs);
  const Shape shape = {outputs, static_cast<std::int64_t>(spec.inputs)};
  Linear linear = float_linear(spec.folder, read_tensor(file, "linear.weight", shape), shape, compute);
  if (spec.bias) linear.bias = read_tensor(file, "linear.bias", {outputs});
  return linear;
}

/// Reads the modules of a directory in their order.
class ModuleReader {
 public:
  explicit ModuleReader(const std::filesystem::path& directory)
      : directory_(directory), spec_{.normalized = false, .most_tokens = read_most_tokens(directory)} {}

  void read(const files::JsonReader& module) {
    const std::string name = module_kind(module);
    if (name == "Pooling") {
      const files::ConfigFile file(directory_ / module.text("path") / "config.json");
      spec_.pooling = read_sentence_pooling(file.reader());
      pools_prompts_ = file.reader().flag("include_prompt", true);
      pooling_ = module;
    } else if (name == "Dense") {
      if (!pooling_ || spec_.normalized) module.fail("type", "a Dense module must follow Pooling, before Normalize");
      read_folder(*pooling_);
      spec_.dense.push_back(read_dense(directory_, read_folder(module)));
    } else if (name == "Normalize") {
      spec_.normalized = true;
    } else if (name != "Transformer") {
      module.fail("type",
                  "'" + module.text("type") + "' is not supported; supported: Transformer, Pooling, Dense, Normalize");
    }
  }

  /// Returns the modules' spec with the prompts. Vectors without the prompts' tokens are not supported.
  TextVectorSpec spec() const {
    TextVectorSpec spec = spec_;
    if (pools_prompts_) read_prompts(directory_, spec);
    return spec;
  }

 private:
  std::filesystem::path directory_;
  TextVectorSpec spec_;
  std::optional<files::JsonReader> pooling_;
  bool pools_prompts_ = true;
};

}  // namespace

std::optional<TextVectorSpec> read_sentence_modules(const std::filesystem::path& directory, std::size_t hidden_size) {
  const std::filesystem::path path = directory / kModulesFile;
  if (!std::filesystem::exists(path)) return {};
  const files::ConfigFile file(path);
  ModuleReader reader(directory);
  for (const files::JsonReader& module : file.reader().elements()) {
    if (module_kind(module) == "LogitScore") return {};  // a reranker by the probability of a token makes no vectors
    reader.read(module);
  }
  std::size_t size = hidden_size;
  TextVectorSpec spec = reader.spec();
  for (const TextDenseSpec& dense : spec.dense) {
    if (dense.inputs != size) {
      throw Error((directory / dense.folder / "config.json").string(),
                  "in_features: is " + std::to_string(dense.inputs) + ", the vectors before it have " +
                      std::to_string(size) + " values");
    }
    size = dense.outputs;
  }
  return spec;
}

std::optional<ClassifierSpec::Function> read_cross_encoder_function(const std::filesystem::path& directory) {
  if (!std::filesystem::exists(directory / kSentenceFile)) return {};
  const files::ConfigFile file(directory / kSentenceFile);
  if (!file.reader().has("activation_fn")) return {};
  return read_torch_function(file.reader(), "activation_fn");
}

namespace {

/// Returns the folder of the LogitScore module; nullopt if there is none.
std::optional<std::filesystem::path> find_logit_score(const std::filesystem::path& directory) {
  if (!std::filesystem::exists(directory / kModulesFile)) return {};
  const files::ConfigFile file(directory / kModulesFile);
  for (const files::JsonReader& module : file.reader().elements()) {
    if (module_kind(module) == "LogitScore") return directory / read_folder(module);
  }
  return {};
}

int read_vocabulary_token(const files::JsonReader& config, std::string_view field, std::size_t vocab_size) {
  return config.at(field).integer<int>(0, static_cast<int>(vocab_size) - 1);
}

/// Returns the arguments of the chat template as a JSON object; empty without any.
std::string read_template_arguments(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / "sentence_bert_config.json";
  if (!std::filesystem::exists(path)) return {};
  const files::ConfigFile file(path);
  if (!file.reader().has("processing_kwargs")) return {};
  const files::JsonReader all = file.reader().object("processing_kwargs");
  if (!all.has("chat_template")) return {};
  check_template_arguments(all.object("chat_template"));
  return all.object("chat_template").json().dump();
}

}  // namespace

void check_template_arguments(const files::JsonReader& arguments) {
  arguments.flag("add_generation_prompt", false);
}

std::optional<ClassifierSpec> read_token_classifier(const std::filesystem::path& directory, const ModelSpec& spec) {
  const std::optional<std::filesystem::path> folder = find_logit_score(directory);
  if (!folder) return {};
  const files::ConfigFile file(*folder / "config.json");
  const files::JsonReader config = file.reader();
  if (!spec.causal || !spec.has_head) config.fail("needs a decoder with a head");
  if (spec.logit_cap > 0) config.fail("scores of capped logits are not supported");
  TokenScoreSpec score{.token = read_vocabulary_token(config, "true_token_id", spec.vocab_size)};
  if (config.has("false_token_id")) {
    score.other_token = read_vocabulary_token(config, "false_token_id", spec.vocab_size);
  }
  TextVectorSpec prompts;
  read_prompts(directory, prompts);
  const auto instruction = std::ranges::find(prompts.prompts, prompts.default_prompt, &TextPrompt::name);
  if (instruction != prompts.prompts.end()) score.instruction = instruction->text;
  score.template_arguments = read_template_arguments(directory);
  ClassifierSpec classifier{.labels = {"LABEL_0"}, .pooling = Pooling::kLast};
  classifier.function = read_cross_encoder_function(directory).value_or(ClassifierSpec::Function::kSigmoid);
  classifier.token_score = std::move(score);
  return classifier;
}

std::vector<std::filesystem::path> dense_module_files(const std::filesystem::path& directory,
                                                      const TextVectorSpec& spec) {
  if (spec.dense.empty()) return {};
  std::vector<std::filesystem::path> files = {kModulesFile};
  for (const char* name : {"sentence_bert_config.json", kSentenceFile}) {
    if (std::filesystem::exists(directory / name)) files.emplace_back(name);
  }
  const auto add = [&](const std::filesystem::path& file) {
    if (std::ranges::find(files, file) == files.end()) files.push_back(file);
  };
  const files::ConfigFile modules(directory / kModulesFile);
  for (const files::JsonReader& module : modules.reader().elements()) {
    if (module_kind(module) == "Pooling") add(std::filesystem::path(read_folder(module)) / "config.json");
  }
  for (const TextDenseSpec& dense : spec.dense) {
    add(std::filesystem::path(dense.folder) / "config.json");
    add(std::filesystem::path(dense.folder) / kDenseFile);
  }
  return files;
}

TextDense::TextDense(const std::filesystem::path& directory, const TextVectorSpec& spec, const ComputeOptions& compute)
    : specs_(spec.dense) {
  for (const TextDenseSpec& dense : specs_) linears_.push_back(read_dense_linear(directory, dense, compute));
}

void TextDense::apply(std::vector<float>& vector) const {
  LinearScratch scratch;
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    std::vector<float> result(specs_[i].outputs);
    const LinearOutput output[] = {{&linears_[i], result.data(), result.size()}};
    model::apply(output, LinearRows(vector.data(), vector.size()), StepRows::outside(1), scratch);
    if (specs_[i].tanh) {
      for (float& value : result) value = std::tanh(value);
    }
    vector = std::move(result);
  }
}

}  // namespace ballast::model
