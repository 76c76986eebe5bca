#include "text/readers/class_tokenizer.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ballast/error.h"
#include "files/json_reader.h"
#include "files/mapped_file.h"
#include "files/strict_json.h"
#include "files/text.h"
#include "files/utf8.h"
#include "text/language_tokens.h"
#include "text/pipeline/added_tokens.h"
#include "text/readers/class_config.h"
#include "text/readers/json_tokenizer.h"
#include "text/readers/language_codes.h"
#include "text/readers/sentencepiece_model.h"
#include "text/readers/tokenizer_reader.h"
#include "text/subword/vocabulary.h"
#include "text/unicode/base64.h"

namespace ballast::text {
namespace {

using files::JsonReader;
using nlohmann::json;
using Texts = std::vector<std::string>;
using enum TokenizerClass;

// What a class determines.
struct ClassRules {
  const char* name;
  const char* model_file;   // the SentencePiece model
  const char* model_type;   // in a tokenizer.json
  const char* source_lang;  // of a text, if the configuration names none; null: the class has no languages
  std::vector<NamedToken> tokens;
};

ClassRules rules_of(TokenizerClass tokenizer_class) {
  const std::vector<NamedToken> fairseq = {{"bos_token", "<s>"},    {"eos_token", "</s>"},  {"unk_token", "<unk>"},
                                           {"sep_token", "</s>"},   {"pad_token", "<pad>"}, {"cls_token", "<s>"},
                                           {"mask_token", "<mask>"}};
  const char* fairseq_file = "sentencepiece.bpe.model";
  switch (tokenizer_class) {
    case kNllb:
      return {"NllbTokenizer", fairseq_file, "BPE", "eng_Latn", fairseq};
    case kMBart:
      return {"MBartTokenizer", fairseq_file, "Unigram", "en_XX", fairseq};
    case kMBart50:
      return {"MBart50Tokenizer", fairseq_file, "Unigram", "en_XX", {fairseq.begin() + 1, fairseq.end()}};
    case kPegasus:
      return {"PegasusTokenizer",
              "spiece.model",
              "Unigram",
              nullptr,
              {{"eos_token", "</s>"}, {"unk_token", "<unk>"}, {"pad_token", "<pad>"}, {"mask_token", "<mask_2>"}}};
    default:
      return {"T5Tokenizer",
              "spiece.model",
              "Unigram",
              nullptr,
              {{"eos_token", "</s>"}, {"unk_token", "<unk>"}, {"pad_token", "<pad>"}}};
  }
}

// Returns the integer option of the configuration, which names a number of tokens.
std::size_t token_count(const JsonReader& config, const char* field, std::size_t fallback) {
  const std::optional<JsonReader> value = config.find(field);
  return value ? value->integer<std::size_t>(0, 4096) : fallback;
}

Texts numbered(std::string_view name, std::size_t begin, std::size_t end) {
  Texts texts;
  for (std::size_t i = begin; i < end; ++i) texts.push_back(files::concat("<", name, "_", i, ">"));
  return texts;
}

json metaspace() {
  return {{"type", "Metaspace"}, {"replacement", kSpaceMark}, {"prepend_scheme", "always"}, {"split", true}};
}

json replace_matches_of(const char* pattern) {
  return {{"type", "Replace"}, {"pattern", {{"Regex", pattern}}}, {"content", " "}};
}

// Returns the class's normalizer; `charsmap` is in base64.
json normalizer_of(TokenizerClass tokenizer_class, const std::string& charsmap) {
  if (tokenizer_class == kMBart) return nullptr;
  json steps = json::array();
  if (!charsmap.empty()) steps.push_back({{"type", "Precompiled"}, {"precompiled_charsmap", charsmap}});
  if (tokenizer_class == kT5) return steps.empty() ? json(nullptr) : steps[0];
  if (charsmap.empty() && tokenizer_class == kNllb) return nullptr;
  if (charsmap.empty() && tokenizer_class == kPegasus) steps.push_back(replace_matches_of("\n"));
  steps.push_back(replace_matches_of(" {2,}"));
  return {{"type", "Sequence"}, {"normalizers", std::move(steps)}};
}

json pre_tokenizer_of(TokenizerClass tokenizer_class) {
  if (tokenizer_class != kT5 && tokenizer_class != kMBart) return metaspace();
  return {{"type", "Sequence"}, {"pretokenizers", json::array({{{"type", "WhitespaceSplit"}}, metaspace()})}};
}

// Returns a template that puts the end token after a text.
json end_template(const std::string& content, int id, bool after_first) {
  const auto text = [](const char* name) { return json{{"Sequence", {{"id", name}, {"type_id", 0}}}}; };
  const json end = {{"SpecialToken", {{"id", content}, {"type_id", 0}}}};
  json pair = json::array({text("A")});
  if (after_first) pair.push_back(end);
  pair.push_back(text("B"));
  pair.push_back(end);
  return {{"type", "TemplateProcessing"},
          {"single", json::array({text("A"), end})},
          {"pair", std::move(pair)},
          {"special_tokens", {{content, {{"id", content}, {"ids", {id}}, {"tokens", {content}}}}}}};
}

// Returns the rules in base64 of the first step Precompiled of a tokenizer.json, empty if there is none.
std::string charsmap_of(const JsonReader& tokenizer) {
  const std::optional<JsonReader> normalizer = tokenizer.find("normalizer");
  if (!normalizer) return {};
  std::vector<JsonReader> steps = {*normalizer};
  if (normalizer->text("type", "") == "Sequence") steps = normalizer->at("normalizers").elements();
  for (const JsonReader& step : steps) {
    if (step.text("type", "") == "Precompiled") return step.text("precompiled_charsmap");
  }
  return {};
}

// Returns the tokens of the model of a tokenizer.json; of two with the same text the last one counts.
TokenIds vocabulary_of(const JsonReader& model) {
  TokenIds ids;
  const JsonReader vocab = model.at("vocab");
  if (vocab.json().is_object()) {
    for (const auto& [text, id] : vocab.members()) ids[std::string(text)] = read_token_id(id);
    return ids;
  }
  int id = 0;
  for (const JsonReader& entry : vocab.elements()) ids[entry.tuple(2)[0].string()] = id++;
  return ids;
}

// Returns the merges that make each piece of all pairs of its parts that are pieces, like transformers.
json merges_of(const std::vector<SentencePiece>& pieces) {
  TokenIds ids;
  for (std::size_t id = 0; id < pieces.size(); ++id) ids[pieces[id].text] = static_cast<int>(id);
  json merges = json::array();
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    const std::string& text = pieces[id].text;
    if (text.empty() || ids[text] != static_cast<int>(id)) continue;
    for (std::size_t cut = files::utf8_step(text, 0).length; cut < text.size();
         cut += files::utf8_step(text, cut).length) {
      std::string left = text.substr(0, cut);
      std::string right = text.substr(cut);
      if (ids.contains(left) && ids.contains(right)) merges.push_back(json::array({std::move(left), std::move(right)}));
    }
  }
  return merges;
}

// Makes the `model` of a tokenizer.json from a SentencePiece model.
class ModelMaker {
 public:
  ModelMaker(TokenizerClass tokenizer_class, const ClassRules& rules, const ClassConfig& config,
             std::vector<SentencePiece> pieces)
      : class_(tokenizer_class), rules_(rules), config_(config), pieces_(std::move(pieces)) {}

