#include <utility>

#include "files/gguf/gguf.h"
#include "files/gguf/gguf_parser.h"
#include "files/json_reader.h"
#include "files/mapped_file.h"
#include "files/text.h"

namespace ballast::files {
namespace {

using nlohmann::json;

class MappedGguf : public GgufFile {
 public:
  explicit MappedGguf(const std::filesystem::path& path)
      : GgufFile(path), file_(path), content_(parse_gguf(file_.bytes(), path.string())) {
    const std::size_t parts = JsonReader(content_.config, path.string()).count("split.count", 1);
    if (parts > 1) {
      throw Error(path.string(), concat("is one of ", parts, " parts of a model; merge them first (llama-gguf-split ",
                                        "--merge FIRST_PART OUT.gguf)"));
    }
    names_.reserve(content_.tensors.size());
    for (const auto& entry : content_.tensors) names_.push_back(entry.first);
  }

  Kind kind() const override { return Kind::kGguf; }
  const json& config() const override { return content_.config; }
  const std::vector<std::string>& names() const override { return names_; }
  bool contains(std::string_view name) const override { return content_.tensors.contains(name); }
  std::uint64_t file_bytes() const override { return file_.bytes().size(); }
  void check_whole() const override { file_.check_whole(); }
  void release(std::string_view name) const override { release_pages(find(name).bytes); }
  TensorView tensor(std::string_view name) const override { return find(name); }

  json metadata(std::string_view key) const override {
    const auto found = content_.value_positions.find(key);
    if (found == content_.value_positions.end()) return nullptr;
    return read_gguf_value(file_.bytes(), found->second, path().string());
  }

 private:
  const TensorView& find(std::string_view name) const {
    const auto found = content_.tensors.find(name);
    if (found == content_.tensors.end()) throw Error(path().string(), "has no tensor " + in_quotes(name));
    return found->second;
  }

  MappedFile file_;
  GgufContent content_;
  std::vector<std::string> names_;
};

}  // namespace

std::unique_ptr<GgufFile> open_gguf(const std::filesystem::path& path) {
  return std::make_unique<MappedGguf>(path);
}

}  // namespace ballast::files
