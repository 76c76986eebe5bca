// Families of tokenizers by their names in GGUF files: normalizer, pre-tokenizer and options.
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
  bool adds_bos = false;     ///< default of files without the field
  bool space_marks = false;  ///< SentencePiece's spelling with byte tokens instead of bytes; `pre_tokenizer` is ignored
};

/// Returns a pre-tokenizer of expressions in Oniguruma's syntax that split in order, and bytes; `then_gpt2`: GPT-2's
/// expression splits the rest.
nlohmann::json byte_level_pre_tokenizer(const std::vector<std::string>& expressions, bool then_gpt2);

/// Returns the family with the name `name`, a value of tokenizer.ggml.pre, as in the original models' tokenizer.json;
/// nullopt if unknown.
std::optional<PreTokenizerFamily> pre_tokenizer_family(std::string_view name);

/// Returns the value of tokenizer.ggml.pre for a byte-level BPE tokenizer.json: that of a family with the same
/// splitting, preferably with the same normalizer; nullopt if there is none.
std::optional<std::string> pre_tokenizer_name(const nlohmann::json& tokenizer);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_PIPELINE_PRE_TOKENIZER_FAMILIES_H_
