// tests/data/tokenizer is written by scripts/compare_tokenizer.py --write-golden.
#include <charconv>
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

// Records "LENGTH\n" and that many bytes.
std::vector<std::string> read_texts() {
  const std::string data = test::read_file(test::kTokenizerData / "texts.bin");
  std::vector<std::string> texts;
  for (std::size_t position = 0; position < data.size();) {
    std::size_t length = 0;
    const char* end = std::from_chars(data.data() + position, data.data() + data.size(), length).ptr;
    position = static_cast<std::size_t>(end - data.data()) + 1;
    texts.push_back(data.substr(position, length));
    position += length;
  }
  return texts;
}

std::string joined(const std::vector<int>& ids) {
  std::string line;
  for (const int id : ids) line += (line.empty() ? "" : " ") + std::to_string(id);
  return line;
}

std::unique_ptr<Tokenizer> open(const std::filesystem::path& folder) {
  const std::filesystem::path gguf = folder / "tokenizer.gguf";
  return std::filesystem::exists(gguf) ? load_tokenizer(*files::open_gguf(gguf)) : read_tokenizer_directory(folder);
}

TEST_CASE("ids of every family of tokenizers equal those that the original library gave") {
  const std::vector<std::string> texts = read_texts();
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
