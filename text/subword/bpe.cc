#include "text/subword/bpe.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <string>
#include <utility>

#include "ballast/error.h"
#include "files/utf8.h"
#include "text/subword/vocabulary.h"

namespace ballast::text {
namespace {

constexpr std::uint32_t kNone = 0xFFFFFFFFu;

// The bits of a rule's parts in a word.
constexpr unsigned kTokenBits = 21;
constexpr unsigned kRankBits = 22;

// Two neighbours that could become `result`; outdated once either has changed.
struct Candidate {
  std::uint32_t rank;
  std::uint32_t left;
  std::uint32_t right;
  int left_id;
  int right_id;
  int result;

  // Orders a queue whose top is the largest: lowest rank first, then leftmost.
  bool operator<(const Candidate& other) const { return rank != other.rank ? rank > other.rank : left > other.left; }
};

}  // namespace

// A token that is being built; `previous` and `next` link the remaining ones.
struct Bpe::Symbol {
  int id;
  std::uint32_t previous;
  std::uint32_t next;
};

MergeRules::MergeRules(const std::vector<BpeVocabulary::Merge>& merges, std::size_t tokens) : ends_(tokens + 1) {
  constexpr std::size_t kMostTokens = (std::size_t{1} << kTokenBits) - 1;
  constexpr std::size_t kMostRules = std::size_t{1} << kRankBits;
  if (tokens > kMostTokens || merges.size() > kMostRules) {
    throw Error("tokenizer", "has " + std::to_string(tokens) + " tokens and " + std::to_string(merges.size()) +
                                 " merges: at most " + std::to_string(kMostTokens) + " and " +
                                 std::to_string(kMostRules) + " are possible");
  }
  // Counting sort from the back: afterwards an entry is the beginning of its token's words, and the next entry their
  // end.
  for (const BpeVocabulary::Merge& merge : merges) ++ends_[static_cast<std::size_t>(merge.left)];
  std::partial_sum(ends_.begin(), ends_.end(), ends_.begin());
  words_.resize(merges.size());
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    words_[--ends_[static_cast<std::size_t>(merges[rank].left)]] =
        static_cast<std::uint64_t>(merges[rank].right) << (kTokenBits + kRankBits) | rank << kTokenBits |
        static_cast<std::uint64_t>(merges[rank].result);
  }
  for (std::size_t token = 0; token < tokens; ++token) {
    std::sort(words_.begin() + ends_[token], words_.begin() + ends_[token + 1]);
  }
}

std::optional<MergeRules::Rule> MergeRules::find(int left, int right) const {
  const auto begin = words_.begin() + ends_[static_cast<std::size_t>(left)];
  const auto end = words_.begin() + ends_[static_cast<std::size_t>(left) + 1];
  // If there are several for a pair, the last is used.
  const auto after = std::lower_bound(begin, end, (static_cast<std::uint64_t>(right) + 1) << (kTokenBits + kRankBits));
  if (after == begin) return {};
  const std::uint64_t word = *(after - 1);
  if (word >> (kTokenBits + kRankBits) != static_cast<std::uint64_t>(right)) return {};
  constexpr std::uint64_t kTokenMask = (std::uint64_t{1} << kTokenBits) - 1;
  constexpr std::uint64_t kRankMask = (std::uint64_t{1} << kRankBits) - 1;
  return Rule{.rank = static_cast<std::uint32_t>(word >> kTokenBits & kRankMask),
              .result = static_cast<int>(word & kTokenMask)};
}

Bpe::Bpe(BpeVocabulary vocabulary, std::size_t window_units)
    : vocabulary_(std::move(vocabulary)),
      window_units_(window_units),
      rules_(vocabulary_.merges, vocabulary_.tokens->size()),
      whole_(new std::atomic<std::uint8_t>[vocabulary_.tokens->size()]()) {
  for (std::size_t byte = 0; byte < byte_id_.size(); ++byte) {
    const char c = static_cast<char>(byte);
    byte_id_[byte] = vocabulary_.tokens->find({&c, 1}).value_or(-1);
  }
  find_word_ends();
  vocabulary_.merges = std::vector<BpeVocabulary::Merge>();  // frees the memory
}