  json make() {
    if (class_ == kNllb) return bpe();
    if (class_ == kT5) {
      add_pieces(0);
      Texts sentinels = numbered("extra_id", 0, token_count(config_.reader(), "extra_ids", 100));
      std::ranges::reverse(sentinels);
      add(sentinels, 0);
    } else if (class_ == kPegasus) {
      add({named("pad_token"), named("eos_token")}, 0);
      add_masks();
      add(numbered("unk", 2, token_count(config_.reader(), "offset", 103)), -100);
      add_pieces(2);
    } else {
      add({named("bos_token"), named("pad_token"), named("eos_token"), named("unk_token")}, 0);
      add_pieces(3);
      add(class_ == kMBart ? mbart_language_codes() : mbart50_language_codes(), 0);
      add({named("mask_token")}, 0);
    }
    return {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", std::move(vocab_)}, {"byte_fallback", false}};
  }

 private:
  std::string named(const char* name) const {
    if (const std::optional<AddedToken> token = config_.named_token(name)) return token->content;
    for (const NamedToken& token : rules_.tokens) {
      if (std::string_view(token.name) == name) return token.content;
    }
    return "<s>";
  }

  // transformers names the masks the other way around if the configuration does not.
  void add_masks() {
    const std::optional<AddedToken> token = config_.named_token("mask_token");
    const std::string mask = token ? token->content : "<mask_1>";
    const std::string sentence_mask = config_.reader().text("mask_token_sent", "<mask_2>");
    add({mask}, 0);
    if (sentence_mask != mask) add({sentence_mask}, 0);
  }

  void add(const Texts& texts, double score) {
    for (const std::string& text : texts) vocab_.push_back({text, score});
  }

  void add_pieces(std::size_t begin) {
    for (std::size_t id = begin; id < pieces_.size(); ++id) {
      vocab_.push_back({pieces_[id].text, static_cast<double>(pieces_[id].score)});
    }
  }

  json bpe() const {
    json vocab = json::object();
    for (const char* name : {"bos_token", "pad_token", "eos_token", "unk_token"}) {
      const std::size_t id = vocab.size();
      vocab.emplace(named(name), id);
    }
    for (const SentencePiece& piece : pieces_) {
      const std::size_t id = vocab.size();
      vocab.emplace(piece.text, id);  // nothing for a text that is there
    }
    return {{"type", "BPE"}, {"vocab", std::move(vocab)}, {"merges", merges_of(pieces_)}};
  }

  TokenizerClass class_;
  const ClassRules& rules_;
  const ClassConfig& config_;
  std::vector<SentencePiece> pieces_;
  json vocab_ = json::array();
};

// Returns the class's own special tokens without a name. `listed`: those of special_tokens_map.json, or the model's.
std::vector<AddedToken> class_extra_tokens(TokenizerClass tokenizer_class, const ClassConfig& config,
                                           const std::optional<std::vector<AddedToken>>& listed) {
  std::vector<AddedToken> tokens;
  const auto add = [&](const Texts& texts) {
    for (const std::string& text : texts) {
      if (std::ranges::count(tokens, text, &AddedToken::content) == 0) {
        tokens.push_back({.content = text, .special = true});
      }
    }
  };
  const auto add_listed = [&] {
    if (listed) tokens.insert(tokens.end(), listed->begin(), listed->end());
  };
  const auto is_sentinel = [](const AddedToken& token) {
    return token.content.find("<extra_id_") != std::string::npos;
  };
  switch (tokenizer_class) {
    case kT5:
      add_listed();
      if (std::ranges::none_of(tokens, is_sentinel)) {
        add(numbered("extra_id", 0, token_count(config.reader(), "extra_ids", 100)));
      }
      break;
    case kNllb:
      add_listed();
      if (!listed) add(nllb_language_codes());
      break;
    case kMBart:
      add(mbart_language_codes());
      if (listed) {
        for (const AddedToken& token : *listed) {
          if (std::ranges::count(tokens, token.content, &AddedToken::content) == 0) tokens.push_back(token);
        }
      }
      break;
    case kMBart50:
      add_listed();
      add(mbart50_language_codes());
      break;
    default: {
      const std::string mask = config.reader().text("mask_token_sent", "<mask_1>");
      const bool known = listed && std::ranges::count(*listed, mask, &AddedToken::content) > 0;
      if (!known) add({mask});
      add(numbered("unk", 2, token_count(config.reader(), "offset", 103)));
    }
  }
  return tokens;
}

std::vector<AddedToken> model_special_tokens(const std::vector<SentencePiece>& pieces) {
  std::vector<AddedToken> tokens;
  for (const SentencePiece& piece : pieces) {
    const bool control = piece.type == SentencePiece::Type::kControl;
    if (!control && piece.type != SentencePiece::Type::kUserDefined) continue;
    tokens.push_back({.content = piece.text, .special = control});
  }
  return tokens;
}

class ClassReader {
 public:
  ClassReader(TokenizerClass tokenizer_class, const std::filesystem::path& directory, TokenizerSource source)
      : class_(tokenizer_class),
        rules_(rules_of(tokenizer_class)),
        directory_(directory),
        config_(directory, source.config, source.config_file),
        source_(std::move(source)) {}

