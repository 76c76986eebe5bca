#include "text/readers/ranked_vocabulary.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "ballast/error.h"
#include "files/json_reader.h"
#include "files/strict_json.h"
#include "files/text.h"
#include "text/pipeline/pre_tokenizer_families.h"
#include "text/readers/tokenizer_json_parts.h"
#include "text/subword/token_table.h"
#include "text/subword/vocabulary.h"
#include "text/unicode/base64.h"
#include "text/unicode/byte_alphabet.h"

namespace ballast::text {
namespace {

using nlohmann::json;

// A token of n bytes is split at n - 1 positions.
constexpr std::size_t kMaxTokenBytes = 4096;

// Byte tokens by rank; unused ranks are empty.
class RankedTokens {
 public:
  // Returns an error message, or nullopt.
  std::optional<std::string> add(std::string_view base64, std::size_t rank) {
    const std::optional<std::string> bytes = decode_base64(base64);
    if (!bytes) return files::in_quotes(base64) + " is not base64";
    if (bytes->empty()) return "a token has no bytes";
    if (bytes->size() > kMaxTokenBytes) return files::concat("a token has ", bytes->size(), " bytes: too many");
    if (rank >= texts_.size()) texts_.resize(rank + 1);
    if (!texts_[rank].empty()) return files::concat("rank ", rank, " is given twice");
    texts_[rank] = *bytes;
    ++count_;
    return std::nullopt;
  }

  // Returns the model of a tokenizer.json, in which rank 0 has the id `first_id`.
  json model(std::size_t first_id, const std::string& file) {
    check(file);
    json vocab = json::object();
    json merges = json::array();
    for (std::size_t rank = 0; rank < texts_.size(); ++rank) {
      if (texts_[rank].empty()) continue;
      if (!vocab.emplace(alphabet_of_bytes(texts_[rank]), first_id + rank).second) {
        throw Error(file, "token " + files::in_quotes(texts_[rank]) + " is there twice");
      }
      add_merges(texts_[rank], merges);
    }
    return {{"vocab", std::move(vocab)}, {"merges", std::move(merges)}};
  }

  std::size_t size() const { return texts_.size(); }

 private:
  void check(const std::string& file) {
    if (texts_.size() > 2 * count_ + 4096) {
      throw Error(file, files::concat(count_, " tokens have ranks up to ", texts_.size() - 1, "; the file is damaged"));
    }
    for (const std::string& text : texts_) ranks_.add(text);
    for (int byte = 0; byte < 256; ++byte) {
      const char c = static_cast<char>(byte);
      if (!ranks_.find({&c, 1})) {
        throw Error(file, "has no token " + files::in_quotes(byte_token(static_cast<unsigned char>(byte))) +
                              " of one byte, of which every text is made");
      }
    }
  }

  // Adds all pairs of tokens that form this one. Pairs with the same result have the order of transformers.
  void add_merges(std::string_view text, json& merges) const {
    std::vector<std::pair<int, int>> pairs;
    for (std::size_t cut = 1; cut < text.size(); ++cut) {
      const std::optional<int> left = ranks_.find(text.substr(0, cut));
      const std::optional<int> right = left ? ranks_.find(text.substr(cut)) : std::nullopt;
      if (right) pairs.emplace_back(*left, *right);
    }
    std::ranges::sort(pairs);
    for (const auto& [left, right] : pairs) {
      merges.push_back(alphabet_of_bytes(ranks_[static_cast<std::size_t>(left)]) + " " +
                       alphabet_of_bytes(ranks_[static_cast<std::size_t>(right)]));
    }
  }

