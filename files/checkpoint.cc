#include "files/checkpoint.h"

#include <array>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>

#include "ballast/hub_name.h"
#include "files/gguf/gguf.h"
#include "files/huggingface_checkpoint.h"

namespace ballast::files {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWhatModelMayBe =
    "a model is a Hugging Face directory, a .gguf file, or a directory that ballast wrote";

bool is_gguf(const fs::path& path) {
  if (path.extension() == ".gguf") return true;
  std::array<char, 4> start{};
  std::ifstream(path, std::ios::binary).read(start.data(), start.size());
  return std::string_view(start.data(), start.size()) == "GGUF";
}

}  // namespace

const UnreadTensors& Checkpoint::unread_tensors() const {
  static const UnreadTensors kNone;
  return kNone;
}

std::unique_ptr<Checkpoint> open_checkpoint(const fs::path& path) {
  if (path.empty()) throw Error("MODEL", std::string("the path is empty; ") + kWhatModelMayBe);
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    if (error && error != std::errc::no_such_file_or_directory) {
      throw FileError(path.string(), "cannot be examined: " + error.message());
    }
    if (const std::optional<HubName> name = parse_hub_name(path)) {
      const std::string how = "if Python has huggingface_hub, or by '" + hub_command(*name) + "'";
      throw FileError(path.string(), "does not exist; a model of this name on the Hub is fetched " + how);
    }
    throw FileError(path.string(), std::string("does not exist; ") + kWhatModelMayBe);
  }
  if (fs::is_directory(status)) return open_huggingface(path);
  if (fs::is_regular_file(status) && is_gguf(path)) return open_gguf(path);
  throw Error(path.string(), std::string("is neither a directory nor GGUF; ") + kWhatModelMayBe);
}

}  // namespace ballast::files
