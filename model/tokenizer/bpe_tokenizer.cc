#include "model/tokenizer/bpe_tokenizer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "ballast/error.h"
#include "model/checkpoint/strict_json.h"
#include "model/tokenizer/added_tokens.h"
#include "model/tokenizer/bpe.h"
#include "model/tokenizer/bpe_reader.h"
#include "model/tokenizer/checked_json.h"
#include "model/tokenizer/normalizer.h"
#include "model/tokenizer/pre_tokenizer.h"
#include "model/tokenizer/tokenizer_reader.h"

namespace ballast::model {
namespace {

// Positions within a piece are 32-bit.
constexpr std::size_t kMaxTextBytes = std::size_t{1} << 31;

std::vector<AddedToken> only(const std::vector<AddedToken>& tokens, bool normalized) {
  std::vector<AddedToken> selected;
  std::copy_if(tokens.begin(), tokens.end(), std::back_inserter(selected),
               [&](const AddedToken& token) { return token.normalized == normalized; });
  return selected;
}

// Such tokens are looked for in normalized text, so it is their normalized form that is found there.
std::vector<AddedToken> normalize(std::vector<AddedToken> tokens, const Normalizer& normalizer) {
  for (AddedToken& token : tokens) {
    std::string storage;
    token.content = std::string(normalizer.normalize(token.content, storage));
  }
  return tokens;
}

class BpeTokenizer : public Tokenizer {
 public:
  BpeTokenizer(TokenizerSource source, const CheckedJson& json, BpeVocabulary vocabulary, SpecialTokens special)
      : file_(std::move(source.tokenizer_file)),
        json_(std::move(source.tokenizer_json)),
        config_(std::move(source.config)),
        chat_template_(std::move(source.chat_template)),
        bos_(special.bos),
        eos_(special.eos),
        adds_bos_(special.adds_bos),
        normalizer_(json.find("normalizer")),
        pre_tokenizer_(json.at("pre_tokenizer")),
        raw_tokens_(only(special.added, false)),
        normalized_tokens_(normalize(only(special.added, true), normalizer_)),
        bytes_(special.size),
        special_(special.size, false) {
    for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) bytes_[id] = vocabulary.tokens[id].bytes;
    for (const AddedToken& token : special.added) {
      const auto index = static_cast<std::size_t>(token.id);
      bytes_[index] = token.content;
      special_[index] = token.special;
    }
    tokens_ = static_cast<std::size_t>(
        std::count_if(bytes_.begin(), bytes_.end(), [](const std::string& bytes) { return !bytes.empty(); }));
    bpe_.emplace(std::move(vocabulary));
  }

  std::vector<int> encode(std::string_view text) const override {
    if (text.size() >= kMaxTextBytes) throw Error(file_, "texts of 2 GB and more cannot be tokenized in one piece");
    const std::string valid = replace_invalid_utf8(text);
    std::vector<int> ids;
    const PieceSink add_piece = [&](std::string_view piece) { bpe_->encode(piece, ids); };
    const auto add_token = [&](int id) { ids.push_back(id); };
    std::string storage;
    raw_tokens_.scan(
        valid,
        [&](std::string_view between) {
          normalized_tokens_.scan(
              normalizer_.normalize(between, storage),
              [&](std::string_view plain) { pre_tokenizer_.split(plain, add_piece); }, add_token);
        },
        add_token);
    return ids;
  }

  std::string token_bytes(int id) const override { return contains(id) ? bytes_[static_cast<std::size_t>(id)] : ""; }
  bool is_special(int id) const override { return contains(id) && special_[static_cast<std::size_t>(id)]; }
  std::size_t vocab_size() const override { return bytes_.size(); }
  std::optional<int> bos() const override { return bos_; }
  bool adds_bos() const override { return adds_bos_; }
  std::optional<int> eos() const override { return eos_; }

  std::string description() const override {
    return "byte-level BPE, " + std::to_string(tokens_) + " tokens, " +
           std::to_string(std::count(special_.begin(), special_.end(), true)) + " special";
  }

  nlohmann::json to_tokenizer_json() const override { return parse_strict_json(json_, file_); }
  nlohmann::json to_tokenizer_config() const override { return config_; }
  const std::string& chat_template() const override { return chat_template_; }

 private:
  bool contains(int id) const { return id >= 0 && static_cast<std::size_t>(id) < bytes_.size(); }

  std::string file_;
  std::string json_;
  nlohmann::json config_;
  std::string chat_template_;
  std::optional<int> bos_;
  std::optional<int> eos_;
  bool adds_bos_;
  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  AddedTokenFinder raw_tokens_;
  AddedTokenFinder normalized_tokens_;
  std::vector<std::string> bytes_;  // by id; empty for ids that are not used
  std::vector<bool> special_;
  std::size_t tokens_ = 0;
  std::optional<Bpe> bpe_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_tokenizer(TokenizerSource source) {
  const nlohmann::json value = parse_strict_json(source.tokenizer_json, source.tokenizer_file);
  const CheckedJson json(value, source.tokenizer_file + ": ");
  const CheckedJson config(source.config, source.config_file + ": ");
  BpeVocabulary vocabulary = read_bpe(json.at("model"));
  SpecialTokens special = read_special_tokens(json, config, vocabulary);
  const auto in_vocabulary = [&](std::optional<int> id) {
    return id && *id >= 0 && static_cast<std::size_t>(*id) < special.size ? id : std::nullopt;
  };
  if (!special.bos) special.bos = in_vocabulary(source.bos);
  if (!special.eos) special.eos = in_vocabulary(source.eos);
  source.chat_template = read_chat_template(config, std::move(source.chat_template));
  // Whoever writes the configuration elsewhere keeps a template that stood in a file of its own.
  if (!source.chat_template.empty() && !source.config.contains("chat_template")) {
    source.config["chat_template"] = source.chat_template;
  }
  return std::make_unique<BpeTokenizer>(std::move(source), json, std::move(vocabulary), std::move(special));
}

}  // namespace ballast::model