  std::unique_ptr<Tokenizer> read() {
    const bool has_json = std::filesystem::exists(directory_ / kTokenizerJson);
    if (!has_json && !std::filesystem::exists(directory_ / rules_.model_file)) return nullptr;
    source_.tokenizer_file = (directory_ / (has_json ? kTokenizerJson : rules_.model_file)).string();
    std::string content = files::read_whole_file(source_.tokenizer_file);
    has_json ? read_json(std::move(content)) : read_model(content);
    complete_config();
    // transformers builds the steps only for this type of model.
    const JsonReader tokenizer(tokenizer_, source_.tokenizer_file);
    if (tokenizer.at("model").text("type", rules_.model_type) != rules_.model_type) {
      return make_tokenizer(std::move(source_));
    }
    const std::string charsmap = charsmap_of(tokenizer);
    const TokenIds vocabulary = vocabulary_of(tokenizer.at("model"));
    std::optional<LanguageTokens> languages = set_tokens(vocabulary);
    tokenizer_["normalizer"] = normalizer_of(class_, charsmap);
    tokenizer_["pre_tokenizer"] = pre_tokenizer_of(class_);
    tokenizer_["decoder"] = metaspace();
    if (!has_json) source_.tokenizer_data = tokenizer_.dump();
    return make_tokenizer(std::move(source_), tokenizer_, {.languages = std::move(languages)});
  }

