// The texts of a vocabulary by id, and the id of a text.
#ifndef BALLAST_TEXT_SUBWORD_TOKEN_TABLE_H_
#define BALLAST_TEXT_SUBWORD_TOKEN_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ballast::text {

/// Needs about 8 bytes per token in addition to its text: 262,144 tokens of Gemma 3 take 6 MB. Immutable once filled,
/// and then safe to use from several threads.
class TokenTable {
 public:
  TokenTable() = default;
  TokenTable(std::initializer_list<std::string_view> texts);

  /// Adds the next id's text; empty for an unused id. find() does not return `hidden` ids, and returns the first of two
  /// with the same text. Throws Error for more than 4 GB of text.
  void add(std::string_view text, bool hidden = false);

  /// Reserves memory for this many texts and bytes. Must be called before the first add().
  void reserve(std::size_t texts, std::size_t bytes);

  std::size_t size() const { return ends_.size(); }

  /// Returns the bytes of all texts.
  std::size_t bytes() const { return pool_.size(); }

  /// Returns the text of any id.
  std::string_view operator[](std::size_t id) const {
    const std::uint32_t begin = id == 0 ? 0 : ends_[id - 1];
    return std::string_view(pool_).substr(begin, ends_[id] - begin);
  }

  /// Returns the id of a text, which must not be empty.
  std::optional<int> find(std::string_view text) const;

 private:
  void grow();
  // Returns the slot of `text`, or the free slot for it.
  std::size_t slot_of(std::string_view text) const;

  std::string pool_;
  std::vector<std::uint32_t> ends_;   // end of each text in pool_
  std::vector<std::uint32_t> slots_;  // open addressing: id + 1, or 0 for a free slot; the size is a power of two
  std::size_t used_ = 0;
};

}  // namespace ballast::text

#endif  // BALLAST_TEXT_SUBWORD_TOKEN_TABLE_H_
