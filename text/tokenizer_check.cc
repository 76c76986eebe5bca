#include "text/tokenizer_check.h"

#include <cstdint>
#include <vector>

#include "ballast/error.h"

namespace ballast::text {
namespace {

void check_special_id(const Tokenizer& tokenizer, const char* name, const nlohmann::json& value,
                      const std::string& context) {
  if (!value.is_number_integer()) return;
  const auto id = value.get<std::int64_t>();
  // Older configurations write -1 for a token that there is none of.
  if (id < 0) return;
  const auto size = static_cast<std::int64_t>(tokenizer.vocab_size());
  if (id < size && !tokenizer.token_bytes(static_cast<int>(id)).empty()) return;
  throw Error(context, std::string("config.json: ") + name + " is " + std::to_string(id) +
                           ", which the tokenizer does not have: they do not belong together");
}

void check_round_trip(const Tokenizer& tokenizer, const std::string& context) {
  const std::string text = "Round trip: 12 caf\xC3\xA9s, \xE2\x82\xAC 3.50\n";
  const std::string back = decode(tokenizer, tokenizer.encode(text));
  if (back == text) return;
  // Others may change case, spaces or drop characters they do not know, but not what is left a second time.
  const std::vector<int> ids = tokenizer.encode(back);
  if (!tokenizer.is_byte_level() && !ids.empty() && tokenizer.encode(decode(tokenizer, ids)) == ids) return;
  throw Error(context, "the tokenizer does not give back the text that it encodes");
}

}  // namespace

void check_embedding_rows(const Tokenizer& tokenizer, std::size_t rows, const std::string& context) {
  // Rows that pad an embedding to a round number, or wait for more tokens, are a small part of it.
  const bool too_few = tokenizer.vocab_size() < rows / 2;
  if (tokenizer.vocab_size() <= rows && !too_few) return;
  throw Error(context, "the tokenizer has " + std::to_string(tokenizer.vocab_size()) + " tokens, the embedding " +
                           std::to_string(rows) + " rows: they do not belong together");
}

void check_tokenizer(const Tokenizer& tokenizer, std::size_t rows, const nlohmann::json& model_config,
                     const std::string& context) {
  check_embedding_rows(tokenizer, rows, context);
  for (const char* name : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
    if (!model_config.is_object() || !model_config.contains(name)) continue;
    const nlohmann::json& value = model_config[name];
    if (!value.is_array()) {
      check_special_id(tokenizer, name, value, context);
      continue;
    }
    for (const nlohmann::json& id : value) check_special_id(tokenizer, name, id, context);
  }
  check_round_trip(tokenizer, context);
}

}  // namespace ballast::text
