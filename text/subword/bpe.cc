#include "text/subword/bpe.h"

#include <algorithm>
#include <bit>
#include <queue>
#include <utility>

#include "files/utf8.h"
#include "text/subword/vocabulary.h"

namespace ballast::text {
namespace {

constexpr std::uint32_t kNone = 0xFFFFFFFFu;

// Two neighbours that could become `result`; stale once either has changed.
struct Candidate {
  std::uint32_t rank;
  std::uint32_t left;
  std::uint32_t right;
  int left_id;
  int right_id;
  int result;

  // For a queue whose top is the largest: lowest rank first, then leftmost.
  bool operator<(const Candidate& other) const { return rank != other.rank ? rank > other.rank : left > other.left; }
};

}  // namespace

// A token in the making; `previous` and `next` chain those that are left.
struct Bpe::Symbol {
  int id;
  std::uint32_t previous;
  std::uint32_t next;
};

Bpe::Bpe(BpeVocabulary vocabulary)
    : vocabulary_(std::move(vocabulary)), whole_(new std::atomic<std::uint8_t>[vocabulary_.tokens->size()]()) {
  for (std::size_t byte = 0; byte < byte_id_.size(); ++byte) {
    const char c = static_cast<char>(byte);
    byte_id_[byte] = vocabulary_.tokens->find({&c, 1}).value_or(-1);
  }
  vocabulary_.merges.shrink_to_fit();
  const std::size_t rules = vocabulary_.merges.size();
  rule_slots_.resize(std::bit_ceil(rules + rules / 4 + 1));
  for (std::size_t rank = 0; rank < rules; ++rank) add_rule(static_cast<std::uint32_t>(rank));
  find_word_ends();
}

std::size_t Bpe::rule_slot(int left, int right) const {
  const std::uint64_t key = std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
  const std::size_t mask = rule_slots_.size() - 1;
  std::size_t slot = key * 0x9E3779B97F4A7C15u >> 32 & mask;
  while (rule_slots_[slot] != 0) {
    const BpeVocabulary::Merge& merge = vocabulary_.merges[rule_slots_[slot] - 1];
    if (merge.left == left && merge.right == right) break;
    slot = (slot + 1) & mask;
  }
  return slot;
}

void Bpe::add_rule(std::uint32_t rank) {
  const BpeVocabulary::Merge& merge = vocabulary_.merges[rank];
  rule_slots_[rule_slot(merge.left, merge.right)] = rank + 1;
}

std::optional<std::uint32_t> Bpe::rule(int left, int right) const {
  const std::uint32_t entry = rule_slots_[rule_slot(left, right)];
  return entry == 0 ? std::nullopt : std::optional(entry - 1);
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

void Bpe::add_units(std::string_view piece, std::vector<Symbol>& symbols) const {
  const auto add = [&](int id) {
    const auto position = static_cast<std::uint32_t>(symbols.size());
    symbols.push_back({id, position - 1, position + 1});
  };
  const auto id_of_unit = [&](std::string_view unit) {
    if (unit.size() == 1) return byte_id_[static_cast<unsigned char>(unit[0])];
    return vocabulary_.tokens->find(unit).value_or(-1);
  };
  const auto byte_token = [&](char c) { return (*vocabulary_.byte_tokens)[static_cast<unsigned char>(c)]; };
  bool last_unknown = false;
  while (!piece.empty()) {
    const std::size_t length = vocabulary_.unit == BpeVocabulary::Unit::kByte ? 1 : files::utf8_step(piece, 0).length;
    const std::string_view unit = piece.substr(0, length);
    piece.remove_prefix(length);
    const int id = id_of_unit(unit);
    if (id >= 0) {
      add(id);
    } else if (vocabulary_.byte_tokens && std::ranges::none_of(unit, [&](char c) { return byte_token(c) < 0; })) {
      for (const char c : unit) add(byte_token(c));
    } else {
      const bool fused = last_unknown && vocabulary_.fuse_unknown;
      if (vocabulary_.unknown >= 0 && !fused) add(vocabulary_.unknown);
      last_unknown = true;
      continue;
    }
    last_unknown = false;
  }
}

void Bpe::merge(std::string_view piece, std::vector<int>& ids) const {
  std::vector<Symbol> symbols;
  symbols.reserve(piece.size());
  add_units(piece, symbols);
  if (symbols.empty()) return;
  symbols.front().previous = kNone;
  symbols.back().next = kNone;

  std::vector<Candidate> storage;
  storage.reserve(symbols.size());
  std::priority_queue<Candidate> queue(std::less<Candidate>(), std::move(storage));
  const auto consider = [&](std::uint32_t left, std::uint32_t right) {
    if (left == kNone || right == kNone) return;
    const int left_id = symbols[left].id;
    const int right_id = symbols[right].id;
    if (const std::optional<std::uint32_t> rank = rule(left_id, right_id)) {
      queue.push({*rank, left, right, left_id, right_id, vocabulary_.merges[*rank].result});
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
  for (std::uint32_t i = 0; i != kNone; i = symbols[i].next) ids.push_back(symbols[i].id);
}

}  // namespace ballast::text
