// tests/data/tokenizer is written by scripts/compare_tokenizer.py --write-golden.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "doctest/doctest.h"
#include "files/gguf/gguf.h"
#include "temporary_directory.h"
#include "text/readers/tokenizer_files.h"
#include "tokenizer_data.h"

namespace ballast::text {
namespace {

std::string joined(const std::vector<int>& ids) {
  std::string line;
  for (const int id : ids) line += (line.empty() ? "" : " ") + std::to_string(id);
  return line;
}

std::unique_ptr<Tokenizer> open(const std::filesystem::path& folder) {
  const std::filesystem::path gguf = folder / "tokenizer.gguf";
  return std::filesystem::exists(gguf) ? load_tokenizer(*files::open_gguf(gguf)) : read_tokenizer_directory(folder);
}

TEST_CASE("ids of every family of tokenizers equal those of the original library") {
  const std::vector<std::string> texts = test::tokenizer_texts();
  REQUIRE(texts.size() == 100);
  int families = 0;
  for (const auto& folder : std::filesystem::directory_iterator(test::kTokenizerData)) {
    if (!std::filesystem::exists(folder.path() / "ids.txt")) continue;
    ++families;
    const auto tokenizer = open(folder.path());
    REQUIRE(tokenizer != nullptr);
    std::istringstream expected(test::read_file(folder.path() / "ids.txt"));
    for (const std::string& text : texts) {
      CAPTURE(folder.path().filename().string());
      CAPTURE(text);
      std::string line;
      std::getline(expected, line);
      if (line != "ambiguous") CHECK(joined(tokenizer->encode(text)) == line);
    }
  }
  CHECK(families == 25);
}

}  // namespace
}  // namespace ballast::text
