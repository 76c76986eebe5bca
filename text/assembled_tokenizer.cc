#include "text/assembled_tokenizer.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "ballast/error.h"
#include "files/text.h"
#include "files/utf8.h"
#include "text/pipeline/added_tokens.h"
#include "text/unicode/regex.h"

namespace ballast::text {
namespace {

// Positions within a piece are 32-bit.
constexpr std::size_t kMaxTextBytes = std::size_t{1} << 31;

// The part of a possibly too long text that is read first: at least this many bytes, and for each allowed token more
// bytes than almost any language needs.
constexpr std::size_t kFirstBytes = std::size_t{64} << 10;
constexpr std::size_t kUsualTokenBytes = 8;

std::vector<AddedToken> raw_tokens(const std::vector<AddedToken>& added) {
  std::vector<AddedToken> tokens;
  std::ranges::copy_if(added, std::back_inserter(tokens), [](const AddedToken& token) { return !token.normalized; });
  return tokens;
}

// Returns the parts of `ranges` in [begin, end), relative to `begin`.
std::vector<ByteRange> ranges_within(std::span<const ByteRange> ranges, std::size_t begin, std::size_t end) {
  std::vector<ByteRange> within;
  auto range = std::ranges::upper_bound(ranges, begin, {}, &ByteRange::end);
  for (; range != ranges.end() && range->begin < end; ++range) {
    within.push_back({std::max(range->begin, begin) - begin, std::min(range->end, end) - begin});
  }
  return within;
}

class AssembledTokenizer : public Tokenizer {
 public:
  AssembledTokenizer(TokenizerSource source, TokenizerParts parts)
      : source_(std::move(source)),
        data_name_(std::move(parts.data_name)),
        kind_(std::move(parts.kind)),
        encoder_(std::move(parts.encoder)),
        target_encoder_(std::move(parts.target_encoder)),
        byte_level_(parts.byte_level),
        drops_first_space_(parts.drops_first_space),
        decoding_rules_(parts.decoding_rules),
        bos_(parts.special.bos),
        eos_(parts.special.eos),
        frame_(std::move(parts.special.frame)),
        languages_(std::move(parts.languages)),
        raw_tokens_(raw_tokens(parts.special.added)),
        tokens_(std::move(parts.tokens)),
        decode_(std::move(parts.decode)),
        special_(parts.special.size, false) {
    for (AddedToken& token : parts.special.added) {
      special_[static_cast<std::size_t>(token.id)] = token.special;
      added_.emplace(token.id, std::move(token.content));
    }
    for (const RepeatedToken& token : parts.special.repeated) {
      special_[static_cast<std::size_t>(token.id)] = token.special;
      repeated_.emplace(token.id, token.same_as);
    }
  }

  std::vector<int> encode(std::string_view text, std::span<const ByteRange> plain, std::size_t most) const override {
    check_size(text);
    // Tokens at the end of a prefix may differ from those of the whole text, also in number.
    constexpr std::size_t kNotSure = 64;
    constexpr double kLongestMatching = 10;  // seconds
    std::optional<MatchingTime> time;
    if (most != kNoLimit) time.emplace(kLongestMatching);
    const std::size_t enough = most < kMaxTextBytes ? most + kNotSure : kMaxTextBytes;
    for (std::size_t size = std::max(kFirstBytes, kUsualTokenBytes * enough); size < text.size(); size *= 4) {
      while (size > 0 && files::continues_code_point(text[size])) --size;
      if (size == 0) break;
      std::vector<int> ids = encode_all(*encoder_, text.substr(0, size), plain);
      if (ids.size() > enough) return ids;
    }
    return encode_all(*encoder_, text, plain);
  }

  std::vector<int> encode_target(std::string_view text) const override {
    check_size(text);
    return encode_all(target_encoder_ ? *target_encoder_ : *encoder_, text, {});
  }

  std::vector<std::string> languages() const override {
    return languages_ ? languages_->languages() : std::vector<std::string>();
  }
  TextFrame source_frame(std::string_view language) const override {
    if (!languages_) return Tokenizer::source_frame(language);
    TextFrame frame = languages_->source_frame(language);
    check_rows(frame.before);
    check_rows(frame.after);
    return frame;
  }
  std::vector<int> target_start(std::string_view language) const override {
    if (!languages_) return Tokenizer::target_start(language);
    std::vector<int> start = languages_->target_start(language);
    check_rows(start);
    return start;
  }

