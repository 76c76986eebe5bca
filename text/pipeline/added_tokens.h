// Tokens that are searched in the text before it is split into pieces: special tokens and a user's own.
#ifndef BALLAST_TEXT_PIPELINE_ADDED_TOKENS_H_
#define BALLAST_TEXT_PIPELINE_ADDED_TOKENS_H_

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "files/json_reader.h"
#include "text/byte_range.h"
#include "text/unicode/byte_trie.h"

namespace ballast::text {

/// One entry of `added_tokens` in a tokenizer.json.
struct AddedToken {
  int id = 0;
  std::string content;
  bool special = false;
  bool normalized = false;   ///< searched in normalized text, else in the original text
  bool single_word = false;  ///< only without adjacent word characters
  bool lstrip = false;       ///< includes the white space before it
  bool rstrip = false;       ///< includes the white space after it
};

/// Parses `node`; its id is elsewhere in tokenizer_config.json.
AddedToken read_added_token(const files::JsonReader& node);

/// Finds added tokens from left to right, the longest one where several begin. Immutable; safe to use from several
/// threads.
class AddedTokenFinder {
 public:
  /// Contents must not be empty.
  explicit AddedTokenFinder(std::vector<AddedToken> tokens);

  /// Calls `on_text` for the text between the tokens (never empty) and `on_token` for the tokens' ids, in order.
  /// Special tokens do not match if a byte of theirs is in one of the ranges `plain`.
  void scan(std::string_view text, std::span<const ByteRange> plain,
            const std::function<void(std::string_view)>& on_text, const std::function<void(int)>& on_token) const;

 private:
  struct Match {
    std::size_t begin;
    std::size_t end;
    const AddedToken* token;
  };

  std::optional<Match> next_match(std::string_view text, std::span<const ByteRange> plain, std::size_t position) const;

  std::vector<AddedToken> tokens_;
  ByteTrie index_of_;  // contents to indices in tokens_
};

}  // namespace ballast::text

#endif  // BALLAST_TEXT_PIPELINE_ADDED_TOKENS_H_
