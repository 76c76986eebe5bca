#include "text/subword/unigram.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <set>

#include "ballast/error.h"
#include "files/text.h"
#include "files/utf8.h"
#include "text/subword/vocabulary.h"

namespace ballast::text {
namespace {

// An unknown character scores this much less than the least likely token (SentencePiece's kUnkPenalty).
constexpr double kUnknownPenalty = 10.0;

// The best split of the text up to some position: its score, and its last token.
struct Best {
  double score = -std::numeric_limits<double>::infinity();
  std::size_t begin = 0;
  int id = -1;
};

}  // namespace

Unigram::Unigram(const files::JsonReader& model, std::size_t window) : window_(window) {
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

/// The best splits of a text, and the tokens that are already certain.
class Unigram::Search {
 public:
  Search(const Unigram& model, std::string_view piece, std::vector<int>& ids)
      : model_(model), piece_(piece), ids_(ids), best_(1) {
    best_[0].score = 0;
  }

  void consider(std::size_t begin, std::size_t length, double score, int id) {
    const std::size_t end = begin + length - base_;
    if (end >= best_.size()) best_.resize(end + 1);
    const double total = best_[begin - base_].score + score;
    if (total > best_[end].score) best_[end] = {total, begin, id};
  }

  /// Adds the tokens before the last position that all splits beyond `begin` share, so that the memory of the search
  /// does not grow with the text.
  void settle(std::size_t begin) {
    if (begin - base_ < next_settling_) return;
    std::set<std::size_t, std::greater<>> ends;
    for (std::size_t end = begin; end - base_ < best_.size(); ++end) {
      if (std::isfinite(best_[end - base_].score)) ends.insert(end);
    }
    while (ends.size() > 1) {
      const std::size_t last = *ends.begin();
      ends.erase(ends.begin());
      ends.insert(best_[last - base_].begin);
    }
    take(*ends.begin());
    next_settling_ = std::max(model_.window_, 2 * (begin - base_));
  }

  void finish() {
    take(piece_.size());
    end_unknown(piece_.size());
  }

 private:
  void take(std::size_t until) {
    std::vector<std::size_t> ends;
    for (std::size_t end = until; end > base_; end = best_[end - base_].begin) ends.push_back(end);
    for (std::size_t i = ends.size(); i-- > 0;) {
      const Best& token = best_[ends[i] - base_];
      if (token.id >= 0) {
        end_unknown(token.begin);
        ids_.push_back(token.id);
      } else if (!unknown_begin_) {
        unknown_begin_ = token.begin;
      }
    }
    best_.erase(best_.begin(), best_.begin() + static_cast<std::ptrdiff_t>(until - base_));
    base_ = until;
  }

  void end_unknown(std::size_t end) {
    if (!unknown_begin_) return;
    model_.add_unknown(piece_.substr(*unknown_begin_, end - *unknown_begin_), ids_);
    unknown_begin_.reset();
  }

  const Unigram& model_;
  std::string_view piece_;
  std::vector<int>& ids_;
  std::vector<Best> best_;  // for the positions from base_ on
  std::size_t base_ = 0;    // text before it is in ids_, except for unknown characters at its end
  std::size_t next_settling_ = model_.window_;
  std::optional<std::size_t> unknown_begin_;
};

void Unigram::encode(std::string_view piece, std::vector<int>& ids) const {
  Search search(*this, piece, ids);
  for (std::size_t begin = 0; begin < piece.size();) {
    search.settle(begin);
    const std::size_t character = files::utf8_step(piece, begin).length;
    bool spells_character = false;
    id_of_.for_each_prefix(piece.substr(begin), [&](std::size_t length, int id) {
      search.consider(begin, length, scores_[static_cast<std::size_t>(id)], id);
      spells_character = spells_character || length == character;
    });
    if (!spells_character) search.consider(begin, character, unknown_score_, -1);
    begin += character;
  }
  search.finish();
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
