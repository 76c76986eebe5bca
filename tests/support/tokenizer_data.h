#ifndef BALLAST_TESTS_SUPPORT_TOKENIZER_DATA_H_
#define BALLAST_TESTS_SUPPORT_TOKENIZER_DATA_H_

#include <charconv>
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "temporary_directory.h"

namespace ballast::test {

/// A folder for each kind of tokenizer, and texts with their ids.
inline const std::filesystem::path kTokenizerData = std::filesystem::path(BALLAST_TEST_DATA) / "tokenizer";

/// Returns those texts, from records "LENGTH\n" and that many bytes.
inline std::vector<std::string> tokenizer_texts() {
  const std::string data = read_file(kTokenizerData / "texts.bin");
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

}  // namespace ballast::test

#endif  // BALLAST_TESTS_SUPPORT_TOKENIZER_DATA_H_