 private:
  void read_json(std::string content) {
    tokenizer_ = files::parse_strict_json(content, source_.tokenizer_file);
    JsonReader(tokenizer_, source_.tokenizer_file).object("model");
    listed_ = config_.listed_in_map();
    source_.tokenizer_data = std::move(content);
  }

  void read_model(std::string_view content) {
    SentencePieceModel model = read_sentencepiece_model(content, source_.tokenizer_file);
    listed_ = model_special_tokens(model.pieces);
    tokenizer_ = {{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}, {"added_tokens", json::array()}};
    if (!model.charsmap.empty()) {
      tokenizer_["normalizer"] = {{"type", "Precompiled"}, {"precompiled_charsmap", encode_base64(model.charsmap)}};
    }
    tokenizer_["model"] = ModelMaker(class_, rules_, config_, std::move(model.pieces)).make();
  }

  // Sets the class's name and special tokens, so that files() are read in the same way.
  void complete_config() {
    source_.config["tokenizer_class"] = rules_.name;
    config_.write_names(rules_.tokens, source_.config);
  }

  // Completes model, added tokens and the tokens around a text; returns the latter where they depend on a language.
  std::optional<LanguageTokens> set_tokens(const TokenIds& vocabulary) {
    AddedTokenList added(vocabulary, tokenizer_["model"]["vocab"].size());
    std::map<int, AddedToken> listed = config_.added_tokens();
    if (!config_.lists_added_tokens()) {
      const JsonReader tokenizer(tokenizer_, source_.tokenizer_file);
      if (const std::optional<JsonReader> list = tokenizer.find("added_tokens")) {
        for (const JsonReader& node : list->elements()) listed[read_token_id(node.at("id"))] = read_added_token(node);
      }
    }
    std::set<std::string> names;
    for (const NamedToken& token : rules_.tokens) names.insert(config_.named_token(token).content);
    for (auto& [id, token] : listed) {
      token.special = token.special || names.contains(token.content);
      added.add(std::move(token));
    }
    for (const NamedToken& token : rules_.tokens) add_named(token, added);
    const std::optional<std::vector<AddedToken>> extra = config_.extra_tokens();
    for (const AddedToken& token : extra ? *extra : class_extra_tokens(class_, config_, listed_)) added.add(token);

    set_unknown(source_.config["unk_token"].get<std::string>(), added);
    const std::string end = source_.config["eos_token"].get<std::string>();
    const std::optional<int> end_id = added.find(end);
    if (!end_id) throw Error(source_.config_file, "eos_token must not be empty");
    std::optional<LanguageTokens> languages;
    if (rules_.source_lang != nullptr) {
      languages = read_languages(added, *end_id);
      tokenizer_["post_processor"] = nullptr;
    } else {
      tokenizer_["post_processor"] = end_template(end, *end_id, class_ == kT5);
    }
    tokenizer_["added_tokens"] = added.take();
    return languages;
  }

