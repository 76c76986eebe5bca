// Any bytes are the files that define how sentence-transformers computes vectors, separated by 0xFF: they are read and
// applied to a vector, or refused with an Error.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "../support/temporary_directory.h"
#include "ballast/compute_options.h"
#include "ballast/error.h"
#include "model/source/sentence_modules.h"

namespace ballast::model {
namespace {

constexpr std::size_t kHiddenSize = 3;

/// The last file may contain 0xFF.
constexpr std::array kFiles = {"modules.json", "sentence_bert_config.json", "1_Pooling/config.json",
                               "2_Dense/config.json", "2_Dense/model.safetensors"};

void write_files(const std::filesystem::path& directory, std::string_view input) {
  for (std::size_t i = 0; i < kFiles.size(); ++i) {
    const std::size_t end = i + 1 == kFiles.size() ? input.size() : std::min(input.find('\xFF'), input.size());
    const std::filesystem::path path = directory / kFiles[i];
    std::filesystem::create_directories(path.parent_path());
    test::write_file(path, input.substr(0, end));
    input.remove_prefix(std::min(end + 1, input.size()));
  }
}

void read(std::string_view input) {
  static const test::TemporaryDirectory directory;
  write_files(directory.path(), input);
  const std::optional<TextVectorSpec> spec = read_sentence_modules(directory.path(), kHiddenSize);
  if (!spec) return;
  dense_module_files(directory.path(), *spec);
  const TextDense dense(directory.path(), *spec, ComputeOptions{});
  std::vector<float> vector(kHiddenSize, 0.5F);
  dense.apply(vector);
  if (vector.size() != dense.output_size(kHiddenSize)) std::abort();
}

}  // namespace
}  // namespace ballast::model

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    ballast::model::read({reinterpret_cast<const char*>(data), size});
  } catch (const ballast::Error&) {  // NOLINT(bugprone-empty-catch): most inputs are refused
  }
  return 0;
}
