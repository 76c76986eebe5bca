// Bytes as the GGUF of a model: loaded with its tokenizer, and a text run, or refused with an Error. fuzz_gguf reads
// what makes no model, too.
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
  } catch (const ballast::Error&) {  // NOLINT(bugprone-empty-catch): a refusal is what most inputs deserve
  }
  return 0;
}
