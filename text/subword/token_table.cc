#include "text/subword/token_table.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "ballast/error.h"

namespace ballast::text {
namespace {

// Processes eight bytes at a time; all bits of the result depend on all bytes.
std::uint64_t hash(std::string_view text) {
  constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15u;
  std::uint64_t state = text.size() * kOdd;
  const auto mix = [&](const char* bytes, std::size_t count) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes, count);
    state = (state ^ word) * kOdd;
    state ^= state >> 32;
  };
  while (text.size() >= sizeof(std::uint64_t)) {
    mix(text.data(), sizeof(std::uint64_t));
    text.remove_prefix(sizeof(std::uint64_t));
  }
  mix(text.data(), text.size());
  return state;
}

}  // namespace

TokenTable::TokenTable(std::initializer_list<std::string_view> texts) {
  for (const std::string_view text : texts) add(text);
}

void TokenTable::reserve(std::size_t texts, std::size_t bytes) {
  pool_.reserve(bytes);
  ends_.reserve(texts);
  slots_.assign(std::bit_ceil(texts + texts / 2 + 2), 0);
}

void TokenTable::add(std::string_view text, bool hidden) {
  if (text.size() > std::numeric_limits<std::uint32_t>::max() - pool_.size()) {
    throw Error("vocabulary", "has more than 4 GB of text");
  }
  pool_ += text;
  ends_.push_back(static_cast<std::uint32_t>(pool_.size()));
  if (text.empty() || hidden) return;
  if (3 * (used_ + 1) > 2 * slots_.size()) grow();
  std::uint32_t& slot = slots_[slot_of(text)];
  if (slot != 0) return;
  slot = static_cast<std::uint32_t>(ends_.size());
  ++used_;
}

void TokenTable::grow() {
  std::vector<std::uint32_t> old(std::max<std::size_t>(16, 2 * slots_.size()), 0);
  old.swap(slots_);
  for (const std::uint32_t entry : old) {
    if (entry != 0) slots_[slot_of((*this)[entry - 1])] = entry;
  }
}

std::size_t TokenTable::slot_of(std::string_view text) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = hash(text) & mask;
  while (slots_[slot] != 0 && (*this)[slots_[slot] - 1] != text) slot = (slot + 1) & mask;
  return slot;
}

std::optional<int> TokenTable::find(std::string_view text) const {
  if (slots_.empty() || text.empty()) return std::nullopt;
  const std::uint32_t entry = slots_[slot_of(text)];
  return entry == 0 ? std::nullopt : std::optional(static_cast<int>(entry - 1));
}

}  // namespace ballast::text
