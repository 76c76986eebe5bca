#include "text/tokenizer.h"

#include "ballast/error.h"
#include "files/text.h"

namespace ballast::text {
namespace {

void refuse_language(std::string_view language) {
  if (language.empty()) return;
  throw Error("language " + files::in_quotes(language), "the tokenizer has no tokens for languages: name none");
}

}  // namespace

TextFrame Tokenizer::source_frame(std::string_view language) const {
  refuse_language(language);
  return {.before = leading_special_tokens(), .after = suffix()};
}

std::vector<int> Tokenizer::target_start(std::string_view language) const {
  refuse_language(language);
  return {};
}

std::string decode(const Tokenizer& tokenizer, std::span<const int> ids) {
  StreamDecoder decoder(tokenizer);
  std::string text;
  for (const int id : ids) text += decoder.push(id);
  return text + decoder.finish();
}

}  // namespace ballast::text
