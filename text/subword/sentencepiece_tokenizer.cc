#include "text/subword/sentencepiece_tokenizer.h"

#include <sentencepiece_processor.h>

#include <string>
#include <utility>
#include <vector>

#include "ballast/error.h"
#include "files/text.h"
#include "files/utf8.h"
#include "text/assembled_tokenizer.h"
#include "text/pipeline/token_decoder.h"
#include "text/subword/vocabulary.h"

namespace ballast::text {
namespace {

using sentencepiece::SentencePieceProcessor;

// Protocol buffers merge later fields into earlier ones: this is ModelProto.normalizer_spec (field 3) with
// add_dummy_prefix (field 3) off.
constexpr std::string_view kWithoutDummyPrefix("\x1A\x02\x18\x00", 4);

void load(SentencePieceProcessor& processor, std::string_view model, const std::string& file) {
  const sentencepiece::util::Status status = processor.LoadFromSerializedProto(model);
  if (!status.ok()) throw Error(file, "is not a SentencePiece model: " + files::in_quotes(status.ToString()));
}

class SentencePieceEncoder : public TextEncoder {
 public:
  SentencePieceEncoder(const TokenizerSource& source, bool first_prefix, bool later_prefix)
      : file_(source.tokenizer_file), first_prefix_(first_prefix), later_prefix_(later_prefix) {
    load(as_trained_, source.tokenizer_data, file_);
    if (!first_prefix || !later_prefix) {
      load(no_prefix_, source.tokenizer_data + std::string(kWithoutDummyPrefix), file_);
    }
  }

  void encode(std::string_view text, bool begins_input, std::vector<int>& ids) const override {
    const bool prefix = begins_input ? first_prefix_ : later_prefix_;
    std::vector<int> more;
    const sentencepiece::util::Status status = (prefix ? as_trained_ : no_prefix_).Encode(text, &more);
    if (!status.ok()) throw Error(file_, "cannot encode a text: " + files::in_quotes(status.ToString()));
    ids.insert(ids.end(), more.begin(), more.end());
  }

  const SentencePieceProcessor& model() const { return as_trained_; }

 private:
  std::string file_;
  bool first_prefix_;
  bool later_prefix_;
  SentencePieceProcessor as_trained_;
  SentencePieceProcessor no_prefix_;  // loaded on demand
};

// Returns the model's own special tokens in the form of a tokenizer.json.
nlohmann::json own_added_tokens(const SentencePieceProcessor& model) {
  nlohmann::json added = nlohmann::json::array();
  for (int id = 0; id < model.GetPieceSize(); ++id) {
    const bool special = model.IsControl(id) || model.IsUnknown(id);
    // The library has no function for user-defined symbols; the configuration lists the relevant ones.
    if (special) {
      added.push_back({{"id", id}, {"content", model.IdToPiece(id)}, {"special", true}, {"normalized", false}});
    }
  }
  return added;
}

// Sets the model's names and options where the configuration has none.
void complete_config(nlohmann::json& config, const SentencePieceProcessor& model) {
  const auto set_name = [&](const char* name, int id) {
    if (id >= 0 && (!config.contains(name) || config[name].is_null())) config[name] = model.IdToPiece(id);
  };
  set_name("bos_token", model.bos_id());
  set_name("eos_token", model.eos_id());
  set_name("unk_token", model.unk_id());
  if (!config.contains("add_bos_token")) config["add_bos_token"] = model.bos_id() >= 0;
}

std::string bytes_of_piece(const std::string& piece, bool is_byte) {
  if (is_byte) {
    if (const std::optional<unsigned char> byte = byte_of_token(piece)) return {static_cast<char>(*byte)};
  }
  return replace_all(piece, kSpaceMark, " ");
}

}  // namespace

std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(TokenizerSource source) {
  const files::JsonReader given(source.config, source.config_file);
  const bool first_prefix = given.flag("add_prefix_space", true);
  const bool later_prefix = first_prefix && given.flag("legacy", false);
  auto encoder = std::make_unique<SentencePieceEncoder>(source, first_prefix, later_prefix);
  const SentencePieceProcessor& model = encoder->model();
  complete_config(source.config, model);

  TokenizerParts parts;
  TokenTable texts;
  auto bytes = std::make_shared<TokenTable>();
  for (int id = 0; id < model.GetPieceSize(); ++id) {
    const std::string& text = model.IdToPiece(id);
    if (!files::is_utf8(text)) throw Error(source.tokenizer_file, "piece " + std::to_string(id) + " is not UTF-8");
    texts.add(text);
    bytes->add(bytes_of_piece(text, model.IsByte(id)), true);
  }
  parts.tokens = std::move(bytes);
  parts.data_name = "tokenizer.model";
  parts.kind = "SentencePiece";
  parts.drops_first_space = first_prefix;
  const nlohmann::json listed = {{"added_tokens", own_added_tokens(model)}, {"model", nlohmann::json::object()}};
  const files::JsonReader json(listed, source.tokenizer_file);
  const files::JsonReader config(source.config, source.config_file);
  parts.special = read_special_tokens(json, config, texts);
  parts.encoder = std::move(encoder);
  return assemble_tokenizer(std::move(source), std::move(parts));
}

}  // namespace ballast::text
