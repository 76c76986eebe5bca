// The languages of multilingual translation models in the order of their tokens, as listed in transformers 5.24.
#ifndef BALLAST_TEXT_READERS_LANGUAGE_CODES_H_
#define BALLAST_TEXT_READERS_LANGUAGE_CODES_H_

#include <string>
#include <string_view>
#include <vector>

namespace ballast::text {

std::vector<std::string> mbart_language_codes();
std::vector<std::string> mbart50_language_codes();
std::vector<std::string> m2m100_language_codes();
std::vector<std::string> wmt21_language_codes();
std::vector<std::string> nllb_language_codes();

/// Returns whether `text` is written like a code of mBART ("en_XX") or NLLB ("eng_Latn"); fine-tuned models have codes
/// that no list contains.
bool is_language_code(std::string_view text);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_READERS_LANGUAGE_CODES_H_