  std::string token_bytes(int id) const override {
    if (const auto other = repeated_.find(id); other != repeated_.end()) id = other->second;
    if (const auto added = added_.find(id); added != added_.end()) return added->second;
    const auto index = static_cast<std::size_t>(id);
    if (id < 0 || index >= tokens_->size() || (*tokens_)[index].empty()) return {};
    return decode_ ? decode_((*tokens_)[index]) : std::string((*tokens_)[index]);
  }
  bool is_byte_level() const override { return byte_level_; }
  bool drops_first_space() const override { return drops_first_space_; }
  DecodingRules decoding_rules() const override { return decoding_rules_; }
  bool is_special(int id) const override {
    return id >= 0 && static_cast<std::size_t>(id) < special_.size() && special_[static_cast<std::size_t>(id)];
  }
  bool is_added(int id) const override { return added_.contains(id) || repeated_.contains(id); }
  void set_embedding_rows(std::size_t rows) override { embedding_rows_ = rows; }
  std::size_t vocab_size() const override { return special_.size(); }
  const std::vector<int>& leading_special_tokens() const override { return frame_.prefix; }
  const std::vector<int>& suffix() const override { return frame_.suffix; }
  const std::vector<PairPart>& pair_parts() const override { return frame_.pair; }
  std::optional<int> bos() const override { return bos_; }
  std::optional<int> eos() const override { return eos_; }

  const nlohmann::json& special_tokens() const override { return source_.special_tokens; }
  const std::vector<std::string>& warnings() const override { return source_.warnings; }

  std::string description() const override {
    std::size_t tokens = 0;
    for (std::size_t id = 0; id < vocab_size(); ++id) tokens += token_bytes(static_cast<int>(id)).empty() ? 0 : 1;
    return kind_ + ", " + std::to_string(tokens) + " tokens, " + std::to_string(std::ranges::count(special_, true)) +
           " special";
  }

  std::vector<TokenizerFile> files() const override {
    assert(!source_.tokenizer_data.empty());
    std::vector<TokenizerFile> files = {{data_name_, source_.tokenizer_data}};
    files.insert(files.end(), source_.other_files.begin(), source_.other_files.end());
    files.push_back({"tokenizer_config.json", source_.config.dump(2) + "\n"});
    return files;
  }
  // Names those special tokens in special_tokens() that are known only by id; a name that the configuration sets to
  // null has no token.
  void complete_special_tokens() {
    const auto complete = [&](const char* name, std::optional<int> id) {
      if (!id || source_.special_tokens.contains(name) || source_.config.contains(name)) return;
      source_.special_tokens[name] = files::replace_invalid_utf8(token_bytes(*id));
    };
    complete("bos_token", bos_);
    complete("eos_token", eos_);
  }

  void forget_files() override {
    std::string().swap(source_.tokenizer_data);  // assigning an empty string would keep its memory
    std::vector<TokenizerFile>().swap(source_.other_files);
    source_.config = nullptr;
  }
  const std::string& chat_template() const override { return source_.chat_template; }
  const std::string& tool_chat_template() const override { return source_.tool_chat_template; }
  void set_chat_template(std::string chat_template) override {
    source_.chat_template = std::move(chat_template);
    source_.tool_chat_template.clear();
  }

 private:
  void check_size(std::string_view text) const {
    if (text.size() < kMaxTextBytes) return;
    throw Error(source_.tokenizer_file, "texts of 2 GB and more cannot be tokenized in one piece");
  }

  std::vector<int> encode_all(const TextEncoder& encoder, std::string_view text,
                              std::span<const ByteRange> plain) const {
    const std::string valid = files::replace_invalid_utf8(text);
    std::vector<int> ids;
    raw_tokens_.scan(
        valid, plain,
        [&](std::string_view between) {
          const auto begin = static_cast<std::size_t>(between.data() - valid.data());
          encode_between(encoder, between, ranges_within(plain, begin, begin + between.size()), begin == 0, ids);
        },
        [&](int id) { ids.push_back(id); });
    check_rows(ids);
    return ids;
  }

  void check_rows(std::span<const int> ids) const {
    for (const int id : ids) {
      if (static_cast<std::size_t>(id) < embedding_rows_) continue;
      throw Error("token " + files::in_quotes(token_bytes(id)),
                  files::concat("has the id ", id, ", and the model's embedding ", embedding_rows_,
                                " rows: the model cannot read this token, leave it out of the text"));
    }
  }

