#include "files/checkpoint_hint.h"

#include <algorithm>
#include <cctype>
#include <system_error>
#include <vector>

#include "files/text.h"

namespace ballast::files {
namespace {

namespace fs = std::filesystem;

// Returns the entries in the order of their names, independent of the file system.
std::vector<fs::path> entries_of(const fs::path& directory) {
  std::vector<fs::path> entries;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, ignored)) entries.push_back(entry.path());
  std::ranges::sort(entries);
  return entries;
}

// Prefers "pytorch_model.bin" and its shards to other files ("training_args.bin" is in the directory, too).
std::string pytorch_file(const std::vector<fs::path>& entries) {
  const auto is_pytorch = [](const fs::path& path) {
    const fs::path kind = path.extension();
    return kind == ".bin" || kind == ".pt" || kind == ".pth";
  };
  const auto is_model = [](const fs::path& path) { return path.filename().string().starts_with("pytorch_model"); };
  auto found = std::ranges::find_if(entries, [&](const fs::path& path) { return is_pytorch(path) && is_model(path); });
  if (found == entries.end()) found = std::ranges::find_if(entries, is_pytorch);
  return found == entries.end() ? std::string() : found->filename().string();
}

// Returns the transformers class that reads the directory; it becomes part of a command, so it must be a name.
std::string model_class(const nlohmann::json& config) {
  constexpr const char* kAny = "AutoModelForCausalLM";
  if (!config.is_object() || !config.contains("architectures")) return kAny;
  const nlohmann::json& list = config["architectures"];
  if (!list.is_array() || list.empty() || !list[0].is_string()) return kAny;
  const auto& name = list[0].get_ref<const std::string&>();
  const bool plain = std::ranges::all_of(name, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
  return plain && !name.empty() ? name : kAny;
}

std::string sentence_transformers_hint(const std::vector<fs::path>& entries) {
  const auto transformer =
      std::ranges::find_if(entries, [](const fs::path& path) { return is_there(path / "config.json"); });
  const std::string what = "; it is a folder of sentence-transformers";
  if (transformer == entries.end()) return what + " without a transformer";
  return what + ": name the model in it, " + transformer->string();
}

}  // namespace

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::string checkpoint_hint(const fs::path& directory, const nlohmann::json& config) {
  const std::vector<fs::path> entries = entries_of(directory);
  const auto gguf = std::ranges::find(entries, fs::path(".gguf"), &fs::path::extension);
  if (gguf != entries.end()) return "; to read the GGUF file in it, name " + gguf->string();
  if (config.is_null() && is_there(directory / "modules.json")) return sentence_transformers_hint(entries);
  const std::string pytorch = pytorch_file(entries);
  if (pytorch.empty()) return "";
  if (config.is_null()) return "; PyTorch's " + pytorch + " alone is not read: save the model with save_pretrained";
  return concat("; PyTorch's ", pytorch, " is not read: to save it as safetensors beside it, run there python3 -c \"",
                "from transformers import ", model_class(config),
                " as M; M.from_pretrained('.').save_pretrained('.')\"");
}

}  // namespace ballast::files
