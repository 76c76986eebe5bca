#include "text/subword/bpe.h"

#include <algorithm>
#include <queue>
#include <utility>

#include "files/utf8.h"

namespace ballast::text {
namespace {

constexpr std::uint32_t kNone = 0xFFFFFFFFu;

// Two neighbours that could become `result`; stale once either has changed.
struct Candidate {
  int rank;
  std::uint32_t left;
  std::uint32_t right;
  int left_id;
  int right_id;
  int result;

  // For a queue whose top is the largest: lowest rank first, then leftmost.
  bool operator<(const Candidate& other) const { return rank != other.rank ? rank > other.rank : left > other.left; }
};

std::uint64_t pair_key(int left, int right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

}  // namespace

// A token in the making; `previous` and `next` chain those that are left.
struct Bpe::Symbol {
  int id;
  std::uint32_t previous;
  std::uint32_t next;
};

Bpe::Bpe(BpeVocabulary vocabulary)
    : vocabulary_(std::move(vocabulary)), whole_(new std::atomic<std::uint8_t>[vocabulary_.tokens.size()]()) {
  byte_id_.fill(-1);
  id_of_.reserve(vocabulary_.tokens.size());
  for (std::size_t id = 0; id < vocabulary_.tokens.size(); ++id) {
    const std::string& token = vocabulary_.tokens[id];
    if (token.empty()) continue;
    id_of_.emplace(token, static_cast<int>(id));
    if (token.size() == 1) byte_id_[static_cast<unsigned char>(token[0])] = static_cast<int>(id);
  }
  rules_.reserve(vocabulary_.merges.size());
  for (std::size_t rank = 0; rank < vocabulary_.merges.size(); ++rank) {
    const BpeVocabulary::Merge& merge = vocabulary_.merges[rank];
    rules_.insert_or_assign(pair_key(merge.left, merge.right), Rule{static_cast<int>(rank), merge.result});
  }
}

void Bpe::encode(std::string_view piece, std::vector<int>& ids) const {
  const auto found = id_of_.find(piece);
  if (found == id_of_.end()) return merge(piece, ids);
  const int id = found->second;
  std::atomic<std::uint8_t>& whole = whole_[static_cast<std::size_t>(id)];
  if (vocabulary_.ignore_merges || whole.load(std::memory_order_relaxed) == kIsItself) {
    ids.push_back(id);
    return;
  }
  const std::size_t before = ids.size();
  merge(piece, ids);
  const bool is_itself = ids.size() == before + 1 && ids.back() == id;
  whole.store(is_itself ? kIsItself : kIsOthers, std::memory_order_relaxed);
}

const Bpe::Rule* Bpe::rule(int left, int right) const {
  const auto found = rules_.find(pair_key(left, right));
  return found == rules_.end() ? nullptr : &found->second;
}

void Bpe::add_units(std::string_view piece, std::vector<Symbol>& symbols) const {
  const auto add = [&](int id) {
    const auto position = static_cast<std::uint32_t>(symbols.size());
    symbols.push_back({id, position - 1, position + 1});
  };
  const auto id_of_unit = [&](std::string_view unit) {
    if (unit.size() == 1) return byte_id_[static_cast<unsigned char>(unit[0])];
    const auto found = id_of_.find(unit);
    return found == id_of_.end() ? -1 : found->second;
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
    if (const Rule* found = rule(left_id, right_id)) {
      queue.push({found->rank, left, right, left_id, right_id, found->result});
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
