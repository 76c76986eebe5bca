#include "model/source/generation_config.h"

#include <array>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "ballast/error.h"
#include "files/checkpoint_hint.h"
#include "files/json_reader.h"
#include "files/strict_json.h"
#include "text/subword/vocabulary.h"

namespace ballast {

std::string generation_defaults_text(const GenerationDefaults& defaults) {
  std::ostringstream text;
  const auto add = [&](const char* name, const auto& value) {
    if (value) text << (text.view().empty() ? "" : ", ") << name << ' ' << *value;
  };
  add("temperature", defaults.temperature);
  add("top_k", defaults.top_k);
  add("top_p", defaults.top_p);
  add("min_p", defaults.min_p);
  add("repetition_penalty", defaults.repetition_penalty);
  return std::move(text).str();
}

namespace model {

namespace {

/// Names of the values in generation_config.json and in a GGUF's metadata.
struct Names {
  const char* temperature;
  const char* top_k;
  const char* top_p;
  const char* min_p;
  const char* repetition_penalty;
};
constexpr Names kJsonNames = {"temperature", "top_k", "top_p", "min_p", "repetition_penalty"};
constexpr Names kGgufNames = {"general.sampling.temp", "general.sampling.top_k", "general.sampling.top_p",
                              "general.sampling.min_p", "general.sampling.penalty_repeat"};

/// Returns the value of a field, which must be from `least` to `most`; nullopt if the field is missing.
std::optional<double> number_within(const files::JsonReader& config, const char* name, double least, double most) {
  if (!config.has(name)) return std::nullopt;
  const double value = config.number(name);
  if (value >= least && value <= most) return value;
  std::ostringstream problem;
  problem << "is " << value << ", must be from " << least << " to " << most;
  config.fail(name, problem.view());
}

/// Reads the values. Their ranges are those of the sampler.
GenerationDefaults read_values(const files::JsonReader& config, const Names& names) {
  constexpr double kMostTemperature = 100;
  constexpr double kLeastShare = 1e-9;
  GenerationDefaults defaults;
  defaults.temperature = number_within(config, names.temperature, 0, kMostTemperature);
  if (config.has(names.top_k)) defaults.top_k = config.count(names.top_k);
  defaults.top_p = number_within(config, names.top_p, kLeastShare, 1);
  defaults.min_p = number_within(config, names.min_p, 0, 1);
  defaults.repetition_penalty = number_within(config, names.repetition_penalty, 0.01, 100);
  return defaults;
}

/// Reads a file that exists. A file that cannot be read is an error with a remedy, because the model runs without it.
template <typename Read>
void read_file(const std::filesystem::path& directory, const Read& read) {
  const std::filesystem::path path = directory / kGenerationConfigFile;
  if (!files::is_there(path)) return;
  try {
    const nlohmann::json config = files::read_json_object(path);
    read(files::JsonReader(config, path.string()));
  } catch (const Error& error) {
    throw Error(std::string(error.what()) + "; fix the file or remove it");
  }
}

}  // namespace

std::vector<int> generation_end_tokens(const std::filesystem::path& directory) {
  std::vector<int> ids;
  read_file(directory, [&](const files::JsonReader& config) { ids = text::read_token_ids(config, "eos_token_id"); });
  return ids;
}

std::optional<int> generation_start_token(const std::filesystem::path& directory) {
  std::optional<int> token;
  read_file(directory, [&](const files::JsonReader& config) {
    if (config.has("decoder_start_token_id")) token = static_cast<int>(config.count("decoder_start_token_id"));
  });
  return token;
}

GenerationDefaults read_generation_defaults(const files::Checkpoint& checkpoint) {
  if (checkpoint.kind() == files::Checkpoint::Kind::kGguf) {
    return read_values(files::JsonReader(checkpoint.config(), checkpoint.path().string()), kGgufNames);
  }
  GenerationDefaults defaults;
  read_file(checkpoint.path(), [&](const files::JsonReader& config) {
    defaults = read_values(config, kJsonNames);
    if (!config.has("do_sample")) return;
    if (!config.flag("do_sample")) {
      // Selects the most likely token, independent of the other values.
      defaults = {.temperature = 0, .repetition_penalty = defaults.repetition_penalty};
    } else if (!defaults.temperature) {
      defaults.temperature = 1;
    }
  });
  return defaults;
}

std::vector<files::GgufField> gguf_sampling_fields(const files::Checkpoint& checkpoint) {
  const GenerationDefaults defaults = read_generation_defaults(checkpoint);
  std::vector<files::GgufField> fields;
  const auto add = [&](const char* name, std::optional<double> value) {
    if (value) fields.push_back({name, static_cast<float>(*value)});
  };
  add(kGgufNames.temperature, defaults.temperature);
  if (defaults.top_k) fields.push_back({kGgufNames.top_k, static_cast<std::int32_t>(*defaults.top_k)});
  add(kGgufNames.top_p, defaults.top_p);
  add(kGgufNames.min_p, defaults.min_p);
  add(kGgufNames.repetition_penalty, defaults.repetition_penalty);
  return fields;
}

nlohmann::json generation_config_of_gguf(const files::Checkpoint& checkpoint) {
  const GenerationDefaults defaults = read_generation_defaults(checkpoint);
  if (defaults.empty()) return nullptr;
  nlohmann::json config = {{"do_sample", defaults.temperature != 0.0}};
  const auto add = [&](const char* name, const auto& value) {
    if (value) config[name] = *value;
  };
  if (defaults.temperature != 0.0) add(kJsonNames.temperature, defaults.temperature);
  add(kJsonNames.top_k, defaults.top_k);
  add(kJsonNames.top_p, defaults.top_p);
  add(kJsonNames.min_p, defaults.min_p);
  add(kJsonNames.repetition_penalty, defaults.repetition_penalty);
  return config;
}

}  // namespace model

}  // namespace ballast