void Bpe::find_word_ends() {
  cut_words_ = vocabulary_.unit == BpeVocabulary::Unit::kCodePoint && !vocabulary_.ignore_merges &&
               vocabulary_.tokens->find(kSpaceMark);
  if (!cut_words_) return;
  joins_next_word_[static_cast<unsigned char>(kSpaceMark.back())] = true;
  for (const BpeVocabulary::Merge& merge : vocabulary_.merges) {
    const std::string_view text = (*vocabulary_.tokens)[static_cast<std::size_t>(merge.result)];
    for (std::size_t mark = text.find(kSpaceMark, 1); mark < text.size(); mark = text.find(kSpaceMark, mark + 1)) {
      joins_next_word_[static_cast<unsigned char>(text[mark - 1])] = true;
    }
  }
}

std::size_t Bpe::word_length(std::string_view text) const {
  std::size_t mark = text.find(kSpaceMark, 1);
  while (mark < text.size() && joins_next_word_[static_cast<unsigned char>(text[mark - 1])]) {
    mark = text.find(kSpaceMark, mark + 1);
  }
  return std::min(mark, text.size());
}

void Bpe::encode(std::string_view piece, std::vector<int>& ids) const {
  if (!cut_words_) return encode_word(piece, ids);
  while (!piece.empty()) {
    const std::size_t length = word_length(piece);
    encode_word(piece.substr(0, length), ids);
    piece.remove_prefix(length);
  }
}

void Bpe::encode_word(std::string_view word, std::vector<int>& ids) const {
  const std::optional<int> id = vocabulary_.tokens->find(word);
  if (!id) return merge(word, ids);
  std::atomic<std::uint8_t>& whole = whole_[static_cast<std::size_t>(*id)];
  if (vocabulary_.ignore_merges || whole.load(std::memory_order_relaxed) == kIsItself) {
    ids.push_back(*id);
    return;
  }
  const std::size_t before = ids.size();
  merge(word, ids);
  const bool is_itself = ids.size() == before + 1 && ids.back() == *id;
  whole.store(is_itself ? kIsItself : kIsOthers, std::memory_order_relaxed);
}

/// Reads the units from which merging starts.
class Bpe::UnitReader {
 public:
  UnitReader(const Bpe& bpe, std::string_view piece) : bpe_(bpe), left_(piece) {}

  bool done() const { return left_.empty(); }

  /// Appends units until `units` has `most` of them or the piece ends. A unit that is encoded in bytes is not split.
  void read(std::size_t most, std::vector<int>& units) {
    while (!left_.empty() && units.size() < most) read_unit(units);
  }

 private:
  int id_of_unit(std::string_view unit) const {
    if (unit.size() == 1) return bpe_.byte_id_[static_cast<unsigned char>(unit[0])];
    return bpe_.vocabulary_.tokens->find(unit).value_or(-1);
  }
  int byte_token(char c) const { return (*bpe_.vocabulary_.byte_tokens)[static_cast<unsigned char>(c)]; }

  void read_unit(std::vector<int>& units) {
    const BpeVocabulary& vocabulary = bpe_.vocabulary_;
    const std::size_t length = vocabulary.unit == BpeVocabulary::Unit::kByte ? 1 : files::utf8_step(left_, 0).length;
    const std::string_view unit = left_.substr(0, length);
    left_.remove_prefix(length);
    const int id = id_of_unit(unit);
    if (id >= 0) {
      units.push_back(id);
    } else if (vocabulary.byte_tokens && std::ranges::none_of(unit, [&](char c) { return byte_token(c) < 0; })) {
      for (const char c : unit) units.push_back(byte_token(c));
    } else {
      const bool fused = last_unknown_ && vocabulary.fuse_unknown;
      if (vocabulary.unknown >= 0 && !fused) units.push_back(vocabulary.unknown);
      last_unknown_ = true;
      return;
    }
    last_unknown_ = false;
  }

  const Bpe& bpe_;
  std::string_view left_;
  bool last_unknown_ = false;
};

void Bpe::merge(std::string_view piece, std::vector<int>& ids) const {
  if (piece.size() > window_units_ && merge_in_windows(piece, ids)) return;
  std::vector<int> units;
  units.reserve(piece.size());
  UnitReader(*this, piece).read(piece.size(), units);
  for (const Merged& token : merged(units)) ids.push_back(token.id);
}

