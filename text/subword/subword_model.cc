#include "text/subword/subword_model.h"

#include <utility>

#include "files/text.h"
#include "text/readers/bpe_reader.h"
#include "text/subword/bpe.h"
#include "text/subword/unigram.h"
#include "text/subword/vocabulary.h"
#include "text/subword/word_piece.h"

namespace ballast::text {
namespace {

// Files older than the field have no type.
std::string type_of(const files::JsonReader& model) {
  if (const std::optional<files::JsonReader> type = model.find("type")) return type->string();
  if (model.find("merges")) return "BPE";
  if (model.find("continuing_subword_prefix")) return "WordPiece";
  if (model.find("unk_id")) return "Unigram";
  model.fail("has no type and no merges");
}

}  // namespace

VocabularyModel read_subword_model(const files::JsonReader& model, bool byte_level) {
  const std::string type = type_of(model);
  if (type == "Unigram") {
    auto unigram = std::make_unique<Unigram>(model);
    return {.kind = "Unigram", .texts = unigram->texts(), .model = std::move(unigram)};
  }
  if (type != "BPE" && type != "WordPiece") {
    const std::optional<files::JsonReader> node = model.find("type");
    (node ? *node : model).fail(files::in_quotes(type) + " is not supported; BPE, Unigram and WordPiece are");
  }
  std::shared_ptr<const TokenTable> texts = read_vocabulary(model.at("vocab"));
  if (type == "WordPiece") {
    auto word_piece = std::make_unique<WordPiece>(model, texts);
    return {.kind = "WordPiece", .texts = std::move(texts), .model = std::move(word_piece)};
  }
  BpeVocabulary bpe = read_bpe(model, texts, byte_level);
  std::shared_ptr<const TokenTable> bytes = byte_level ? bpe.tokens : nullptr;
  return {.kind = byte_level ? "byte-level BPE" : "BPE",
          .texts = std::move(texts),
          .bytes = std::move(bytes),
          .model = std::make_unique<Bpe>(std::move(bpe))};
}

}  // namespace ballast::text
