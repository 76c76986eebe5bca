// Any bytes are the GGUF of a model: it is loaded with its tokenizer, and a text is run, or it is refused with an
// Error. fuzz_gguf also reads files that are not models.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "../support/temporary_directory.h"
#include "ballast/embed.h"
#include "ballast/error.h"
#include "ballast/model.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ballast::test::TemporaryDirectory directory;
  const std::filesystem::path path =
      ballast::test::write_file(directory / "model.gguf", {reinterpret_cast<const char*>(data), size});
  try {
    const std::vector<std::string> texts = {"ab a"};
    (void)ballast::Model(path).embed(texts);
  } catch (const ballast::Error&) {  // NOLINT(bugprone-empty-catch): most inputs are refused
  }
  return 0;
}
