#include "model/source/sentence_modules.h"

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "files/json_reader.h"
#include "files/mapped_file.h"
#include "files/strict_json.h"

namespace ballast::model {

namespace {

constexpr std::array<std::pair<std::string_view, Pooling>, 3> kSentencePoolings{
    {{"cls", Pooling::kFirst}, {"mean", Pooling::kMean}, {"lasttoken", Pooling::kLast}}};
constexpr std::array kFlags = {
    "pooling_mode_cls_token",  "pooling_mode_mean_tokens",          "pooling_mode_lasttoken",
    "pooling_mode_max_tokens", "pooling_mode_mean_sqrt_len_tokens", "pooling_mode_weightedmean_tokens"};

/// A JSON file with the object that it holds.
struct ConfigFile {
  nlohmann::json json;
  std::string name;

  explicit ConfigFile(const std::filesystem::path& path)
      : json(files::parse_strict_json(files::MappedFile(path).text(), path.string())), name(path.string()) {}

  files::JsonReader reader() const { return {json, name}; }
};

/// The newer files name one kind, the older ones have a flag for each.
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

std::size_t read_most_tokens(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / "sentence_bert_config.json";
  if (!std::filesystem::exists(path)) return 0;
  const ConfigFile file(path);
  return file.reader().has("max_seq_length") ? file.reader().size("max_seq_length") : 0;
}

}  // namespace

std::optional<TextVectorSpec> read_sentence_modules(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / "modules.json";
  if (!std::filesystem::exists(path)) return {};
  const ConfigFile file(path);
  TextVectorSpec spec{.pooling = Pooling::kMean, .normalized = false, .most_tokens = read_most_tokens(directory)};
  for (const files::JsonReader& module : file.reader().elements()) {
    const std::string type = module.text("type");
    const std::string_view name = std::string_view(type).substr(type.rfind('.') + 1);
    if (name == "Pooling") {
      spec.pooling = read_sentence_pooling(ConfigFile(directory / module.text("path") / "config.json").reader());
    } else if (name == "Normalize") {
      spec.normalized = true;
    } else if (name != "Transformer") {
      module.fail("type", "'" + type + "' is not supported; supported: Transformer, Pooling, Normalize");
    }
  }
  return spec;
}

}  // namespace ballast::model
