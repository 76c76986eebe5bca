#include "model/source/prefix.h"

#include "ballast/error.h"

namespace ballast::model {

std::vector<int> read_prefix_tokens(const files::JsonReader& config) {
  const std::optional<files::JsonReader> list = config.find(kPrefixTokensField);
  if (!list) return {};
  std::vector<int> tokens = list->integers<int>(0);
  if (tokens.empty()) list->fail("must be a list of token ids, is empty");
  return tokens;
}

void check_prefix(const ModelSpec& spec, std::span<const int> tokens, const std::string& context) {
  if (spec.encoder) throw Error(context, "has an encoder, of which every text is its own: it cannot have a prefix");
  if (!spec.causal) throw Error(context, "is an encoder, where every token sees all: it cannot have a prefix");
  for (const int id : tokens) {
    if (id < 0 || static_cast<std::size_t>(id) >= spec.vocab_size) {
      throw Error(context, "the prefix holds token " + std::to_string(id) +
                               ", which is not in the model's vocabulary of " + std::to_string(spec.vocab_size));
    }
  }
  // A text needs two tokens: with one there is nothing to predict.
  if (tokens.size() + 2 > spec.context_length) {
    throw Error(context, "a prefix of " + std::to_string(tokens.size()) + " tokens leaves no room for text in the " +
                             "model's context of " + std::to_string(spec.context_length));
  }
}

}  // namespace ballast::model
