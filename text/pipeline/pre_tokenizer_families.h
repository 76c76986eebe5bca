// What GGUF files call by one name: normalizer, pre-tokenizer and options of a family of tokenizers.
#ifndef BALLAST_TEXT_PIPELINE_PRE_TOKENIZER_FAMILIES_H_
#define BALLAST_TEXT_PIPELINE_PRE_TOKENIZER_FAMILIES_H_

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ballast::text {

struct PreTokenizerFamily {
  nlohmann::json normalizer;     ///< as in a tokenizer.json; null for none
  nlohmann::json pre_tokenizer;  ///< as in a tokenizer.json
  bool ignore_merges = false;
  bool adds_bos = false;  ///< where the file does not say
  bool space_marks =
      false;  ///< not bytes but SentencePiece's spelling, with byte tokens; `pre_tokenizer` does not count
};

/// Expressions in Oniguruma's syntax that cut one after the other, and bytes; `then_gpt2`: between them GPT-2's.
nlohmann::json byte_level_pre_tokenizer(const std::vector<std::string>& expressions, bool then_gpt2);

/// The family that `name`, a value of tokenizer.ggml.pre, stands for, as the original models' tokenizer.json have it;
/// nothing when it is not known.
std::optional<PreTokenizerFamily> pre_tokenizer_family(std::string_view name);

/// The value of tokenizer.ggml.pre for a tokenizer.json of byte-level BPE: of a family that cuts text alike, one with
/// the same normalizer first; nothing when there is none.
std::optional<std::string> pre_tokenizer_name(const nlohmann::json& tokenizer);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_PIPELINE_PRE_TOKENIZER_FAMILIES_H_