  std::vector<std::string> texts_;
  std::size_t count_ = 0;
  TokenTable ranks_;
};

struct RankLine {
  std::string_view base64;
  std::size_t rank;
};

std::optional<RankLine> parse_rank_line(std::string_view line) {
  const std::size_t space = line.find(' ');
  if (space == 0 || space == std::string_view::npos) return std::nullopt;
  RankLine parsed{line.substr(0, space), 0};
  const auto [end, error] = std::from_chars(line.data() + space + 1, line.data() + line.size(), parsed.rank);
  if (error != std::errc() || end != line.data() + line.size() || parsed.rank > kMaxTokenId) return std::nullopt;
  return parsed;
}

std::string_view take_line(std::string_view& rest) {
  const std::size_t end = std::min(rest.find('\n'), rest.size());
  std::string_view line = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

void list_token(json& config, std::size_t id, const std::string& content) {
  json& listed = config["added_tokens_decoder"];
  if (!listed.contains(std::to_string(id))) listed[std::to_string(id)] = {{"content", content}, {"special", true}};
}

// Adds the tokens that the tokenizers' own code adds to the ranks.
void list_family_tokens(const std::string& family, std::size_t first, json& config) {
  if (config.contains("added_tokens_decoder") && !config["added_tokens_decoder"].is_object()) return;
  if (family == "kimi-k2") {
    for (std::size_t id = first; id < first + 256; ++id) {
      list_token(config, id, files::concat("<|reserved_token_", id, "|>"));
    }
  } else if (family == "qwen2") {
    for (const char* token : {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}) list_token(config, first++, token);
    for (int extra = 0; extra < 205; ++extra) list_token(config, first++, files::concat("<|extra_", extra, "|>"));
  }
}

// Special tokens of versions up to v7, whose files do not list them.
constexpr std::array kTekkenTokens{"<unk>",
                                   "<s>",
                                   "</s>",
                                   "[INST]",
                                   "[/INST]",
                                   "[AVAILABLE_TOOLS]",
                                   "[/AVAILABLE_TOOLS]",
                                   "[TOOL_RESULTS]",
                                   "[/TOOL_RESULTS]",
                                   "[TOOL_CALLS]",
                                   "[IMG]",
                                   "<pad>",
                                   "[IMG_BREAK]",
                                   "[IMG_END]",
                                   "[PREFIX]",
                                   "[MIDDLE]",
                                   "[SUFFIX]",
                                   "[SYSTEM_PROMPT]",
                                   "[/SYSTEM_PROMPT]",
                                   "[TOOL_CONTENT]"};

std::vector<std::string> read_tekken_specials(const files::JsonReader& tekken, std::size_t count) {
  std::vector<std::string> specials(count);
  if (const std::optional<files::JsonReader> listed = tekken.find("special_tokens")) {
    for (const files::JsonReader& token : listed->elements()) {
      const auto rank = token.at("rank").integer<std::size_t>(0, count - 1);
      if (!specials[rank].empty()) token.fail(files::concat("rank ", rank, " is given twice"));
      specials[rank] = token.text("token_str");
    }
  } else {
    for (std::size_t id = 0; id < std::min(count, kTekkenTokens.size()); ++id) specials[id] = kTekkenTokens[id];
  }
  for (std::size_t id = 0; id < count; ++id) {
    if (specials[id].empty()) specials[id] = files::concat("<SPECIAL_", id, ">");
  }
  return specials;
}

// Returns the common parts of both kinds' tokenizer.json.
json with_vocabulary(PreTokenizerFamily family, json model, json added, json frame) {
  family.ignore_merges = true;
  return byte_level_tokenizer_json(std::move(family), std::move(model["vocab"]), std::move(model["merges"]),
                                   std::move(added), std::move(frame));
}

}  // namespace

bool is_rank_list(std::string_view content) {
  const std::optional<RankLine> first = parse_rank_line(take_line(content));
  return first && decode_base64(first->base64);
}

json read_rank_list(std::string_view content, const std::string& file, const std::string& family_name, json& config) {
  std::optional<PreTokenizerFamily> family = pre_tokenizer_family(family_name);
  if (!family) throw Error(file, "no family of tokenizers is called " + files::in_quotes(family_name));
  RankedTokens tokens;
  for (std::size_t number = 1; !content.empty(); ++number) {
    const std::string_view line = take_line(content);
    if (line.empty()) continue;
    const auto refuse = [&](const std::string& problem) {
      throw Error(file, files::concat("line ", number, ": ", problem));
    };
    const std::optional<RankLine> parsed = parse_rank_line(line);
    if (!parsed) refuse("must be base64 and a rank, is " + files::in_quotes(line));
    if (const std::optional<std::string> problem = tokens.add(parsed->base64, parsed->rank)) refuse(*problem);
  }
  list_family_tokens(family_name, tokens.size(), config);
  json frame = nullptr;
  if (family->adds_bos && !config.contains("add_bos_token")) config["add_bos_token"] = true;
  return with_vocabulary(*std::move(family), tokens.model(0, file), json::array(), std::move(frame));
}

json read_tekken(std::string_view content, const std::string& file, json& config) {
  const json value = files::parse_strict_json(content, file);
  const files::JsonReader tekken(value, file);
  const files::JsonReader settings = tekken.object("config");
  const std::size_t size = settings.size("default_vocab_size");
  const std::size_t special_count = settings.size("default_num_special_tokens");
  if (size > kMaxTokenId) settings.fail("default_vocab_size", "is too large");
  if (special_count >= size) settings.fail("default_num_special_tokens", "leaves no room for other tokens");

  RankedTokens tokens;
  for (const files::JsonReader& entry : tekken.at("vocab").elements()) {
    const int rank = read_token_id(entry.at("rank"));
    if (static_cast<std::size_t>(rank) >= size - special_count) continue;
    if (const auto problem = tokens.add(entry.at("token_bytes").string(), static_cast<std::size_t>(rank))) {
      entry.fail(*problem);
    }
  }
  const std::vector<std::string> specials = read_tekken_specials(tekken, special_count);
  json added = json::array();
  for (std::size_t id = 0; id < specials.size(); ++id) added.push_back(added_token(id, specials[id], true));
  json frame = nullptr;
  constexpr std::array<std::pair<const char*, const char*>, 4> kNames{
      {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}, {"pad_token", "<pad>"}}};
  for (const auto& [name, token] : kNames) {
    const auto found = std::ranges::find(specials, token);
    if (found == specials.end()) continue;
    if (!config.contains(name) || config[name].is_null()) config[name] = token;
    const auto id = static_cast<std::size_t>(found - specials.begin());
    if (std::string_view(token) == "<s>") frame = frame_template({{token, id}}, {});
  }
  PreTokenizerFamily family;
  family.pre_tokenizer = byte_level_pre_tokenizer({settings.text("pattern")}, false);
  return with_vocabulary(std::move(family), tokens.model(special_count, file), std::move(added), std::move(frame));
}

}  // namespace ballast::text
