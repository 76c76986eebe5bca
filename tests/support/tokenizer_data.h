#ifndef BALLAST_TESTS_SUPPORT_TOKENIZER_DATA_H_
#define BALLAST_TESTS_SUPPORT_TOKENIZER_DATA_H_

#include <filesystem>

namespace ballast::test {

/// A folder for each kind of tokenizer, and texts with the ids that they come to.
inline const std::filesystem::path kTokenizerData = std::filesystem::path(BALLAST_TEST_DATA) / "tokenizer";

}  // namespace ballast::test

#endif  // BALLAST_TESTS_SUPPORT_TOKENIZER_DATA_H_
