#include "files/huggingface_checkpoint.h"

#include <algorithm>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "files/checkpoint_hint.h"
#include "files/json_reader.h"
#include "files/mapped_file.h"
#include "files/safetensors/safetensors_file.h"
#include "files/strict_json.h"
#include "files/text.h"

namespace ballast::files {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";

class HuggingFaceCheckpoint : public Checkpoint {
 public:
  HuggingFaceCheckpoint(const fs::path& directory, json config, std::vector<SafetensorsFile> files)
      : Checkpoint(directory), config_(std::move(config)), files_(std::move(files)) {
    for (const SafetensorsFile& file : files_) {
      for (const auto& [name, view] : file.tensors()) {
        const auto [existing, is_new] = tensors_.emplace(name, Place{&file, &view});
        if (!is_new) {
          throw Error(tensor_context(file.path().string(), name),
                      "is in " + existing->second.file->path().filename().string() + " too");
        }
      }
    }
    names_.reserve(tensors_.size());
    for (const auto& entry : tensors_) names_.push_back(entry.first);
    for (const SafetensorsFile& file : files_)
      unread_.insert(file.unread_tensors().begin(), file.unread_tensors().end());
  }

  Kind kind() const override { return Kind::kHuggingFace; }
  const json& config() const override { return config_; }
  const std::vector<std::string>& names() const override { return names_; }
  bool contains(std::string_view name) const override { return tensors_.contains(name) || unread_.contains(name); }
  TensorView tensor(std::string_view name) const override { return *place_of(name).view; }
  const UnreadTensors& unread_tensors() const override { return unread_; }
  void release(std::string_view name) const override { release_pages(place_of(name).view->bytes); }

  void check_whole() const override {
    for (const SafetensorsFile& file : files_) file.check_whole();
  }

  std::uint64_t file_bytes() const override {
    std::uint64_t sum = 0;
    for (const SafetensorsFile& file : files_) sum += file.bytes().size();
    return sum;
  }

  void verify_checksums() const override {
    for (const SafetensorsFile& file : files_) file.verify_checksums();
  }

 private:
  struct Place {
    const SafetensorsFile* file;
    const TensorView* view;
  };

  const Place& place_of(std::string_view name) const {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) refuse_tensor(path().string(), name, unread_);
    return found->second;
  }

  json config_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, Place, std::less<>> tensors_;
  std::vector<std::string> names_;
  UnreadTensors unread_;
};

// Checks a shard's name, which comes from an untrusted file: it must not lead out of the directory.
void check_shard_name(const std::string& name, const std::string& context) {
  const fs::path path(name);
  const bool leaves =
      path.is_absolute() || std::ranges::any_of(path, [](const fs::path& part) { return part == ".."; });
  if (name.empty() || leaves || name.find('\0') != std::string::npos) {
    throw Error(context, "shard " + in_quotes(name) + " is not a file inside the model's directory");
  }
}

std::vector<SafetensorsFile> open_shards(const fs::path& directory) {
  const fs::path index_path = directory / kIndexFile;
  const std::string context = index_path.string();
  const json index = read_json_object(index_path);
  const auto map = JsonReader(index, context).at("weight_map").members();
  std::set<std::string> shard_names;
  for (const auto& [tensor, shard] : map) {
    check_shard_name(shard.string(), context);
    shard_names.insert(shard.string());
  }

  std::vector<SafetensorsFile> files;
  std::map<std::string, std::size_t> file_index;
  for (const std::string& name : shard_names) {
    if (!is_there(directory / name)) throw Error(context, "names the shard " + in_quotes(name) + ", which is missing");
    file_index.emplace(name, files.size());
    files.emplace_back(directory / name);
  }
  for (const auto& [tensor, shard] : map) {
    const SafetensorsFile& file = files[file_index.at(shard.string())];
    if (!file.contains(tensor)) {
      throw Error(tensor_context(file.path().string(), tensor),
                  std::string("is missing, though ") + kIndexFile + " says it is here");
    }
  }
  return files;
}

}  // namespace

std::unique_ptr<Checkpoint> open_huggingface(const fs::path& directory) {
  if (!is_there(directory / "config.json")) {
    throw Error(directory.string(),
                "has no config.json, so it is not a model's directory" + checkpoint_hint(directory, nullptr));
  }
  json config = read_json_object(directory / "config.json");
  std::vector<SafetensorsFile> files;
  if (is_there(directory / kSingleFile)) {
    files.emplace_back(directory / kSingleFile);
  } else if (is_there(directory / kIndexFile)) {
    files = open_shards(directory);
  } else {
    throw Error(directory.string(),
                std::string("has neither ") + kSingleFile + " nor " + kIndexFile + checkpoint_hint(directory, config));
  }
  return std::make_unique<HuggingFaceCheckpoint>(directory, std::move(config), std::move(files));
}

}  // namespace ballast::files