  void add_named(const NamedToken& token, AddedTokenList& added) const {
    AddedToken named = config_.named_token(token);
    // A mask that is given as a text takes the space before it.
    if (std::string_view(token.name) == "mask_token" && class_ != kPegasus && !config_.has_properties("mask_token")) {
      named.lstrip = true;
      named.normalized = true;
    }
    added.add(std::move(named));
  }

  void set_unknown(const std::string& unknown, const AddedTokenList& added) {
    json& model = tokenizer_["model"];
    if (class_ == kNllb) {
      model["unk_token"] = unknown;
      model["fuse_unk"] = true;
      model["byte_fallback"] = false;
      return;
    }
    std::optional<int> id = class_ == kT5 ? 2 : 3;
    if (class_ == kPegasus) id = added.find(unknown);
    if (!id || static_cast<std::size_t>(*id) >= model["vocab"].size()) {
      throw Error(source_.tokenizer_file, "the vocabulary has no unknown token " + files::in_quotes(unknown));
    }
    model["unk_id"] = *id;
    model["byte_fallback"] = false;
  }

  LanguageTokens read_languages(const AddedTokenList& added, int end) const {
    LanguageTokens::Options options;
    options.end_token = end;
    const JsonReader config = config_.reader();
    const bool after_end = class_ == kMBart || (class_ == kNllb && config.flag("legacy_behaviour", false));
    using Position = LanguageTokens::Position;
    options.position = after_end ? Position::kAfterEndToken : Position::kBeforeText;
    for (const auto& [text, id] : added.ids()) {
      if (is_language_code(text)) options.ids.emplace(text, id);
    }
    for (const std::string& code : class_ == kMBart     ? mbart_language_codes()
                                   : class_ == kMBart50 ? mbart50_language_codes()
                                                        : nllb_language_codes()) {
      if (const std::optional<int> id = added.find(code)) options.ids.emplace(code, *id);
    }
    options.default_source = config.text("src_lang", rules_.source_lang);
    options.default_target = config.text("tgt_lang", "");
    return {std::move(options), source_.config_file};
  }

  TokenizerClass class_;
  ClassRules rules_;
  std::filesystem::path directory_;
  ClassConfig config_;
  TokenizerSource source_;
  json tokenizer_;
  std::optional<std::vector<AddedToken>> listed_;
};

}  // namespace

std::unique_ptr<Tokenizer> read_class_tokenizer(TokenizerClass tokenizer_class, const std::filesystem::path& directory,
                                                TokenizerSource source) {
  return ClassReader(tokenizer_class, directory, std::move(source)).read();
}

}  // namespace ballast::text
