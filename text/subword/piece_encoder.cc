#include "text/subword/piece_encoder.h"

#include <sentencepiece_processor.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "ballast/error.h"
#include "files/text.h"

namespace ballast::text {
namespace {

class PieceEncoder : public TextEncoder {
 public:
  explicit PieceEncoder(PieceModel model) : model_(std::move(model)) {
    const sentencepiece::util::Status status = processor_.LoadFromSerializedProto(model_.bytes);
    if (!status.ok()) {
      throw Error(model_.file, "is not a SentencePiece model: " + files::in_quotes(status.ToString()));
    }
    std::string().swap(model_.bytes);
  }

  void encode(std::string_view text, bool /*begins_input*/, std::vector<int>& ids) const override {
    if (model_.language_codes && text.starts_with(">>")) {
      const std::size_t end = text.find("<<");
      if (end != std::string_view::npos) {
        ids.push_back(id_of(text.substr(0, end + 2)));
        text.remove_prefix(end + 2);
      }
    }
    std::vector<std::string> pieces;
    const sentencepiece::util::Status status = processor_.Encode(text, &pieces);
    if (!status.ok()) throw Error(model_.file, "cannot encode a text: " + files::in_quotes(status.ToString()));
    for (const std::string& piece : pieces) ids.push_back(id_of(piece));
  }

 private:
  int id_of(std::string_view piece) const { return model_.vocabulary->find(piece).value_or(model_.unknown); }

  PieceModel model_;
  sentencepiece::SentencePieceProcessor processor_;
};

}  // namespace

std::unique_ptr<TextEncoder> make_piece_encoder(PieceModel model) {
  return std::make_unique<PieceEncoder>(std::move(model));
}

}  // namespace ballast::text
