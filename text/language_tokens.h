// The tokens that name the languages of a multilingual translation model.
#ifndef BALLAST_TEXT_LANGUAGE_TOKENS_H_
#define BALLAST_TEXT_LANGUAGE_TOKENS_H_

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace ballast::text {

/// Immutable.
class LanguageTokens {
 public:
  /// The position of a language's token in a text that an encoder reads. A decoder's text begins with it in all models.
  enum class Position { kBeforeText, kAfterEndToken };

  struct Options {
    std::map<std::string, int, std::less<>> ids;  ///< the token of each language by its code
    int end_token = 0;                            ///< ends a text
    Position position = Position::kBeforeText;
    std::string default_source;  ///< must be a key of `ids`
    std::string default_target;  ///< too; empty: none
  };

  /// Throws Error naming `context` (a tokenizer_config.json) for a default that is not a language.
  LanguageTokens(Options options, const std::string& context);

  /// Implement the functions of Tokenizer with these names.
  std::vector<std::string> languages() const;
  TextFrame source_frame(std::string_view language) const;
  std::vector<int> target_start(std::string_view language) const;

 private:
  int id_of(std::string_view language) const;
  std::string joined_codes() const;

  Options options_;
};

}  // namespace ballast::text

#endif  // BALLAST_TEXT_LANGUAGE_TOKENS_H_