/// Merges `units` alone.
std::vector<Bpe::Merged> Bpe::merged(std::span<const int> units) const {
  if (units.empty()) return {};
  std::vector<Symbol> symbols;
  symbols.reserve(units.size());
  for (const int id : units) {
    const auto position = static_cast<std::uint32_t>(symbols.size());
    symbols.push_back({id, position - 1, position + 1});
  }
  symbols.front().previous = kNone;
  symbols.back().next = kNone;

  std::vector<Candidate> storage;
  storage.reserve(symbols.size());
  std::priority_queue<Candidate> queue(std::less<Candidate>(), std::move(storage));
  const auto consider = [&](std::uint32_t left, std::uint32_t right) {
    if (left == kNone || right == kNone) return;
    const int left_id = symbols[left].id;
    const int right_id = symbols[right].id;
    if (const std::optional<MergeRules::Rule> rule = rules_.find(left_id, right_id)) {
      queue.push({rule->rank, left, right, left_id, right_id, rule->result});
    }
  };
  for (std::uint32_t i = 1; i < symbols.size(); ++i) consider(i - 1, i);

  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Symbol& left = symbols[best.left];
    Symbol& right = symbols[best.right];
    if (left.id != best.left_id || right.id != best.right_id || left.next != best.right) continue;
    left.id = best.result;
    left.next = right.next;
    right.id = -1;
    if (left.next != kNone) symbols[left.next].previous = best.left;
    consider(left.previous, best.left);
    consider(best.left, left.next);
  }
  std::vector<Merged> tokens;
  for (std::uint32_t i = 0; i != kNone; i = symbols[i].next) tokens.push_back({symbols[i].id, i});
  return tokens;
}

/// Returns whether merging the units of two tokens together keeps the border between them.
bool Bpe::stay_apart(std::span<const int> left, std::span<const int> right) const {
  std::vector<int> both(left.begin(), left.end());
  both.insert(both.end(), right.begin(), right.end());
  const std::vector<Merged> tokens = merged(both);
  return std::ranges::any_of(tokens, [&](const Merged& token) { return token.begin == left.size(); });
}

/// Merges a long piece window by window, so that the memory does not grow with the piece. The tokens are those of the
/// whole piece if each is the result of merging its own units and if the border between each two neighbours is kept:
/// the first merge over a border would also be the first one within those two alone. A window's tokens have both
/// properties, so only the borders between windows are tried. Returns false, with `ids` unchanged, if no border is
/// found.
bool Bpe::merge_in_windows(std::string_view piece, std::vector<int>& ids) const {
  const std::size_t ids_before = ids.size();
  UnitReader reader(*this, piece);
  std::vector<int> units;  // without the units of the tokens in `ids`
  reader.read(window_units_, units);
  std::vector<Merged> tokens = merged(units);
  while (!reader.done()) {
    // The last tokens may change with the following units.
    const std::size_t sure = units.size() - units.size() / 8;
    auto cut = static_cast<std::size_t>(std::ranges::upper_bound(tokens, sure, {}, &Merged::begin) - tokens.begin());
    bool found = false;
    std::vector<int> fresh;
    reader.read(window_units_, fresh);
    const bool grows = units.size() > 8 * window_units_;
    cut = grows || tokens.empty() ? 0 : std::min(cut, tokens.size() - 1);
    for (; cut > 0 && !found; cut /= 2) {
      const std::size_t border = tokens[cut].begin;
      std::vector<int> rest(units.begin() + static_cast<std::ptrdiff_t>(border), units.end());
      rest.insert(rest.end(), fresh.begin(), fresh.end());
      std::vector<Merged> next = merged(rest);
      const std::size_t first_end = next.size() > 1 ? next[1].begin : rest.size();
      const std::size_t last_begin = tokens[cut - 1].begin;
      found = stay_apart(std::span(units).subspan(last_begin, border - last_begin), std::span(rest).first(first_end));
      if (!found) continue;
      for (std::size_t i = 0; i < cut; ++i) ids.push_back(tokens[i].id);
      units = std::move(rest);
      tokens = std::move(next);
    }
    if (!found) {
      ids.resize(ids_before);
      return false;
    }
  }
  for (const Merged& token : tokens) ids.push_back(token.id);
  return true;
}

}  // namespace ballast::text
