#include "text/tokenizer_check.h"

#include <vector>

#include "ballast/error.h"
#include "files/json_reader.h"
#include "files/text.h"
#include "text/subword/vocabulary.h"

namespace ballast::text {
namespace {

void check_round_trip(const Tokenizer& tokenizer, const std::string& context) {
  const std::string text = "Round trip: 12 caf\xC3\xA9s, \xE2\x82\xAC 3.50\n";
  // A separate vocabulary of a decoder is the one that decodes.
  std::string back = decode(tokenizer, tokenizer.encode_target(text));
  if (back == text) return;
  // Other tokenizers may change case and spaces or drop unknown characters, but encoding the result again must not
  // change it, or only drop what became unknown.
  constexpr int kRounds = 4;
  for (int round = 0; round < kRounds && !tokenizer.is_byte_level(); ++round) {
    const std::vector<int> ids = tokenizer.encode_target(back);
    back = decode(tokenizer, ids);
    if (!ids.empty() && tokenizer.encode_target(back) == ids) return;
  }
  throw Error(context, "the tokenizer does not give back the text that it encodes");
}

// Tokens beyond the embedding are for images and similar inputs. If no plain text is encoded to one of them, the model
// does not need them.
bool text_needs_more_rows(const Tokenizer& tokenizer, std::size_t rows) {
  for (std::size_t i = rows; i < tokenizer.vocab_size(); ++i) {
    const int id = static_cast<int>(i);
    if (!tokenizer.is_added(id) && !tokenizer.token_bytes(id).empty()) return true;
  }
  return false;
}

void check_frame_rows(const Tokenizer& tokenizer, std::size_t rows, const std::string& context) {
  for (const std::vector<int>* ids : {&tokenizer.leading_special_tokens(), &tokenizer.suffix()}) {
    for (const int id : *ids) {
      if (static_cast<std::size_t>(id) < rows) continue;
      throw Error(context, files::concat("the tokenizer puts ", files::in_quotes(tokenizer.token_bytes(id)),
                                         " around every text, whose id is ", id, "; the embedding has ", rows,
                                         " rows: they do not belong together"));
    }
  }
}

}  // namespace

void check_embedding_rows(const Tokenizer& tokenizer, std::size_t rows, const std::string& context) {
  // Rows that pad an embedding to a round number, or are reserved for more tokens, are a small part of it.
  const bool too_few = tokenizer.vocab_size() < rows / 2;
  if (!too_few && !text_needs_more_rows(tokenizer, rows)) {
    check_frame_rows(tokenizer, rows, context);
    return;
  }
  throw Error(context, "the tokenizer has " + std::to_string(tokenizer.vocab_size()) + " tokens, the embedding " +
                           std::to_string(rows) + " rows: they do not belong together");
}

void check_tokenizer(const Tokenizer& tokenizer, std::size_t rows, const nlohmann::json& model_config,
                     const std::string& context) {
  check_embedding_rows(tokenizer, rows, context);
  const files::JsonReader config(model_config, context + ": config.json");
  for (const char* name : {"bos_token_id", "eos_token_id"}) {  // padding is never read
    for (const int id : read_token_ids(config, name)) {
      if (!tokenizer.token_bytes(id).empty()) continue;
      throw Error(context, files::concat("config.json: ", name, " is ", id,
                                         ", which the tokenizer does not have: they do not belong together"));
    }
  }
  check_round_trip(tokenizer, context);
}

}  // namespace ballast::text
