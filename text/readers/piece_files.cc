#include "text/readers/piece_files.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ballast/error.h"
#include "files/json_reader.h"
#include "files/mapped_file.h"
#include "files/strict_json.h"
#include "files/text.h"
#include "text/assembled_tokenizer.h"
#include "text/language_tokens.h"
#include "text/pipeline/post_processor.h"
#include "text/pipeline/token_decoder.h"
#include "text/readers/class_config.h"
#include "text/readers/language_codes.h"
#include "text/readers/sentencepiece_model.h"
#include "text/readers/tokenizer_reader.h"
#include "text/subword/piece_encoder.h"
#include "text/subword/vocabulary.h"

namespace ballast::text {
namespace {

constexpr const char* kVocabulary = "vocab.json";

struct PieceVocabulary {
  std::shared_ptr<const TokenTable> texts;
  TokenIds ids;
};

class PieceReader {
 public:
  PieceReader(const std::filesystem::path& directory, TokenizerSource source, std::vector<NamedToken> names)
      : directory_(directory),
        config_(directory, source.config, source.config_file),
        names_(std::move(names)),
        source_(std::move(source)) {
    config_.write_names(names_, source_.config);
  }

  files::JsonReader config() const { return config_.reader(); }
  std::string path_of(const char* name) const { return (directory_ / name).string(); }

  PieceVocabulary read_vocabulary_file(const char* name) {
    const std::string file = path_of(name);
    const std::string content = read(name);
    const nlohmann::json value = files::parse_json_object(content, file);
    const files::JsonReader vocab(value, file);
    PieceVocabulary vocabulary = {.texts = read_vocabulary(vocab), .ids = {}};
    for (const auto& [text, id] : vocab.members()) vocabulary.ids[std::string(text)] = read_token_id(id);
    unknown_in(vocabulary, file);
    return vocabulary;
  }

  std::unique_ptr<TextEncoder> encoder(const char* name, const PieceVocabulary& vocabulary, bool language_codes) {
    std::string model = read(name);
    read_sentencepiece_model(model, path_of(name));  // the library accepts a part of a model
    return make_piece_encoder({.bytes = std::move(model),
                               .file = path_of(name),
                               .vocabulary = vocabulary.texts,
                               .unknown = unknown_in(vocabulary, path_of(kVocabulary)),
                               .language_codes = language_codes});
  }

  // Lists the added tokens. Ids start at `size` for tokens that the vocabulary does not have.
  AddedTokenList added_tokens(const PieceVocabulary& vocabulary, std::size_t size) {
    std::vector<AddedToken> named;
    for (const NamedToken& name : names_) named.push_back(config_.named_token(name));
    std::optional<std::vector<AddedToken>> extra = config_.extra_tokens();
    if (!extra) extra = config_.listed_in_map();
    return python_added_tokens(config_, AddedTokenList(vocabulary.ids, size), named,
                               extra.value_or(std::vector<AddedToken>()), source_.config);
  }

  std::unique_ptr<Tokenizer> make(const char* data_name, TokenizerParts parts, nlohmann::json added,
                                  const TokenTable& texts) {
    const nlohmann::json listed = {{"added_tokens", std::move(added)}, {"model", nlohmann::json::object()}};
    const files::JsonReader tokenizer(listed, path_of(kVocabulary));
    const files::JsonReader config(source_.config, source_.config_file);
    parts.special = read_special_tokens(tokenizer, config, texts);
    parts.special.size = std::max(parts.special.size, parts.tokens->size());
    if (!parts.languages) {
      if (!parts.special.eos) throw Error(path_of(kVocabulary), "has no end token");
      parts.special.frame = {.prefix = {}, .suffix = {*parts.special.eos}, .pair = {}};
      parts.special.frame.pair = joined_pair(parts.special.frame);
    }
    parts.data_name = data_name;
    parts.kind = "SentencePiece with vocabulary";
    parts.drops_first_space = true;
    parts.decoding_rules = {.strip = true, .clean_up = config_.cleans_up()};
    parts.decode = [](std::string_view piece) { return replace_all(piece, kSpaceMark, " "); };
    source_.tokenizer_file = path_of(data_name);
    return assemble_tokenizer(std::move(source_), std::move(parts));
  }

 private:
  // Reads a file, which files() of the tokenizer returns.
  std::string read(const char* name) {
    if (!std::filesystem::exists(directory_ / name)) throw Error(path_of(name), "is missing");
    std::string content = files::read_whole_file(directory_ / name);
    if (source_.tokenizer_data.empty()) {
      source_.tokenizer_data = content;
    } else {
      source_.other_files.push_back({name, content});
    }
    return content;
  }

