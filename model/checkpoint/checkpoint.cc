#include "model/checkpoint/checkpoint.h"

#include <fstream>
#include <system_error>

#include "model/checkpoint/huggingface_checkpoint.h"

namespace ballast::model {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWhatModelMayBe =
    "a model is a Hugging Face directory, a .gguf file, or a directory that ballast wrote";

}  // namespace

std::unique_ptr<Checkpoint> open_checkpoint(const fs::path& path) {
  if (path.empty()) throw Error("MODEL", std::string("the path is empty; ") + kWhatModelMayBe);
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    throw Error(path.string(), error && error != std::errc::no_such_file_or_directory
                                   ? "cannot be examined: " + error.message()
                                   : std::string("does not exist; ") + kWhatModelMayBe);
  }
  if (fs::is_directory(status)) return open_huggingface(path);
  throw Error(path.string(), std::string("is neither a directory nor GGUF; ") + kWhatModelMayBe);
}

}  // namespace ballast::model