  // Some encoders find special tokens themselves: normalized ones, SentencePiece's own. If one contains a byte of
  // `plain`, the text is split inside it.
  void encode_between(const TextEncoder& encoder, std::string_view text, std::span<const ByteRange> plain,
                      bool begins_input, std::vector<int>& ids) const {
    std::vector<int> more;
    encoder.encode(text, begins_input, more);
    std::set<int> special;
    for (const int id : more) {
      if (!plain.empty() && is_special(id)) special.insert(id);
    }
    std::set<std::size_t> cuts;
    for (const int id : special) {
      const std::string token = token_bytes(id);
      for (std::size_t at = text.find(token); !token.empty() && at < text.size(); at = text.find(token, at + 1)) {
        if (overlaps_any(plain, at, at + token.size())) cuts.insert(at + files::utf8_step(text, at).length);
      }
    }
    if (!cuts.empty()) more.clear();
    std::size_t done = 0;
    for (const std::size_t cut : cuts) {
      encoder.encode(text.substr(done, cut - done), begins_input && done == 0, more);
      done = cut;
    }
    if (!cuts.empty() && done < text.size()) encoder.encode(text.substr(done), false, more);
    ids.insert(ids.end(), more.begin(), more.end());
  }

  TokenizerSource source_;
  std::string data_name_;
  std::string kind_;
  std::unique_ptr<TextEncoder> encoder_;
  std::unique_ptr<TextEncoder> target_encoder_;  // null: encoder_
  bool byte_level_;
  bool drops_first_space_;
  DecodingRules decoding_rules_;
  std::optional<int> bos_;
  std::optional<int> eos_;
  TokenTemplate frame_;
  std::optional<LanguageTokens> languages_;
  AddedTokenFinder raw_tokens_;
  std::shared_ptr<const TokenTable> tokens_;
  std::function<std::string(std::string_view)> decode_;
  std::unordered_map<int, std::string> added_;  // contents by id
  std::unordered_map<int, int> repeated_;       // ids with the text of another one
  std::size_t embedding_rows_ = std::numeric_limits<std::size_t>::max();
  std::vector<bool> special_;
};

std::string repeated_text(const TokenizerParts& parts) {
  const RepeatedToken& first = parts.special.repeated.front();
  const std::size_t others = parts.special.repeated.size() - 1;
  const auto index = static_cast<std::size_t>(first.same_as);
  std::string text(index < parts.tokens->size() ? (*parts.tokens)[index] : "");
  for (const AddedToken& token : parts.special.added) {
    if (token.id == first.same_as) text = token.content;
  }
  return files::concat("token ", files::in_quotes(text), " is there twice, with ids ", first.same_as, " and ", first.id,
                       others == 0 ? std::string() : files::concat(", and ", others, " more are"),
                       ": a text becomes the first");
}

}  // namespace

std::unique_ptr<Tokenizer> assemble_tokenizer(TokenizerSource source, TokenizerParts parts) {
  const auto in_vocabulary = [&](std::optional<int> id) {
    return id && *id >= 0 && static_cast<std::size_t>(*id) < parts.special.size ? id : std::nullopt;
  };
  if (!parts.special.bos) parts.special.bos = in_vocabulary(source.bos);
  if (!parts.special.eos) parts.special.eos = in_vocabulary(source.eos);
  const files::JsonReader config(source.config, source.config_file);
  source.special_tokens = read_special_token_names(config);
  if (source.tool_chat_template.empty()) source.tool_chat_template = read_named_chat_template(config, "tool_use");
  if (source.chat_template.empty()) source.chat_template = read_chat_template(config);
  // Writers of the configuration keep a template that was in its own file.
  if (!source.chat_template.empty() && !source.config.contains("chat_template")) {
    source.config["chat_template"] = source.chat_template;
  }
  if (parts.languages) {
    TextFrame frame = parts.languages->source_frame("");
    parts.special.frame = {.prefix = std::move(frame.before), .suffix = std::move(frame.after), .pair = {}};
    parts.special.frame.pair = joined_pair(parts.special.frame);
  }
  if (!parts.special.repeated.empty()) source.warnings.push_back(repeated_text(parts));
  auto tokenizer = std::make_unique<AssembledTokenizer>(std::move(source), std::move(parts));
  tokenizer->complete_special_tokens();
  return tokenizer;
}

}  // namespace ballast::text