  int unknown_in(const PieceVocabulary& vocabulary, const std::string& file) const {
    for (const NamedToken& name : names_) {
      if (std::string_view(name.name) != "unk_token") continue;
      const std::string unknown = config_.named_token(name).content;
      if (const auto id = vocabulary.ids.find(unknown); id != vocabulary.ids.end()) return id->second;
      throw Error(file, "has no token " + files::in_quotes(unknown) + ", which replaces unknown ones");
    }
    return 0;
  }

  std::filesystem::path directory_;
  ClassConfig config_;
  std::vector<NamedToken> names_;
  TokenizerSource source_;
};

// Returns the texts followed by the tokens of languages.
std::shared_ptr<const TokenTable> with_languages(const TokenTable& texts, const std::vector<std::string>& codes) {
  auto table = std::make_shared<TokenTable>();
  for (std::size_t id = 0; id < texts.size(); ++id) table->add(texts[id]);
  for (const std::string& code : codes) table->add("__" + code + "__");
  return table;
}

}  // namespace

std::unique_ptr<Tokenizer> read_marian(const std::filesystem::path& directory, TokenizerSource source) {
  if (!std::filesystem::exists(directory / kVocabulary)) return nullptr;
  source.config["tokenizer_class"] = "MarianTokenizer";
  PieceReader reader(directory, std::move(source),
                     {{"eos_token", "</s>"}, {"unk_token", "<unk>"}, {"pad_token", "<pad>"}});
  const bool separate = reader.config().flag("separate_vocabs", false);
  const PieceVocabulary vocabulary = reader.read_vocabulary_file(kVocabulary);
  const PieceVocabulary target = separate ? reader.read_vocabulary_file("target_vocab.json") : vocabulary;
  TokenizerParts parts;
  parts.encoder = reader.encoder("source.spm", vocabulary, true);
  parts.target_encoder = reader.encoder("target.spm", target, true);
  parts.tokens = target.texts;
  AddedTokenList added = reader.added_tokens(vocabulary, vocabulary.ids.size());
  return reader.make(kVocabulary, std::move(parts), added.take(), *vocabulary.texts);
}

std::unique_ptr<Tokenizer> read_m2m100(const std::filesystem::path& directory, TokenizerSource source) {
  if (!std::filesystem::exists(directory / kVocabulary)) return nullptr;
  source.config["tokenizer_class"] = "M2M100Tokenizer";
  const std::string config_file = source.config_file;
  PieceReader reader(directory, std::move(source),
                     {{"bos_token", "<s>"},
                      {"eos_token", "</s>"},
                      {"unk_token", "<unk>"},
                      {"sep_token", "</s>"},
                      {"pad_token", "<pad>"}});
  const PieceVocabulary vocabulary = reader.read_vocabulary_file(kVocabulary);
  const std::size_t size = vocabulary.ids.size();
  if (vocabulary.texts->size() != size) {
    throw Error(reader.path_of(kVocabulary),
                files::concat(size, " tokens have ids up to ", vocabulary.texts->size() - 1,
                              ": the languages' tokens, which follow, would have ids of others"));
  }
  const std::string list = reader.config().text("language_codes", "m2m100");
  if (list != "m2m100" && list != "wmt21") {
    reader.config().fail("language_codes", files::in_quotes(list) + " is unknown; m2m100 and wmt21 are known");
  }
  const std::vector<std::string> codes = list == "wmt21" ? wmt21_language_codes() : m2m100_language_codes();
  TokenizerParts parts;
  parts.encoder = reader.encoder("sentencepiece.bpe.model", vocabulary, false);
  parts.tokens = with_languages(*vocabulary.texts, codes);
  AddedTokenList added = reader.added_tokens(vocabulary, size);
  LanguageTokens::Options options;
  options.end_token = added.find(reader.config().text("eos_token", "</s>")).value_or(0);
  options.default_source = reader.config().text("src_lang", "en");
  options.default_target = reader.config().text("tgt_lang", "");
  for (std::size_t i = 0; i < codes.size(); ++i) options.ids.emplace(codes[i], static_cast<int>(size + i));
  parts.languages.emplace(std::move(options), config_file);
  const std::shared_ptr<const TokenTable> texts = parts.tokens;
  return reader.make(kVocabulary, std::move(parts), added.take(), *texts);
}

}  // namespace ballast::text
