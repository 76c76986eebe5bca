#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "files/gguf/gguf.h"
#include "files/gguf/gguf_parts.h"
#include "files/mapped_file.h"
#include "files/tensor_layout.h"
#include "files/text.h"

namespace ballast::files {
namespace {

using nlohmann::json;

class MappedGguf : public GgufFile {
 public:
  explicit MappedGguf(const std::filesystem::path& path) : GgufFile(path), parts_(open_gguf_parts(path)) {
    for (const GgufPart& part : parts_) {
      for (const auto& [name, view] : part.content.tensors) {
        const auto [existing, is_new] = tensors_.emplace(name, Place{&part, &view});
        if (!is_new) {
          throw Error(tensor_context(part.file.path().string(), name),
                      "is in " + existing->second.part->file.path().filename().string() + " too");
        }
      }
    }
    names_.reserve(tensors_.size());
    for (const auto& entry : tensors_) names_.push_back(entry.first);
    for (const GgufPart& part : parts_) unread_.insert(part.content.unread.begin(), part.content.unread.end());
  }

  Kind kind() const override { return Kind::kGguf; }
  const json& config() const override { return parts_.front().content.config; }
  const std::vector<std::string>& names() const override { return names_; }
  bool contains(std::string_view name) const override { return tensors_.contains(name) || unread_.contains(name); }
  const UnreadTensors& unread_tensors() const override { return unread_; }
  void release(std::string_view name) const override { release_pages(find(name).bytes); }
  TensorView tensor(std::string_view name) const override { return find(name); }

  std::uint64_t file_bytes() const override {
    std::uint64_t sum = 0;
    for (const GgufPart& part : parts_) sum += part.file.bytes().size();
    return sum;
  }

  void check_whole() const override {
    for (const GgufPart& part : parts_) part.file.check_whole();
  }

  json metadata(std::string_view key) const override {
    const GgufPart& first = parts_.front();
    const auto found = first.content.value_positions.find(key);
    if (found == first.content.value_positions.end()) return nullptr;
    json value = read_gguf_value(first.file.bytes(), found->second, path().string());
    first.file.check_whole();
    release_pages(first.file.bytes());  // a vocabulary's pages take megabytes, and are read only once
    return value;
  }

  std::size_t array_size(std::string_view key) const override {
    const GgufPart& first = parts_.front();
    const auto found = first.content.value_positions.find(key);
    if (found == first.content.value_positions.end()) return 0;
    return gguf_array_size(first.file.bytes(), found->second, path().string());
  }

 private:
  struct Place {
    const GgufPart* part;
    const TensorView* view;
  };

  const TensorView& find(std::string_view name) const {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) refuse_tensor(path().string(), name, unread_);
    return *found->second.view;
  }

  std::vector<GgufPart> parts_;
  std::map<std::string, Place, std::less<>> tensors_;
  std::vector<std::string> names_;
  UnreadTensors unread_;
};

}  // namespace

std::size_t GgufFile::array_size(std::string_view key) const {
  const json value = metadata(key);
  return value.is_array() ? value.size() : 0;
}

std::unique_ptr<GgufFile> open_gguf(const std::filesystem::path& path) {
  return std::make_unique<MappedGguf>(path);
}

}  // namespace ballast::files
