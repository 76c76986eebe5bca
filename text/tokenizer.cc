#include "text/tokenizer.h"

namespace ballast::text {

std::string decode(const Tokenizer& tokenizer, std::span<const int> ids) {
  StreamDecoder decoder(tokenizer);
  std::string text;
  for (const int id : ids) text += decoder.push(id);
  return text + decoder.finish();
}

}  // namespace ballast::text
