#include "text/subword/unigram.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "ballast/error.h"
#include "files/text.h"
#include "files/utf8.h"
#include "text/subword/vocabulary.h"

namespace ballast::text {
namespace {

// An unknown character scores this much less than the least likely token (SentencePiece's kUnkPenalty).
constexpr double kUnknownPenalty = 10.0;

// The best way to cut the text up to some place: its score, and the token that it ends with.
struct Best {
  double score = -std::numeric_limits<double>::infinity();
  std::size_t begin = 0;
  int id = -1;
};

}  // namespace

Unigram::Unigram(const files::JsonReader& model) {
  const files::JsonReader vocab = model.at("vocab");
  const std::vector<files::JsonReader> entries = vocab.elements();
  const std::size_t count = entries.size();
  if (count == 0) vocab.fail("has no tokens");
  if (count > kMaxTokenId) vocab.fail(std::to_string(count) + " tokens are too many");
  auto texts = std::make_shared<TokenTable>();
  std::vector<ByteTrie::Entry> keys;
  for (std::size_t id = 0; id < count; ++id) {
    const std::vector<files::JsonReader> entry = entries[id].tuple(2);  // a token and its score
    const std::string& text = entry[0].string();
    texts->add(text);
    scores_.push_back(entry[1].number());
    if (!text.empty()) keys.push_back({text, static_cast<int>(id)});
  }
  texts_ = std::move(texts);
  id_of_ = ByteTrie(std::move(keys));
  unknown_score_ = *std::ranges::min_element(scores_) - kUnknownPenalty;
  if (const std::optional<files::JsonReader> unknown = model.find("unk_id")) {
    unknown_ = read_token_id(*unknown);
    if (static_cast<std::size_t>(unknown_) >= count) {
      unknown->fail("is " + std::to_string(unknown_) + ", there are " + std::to_string(count) + " tokens");
    }
  }
  if (model.flag("byte_fallback", false)) byte_tokens_ = find_byte_tokens(*texts_);
}

void Unigram::encode(std::string_view piece, std::vector<int>& ids) const {
  std::vector<Best> best(piece.size() + 1);
  best[0].score = 0;
  const auto consider = [&](std::size_t begin, std::size_t length, double score, int id) {
    Best& end = best[begin + length];
    const double total = best[begin].score + score;
    if (total > end.score) end = {total, begin, id};
  };
  for (std::size_t begin = 0; begin < piece.size();) {
    const std::size_t character = files::utf8_step(piece, begin).length;
    bool spells_character = false;
    id_of_.for_each_prefix(piece.substr(begin), [&](std::size_t length, int id) {
      consider(begin, length, scores_[static_cast<std::size_t>(id)], id);
      spells_character = spells_character || length == character;
    });
    if (!spells_character) consider(begin, character, unknown_score_, -1);
    begin += character;
  }

  std::vector<std::size_t> ends;
  for (std::size_t end = piece.size(); end > 0; end = best[end].begin) ends.push_back(end);
  std::size_t unknown_begin = 0;
  for (std::size_t i = ends.size(); i-- > 0;) {
    const Best& token = best[ends[i]];
    const bool last_unknown = i + 1 < ends.size() && best[ends[i + 1]].id < 0;
    if (token.id < 0 && !last_unknown) unknown_begin = token.begin;
    if (token.id >= 0) {
      ids.push_back(token.id);
    } else if (i == 0 || best[ends[i - 1]].id >= 0) {
      add_unknown(piece.substr(unknown_begin, ends[i] - unknown_begin), ids);
    }
  }
}

void Unigram::add_unknown(std::string_view run, std::vector<int>& ids) const {
  const auto byte_token = [&](char c) { return (*byte_tokens_)[static_cast<unsigned char>(c)]; };
  if (byte_tokens_ && std::ranges::none_of(run, [&](char c) { return byte_token(c) < 0; })) {
    for (const char c : run) ids.push_back(byte_token(c));
    return;
  }
  if (unknown_ < 0) throw Error("tokenizer", "has no token for " + files::in_quotes(run) + " and no unknown token");
  ids.push_back(unknown_);
}

}  // namespace ballast::text
