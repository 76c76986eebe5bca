#include "model/tokenizer/tokenizer.h"

namespace ballast::model {

std::string decode(const Tokenizer& tokenizer, std::span<const int> ids) {
  StreamDecoder decoder(tokenizer);
  std::string text;
  for (const int id : ids) text += decoder.push(id);
  return text + decoder.finish();
}

std::vector<int> encode_with_special_tokens(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<int> ids = tokenizer.encode(text);
  ids.insert(ids.begin(), tokenizer.prefix().begin(), tokenizer.prefix().end());
  ids.insert(ids.end(), tokenizer.suffix().begin(), tokenizer.suffix().end());
  return ids;
}

}  // namespace ballast::model
