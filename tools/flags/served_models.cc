#include "tools/flags/served_models.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "ballast/activation_type.h"
#include "ballast/error.h"
#include "ballast/hub_name.h"
#include "files/json_reader.h"
#include "files/strict_json.h"
#include "files/text_file.h"
#include "text/reply/reply_format.h"
#include "tools/flags/option_checks.h"

namespace ballast::tools {
namespace {

template <typename Value>
Value one_value(const std::map<std::string, Value, std::less<>>& values, std::string_view option,
                const std::string& text) {
  const auto found = values.find(text);
  if (found != values.end()) return found->second;
  std::string names;
  for (const auto& [name, value] : values) names += (names.empty() ? "" : ", ") + name;
  throw UsageError(std::string(option) + ": '" + text + "' is not one of " + names);
}

template <typename Number>
Number positive_number(std::string_view option, const std::string& text) {
  Number number{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc() && stop == end && number > 0 && number <= static_cast<Number>(kMostItems)) return number;
  throw UsageError(std::string(option) + ": '" + text + "' must be a number above 0");
}

std::string known_reply_format(const std::string& text) {
  const std::vector<std::string> names = text::reply_format_names();
  if (std::ranges::find(names, text) != names.end()) return text;
  throw UsageError("reply-format: '" + text + "' is not one of " + CLI::detail::join(names, ", "));
}

using SetOption = void (*)(ServedModel& model, const std::string& text);

/// Returns the options of a model by their names, which are those of the flags.
const std::map<std::string, SetOption, std::less<>>& model_settings() {
  using enum ActivationType;
  static const std::map<std::string, SetOption, std::less<>> all = {
      {"activations",
       [](ServedModel& model, const std::string& text) {
         static const std::map<std::string, ActivationType, std::less<>> types = {
             {"int8", kInt8}, {"int16", kInt16}, {"float", kFloat}};
         model.options.activations = one_value(types, "activations", text);
       }},
      {"alias", [](ServedModel& model, const std::string& text) { model.aliases.push_back(text); }},
      {"cache-memory",
       [](ServedModel& model, const std::string& text) { model.cache_bytes = parse_bytes("cache-memory", text); }},
      {"chat-template", [](ServedModel& model, const std::string& text) { model.options.chat_template = text; }},
      {"context",
       [](ServedModel& model, const std::string& text) {
         model.options.context = positive_number<std::size_t>("context", text);
       }},
      {"draft", [](ServedModel& model, const std::string& text) { model.draft = text; }},
      {"draft-tokens",
       [](ServedModel& model, const std::string& text) {
         model.draft_tokens = text == "0" ? 0 : positive_number<std::size_t>("draft-tokens", text);
       }},
      {"expert-memory",
       [](ServedModel& model, const std::string& text) {
         model.options.expert_bytes = parse_bytes("expert-memory", text);
       }},
      {"generation-config",
       [](ServedModel& model, const std::string& text) {
         static const std::map<std::string, bool, std::less<>> uses = {{"auto", true}, {"none", false}};
         model.options.generation_config = one_value(uses, "generation-config", text);
       }},
      {"reply-format",
       [](ServedModel& model, const std::string& text) { model.reply_format = known_reply_format(text); }},
      {"share",
       [](ServedModel& model, const std::string& text) {
         constexpr double kMost = 100;
         model.share = positive_number<double>("share", text);
         if (model.share < 1 / kMost || model.share > kMost) throw UsageError("share: must be from 0.01 to 100");
       }},
      {"stats", [](ServedModel& model, const std::string& text) { model.statistics = text; }},
  };
  return all;
}

void set_option(ServedModel& model, const std::string& name, const std::string& text) {
  const auto found = model_settings().find(name);
  if (found == model_settings().end()) {
    std::string names;
    for (const auto& [known, set] : model_settings()) names += (names.empty() ? "" : ", ") + known;
    throw UsageError("'" + name + "' is not an option of a model: there are " + names);
  }
  if (text.empty()) throw UsageError(name + ": has no value");
  found->second(model, text);
}

/// Returns the text of a value in a file of models.
std::string value_text(const files::JsonReader& value) {
  return value.json().is_number() ? value.json().dump() : value.string();
}

ServedModel read_model_object(const files::JsonReader& object, const std::filesystem::path& folder,
                              const ServedModel& defaults) {
  ServedModel model = defaults;
  for (const auto& [name, value] : object.members()) {
    if (name == "model") {
      model.path = value.string();
    } else if (name == "name") {
      model.name = value.string();
    } else if (value.json().is_array() && name == "alias") {
      model.aliases = value.strings();
    } else {
      try {
        set_option(model, std::string(name), value_text(value));
      } catch (const UsageError& error) {
        object.fail(error.what());
      }
    }
  }
  if (model.path.empty()) object.fail("model", "is missing: the path of a model");
  for (std::filesystem::path* path : {&model.path, &model.draft, &model.statistics, &model.options.chat_template}) {
    const bool is_model = path == &model.path || path == &model.draft;
    if (path->empty() || (is_model && !std::filesystem::exists(folder / *path) && parse_hub_name(*path))) continue;
    *path = folder / *path;  // an absolute path stays
  }
  return model;
}

/// Returns whether a file is a GGUF, or the first of its parts ("-00001-of-00003.gguf").
bool is_first_gguf(const std::filesystem::path& file) {
  if (file.extension() != ".gguf") return false;
  const std::string name = file.stem().string();
  constexpr std::size_t kDigits = 5;
  constexpr std::string_view kOf = "-of-";
  const std::size_t length = kOf.size() + 2 * kDigits + 1;
  if (name.size() < length || name.compare(name.size() - kDigits - kOf.size(), kOf.size(), kOf) != 0) return true;
  return name.compare(name.size() - length, kDigits + 1, "-00001") == 0;
}

bool is_model(const std::filesystem::path& path) {
  std::error_code error;
  if (path.filename().string().starts_with('.')) return false;
  if (std::filesystem::is_directory(path, error)) return std::filesystem::exists(path / "config.json", error);
  return is_first_gguf(path);
}

}  // namespace

void add_served_models(CLI::App& command, ServedModelFlags& flags) {
  command
      .add_option(
          "MODEL", flags.words,
          "A Hugging Face directory, a .gguf file, a directory that ballast wrote, or a name on the Hub; several, "
          "which are loaded when requests name them, may each be NAME=MODEL,option=value,...")
      ->type_name("");
  command.add_option("--models", flags.folder, "Serve every model in a folder")->type_name("DIR");
  command.add_option("--models-file", flags.file, "Serve the models that a JSON file lists, with their options")
      ->type_name("FILE");
}

ServedModel read_model_word(const std::string& word, const ServedModel& defaults) {
  ServedModel model = defaults;
  std::error_code error;
  const std::size_t equals = word.find('=');
  if (equals == std::string::npos || std::filesystem::exists(word, error)) {
    model.path = word;
    return model;
  }
  const std::vector<std::string> parts = CLI::detail::split(word, ',');
  try {
    const std::string& first = parts.front();
    const std::size_t named = first.find('=');
    if (named != std::string::npos) model.name = first.substr(0, named);
    model.path = first.substr(named == std::string::npos ? 0 : named + 1);
    if (named == 0 || model.path.empty()) throw UsageError("must begin with NAME=MODEL or MODEL");
    for (std::size_t i = 1; i < parts.size(); ++i) {
      const std::size_t end = parts[i].find('=');
      if (end == std::string::npos) throw UsageError("'" + parts[i] + "' must be option=value");
      set_option(model, parts[i].substr(0, end), parts[i].substr(end + 1));
    }
  } catch (const UsageError& wrong) {
    throw UsageError("'" + word + "': " + wrong.what());
  }
  return model;
}

std::vector<ServedModel> read_models_file(const std::filesystem::path& file, const ServedModel& defaults) {
  const nlohmann::json json = files::parse_json_object(files::read_text_file(file), file);
  const files::JsonReader reader(json, file.string());
  for (const auto& [name, value] : reader.members()) {
    if (name != "models") value.fail("is not a member of a file of models: \"models\" is");
  }
  std::vector<ServedModel> models;
  for (const files::JsonReader& object : reader.at("models").elements()) {
    models.push_back(read_model_object(object, file.parent_path(), defaults));
  }
  if (models.empty()) throw Error(file.string(), "lists no models");
  return models;
}

std::vector<ServedModel> find_models(const std::filesystem::path& folder, const ServedModel& defaults) {
  std::error_code error;
  std::vector<std::filesystem::path> paths;
  std::filesystem::directory_iterator entries(folder, error);
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    if (is_model(entries->path())) paths.push_back(entries->path());
  }
  if (error) throw Error(folder.string(), "cannot be read: " + error.message());
  if (paths.empty()) throw Error(folder.string(), "has no model: no folder with a config.json, and no .gguf file");
  std::ranges::sort(paths);
  std::vector<ServedModel> models;
  for (std::filesystem::path& path : paths) {
    models.push_back(defaults);
    models.back().path = std::move(path);
  }
  return models;
}

std::vector<ServedModel> read_served_models(const ServedModelFlags& flags, const ServedModel& defaults) {
  std::vector<ServedModel> models;
  for (const std::string& word : flags.words) models.push_back(read_model_word(word, defaults));
  if (!flags.folder.empty()) std::ranges::move(find_models(flags.folder, defaults), std::back_inserter(models));
  if (!flags.file.empty()) std::ranges::move(read_models_file(flags.file, defaults), std::back_inserter(models));
  if (models.empty()) throw UsageError("MODEL is required, or --models DIR, or --models-file FILE");
  return models;
}

}  // namespace ballast::tools
