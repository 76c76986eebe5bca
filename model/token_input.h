// The input of a token: its id, or a row that replaces the id's row of the embedding, and its type.
#ifndef BALLAST_MODEL_TOKEN_INPUT_H_
#define BALLAST_MODEL_TOKEN_INPUT_H_

#include <cassert>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::model {

/// One token's input. A token that is part of an image or of speech has a row, and the id of the placeholder that its
/// text has there; tables that layers read by the token's id (TokenInputSpec) are read by the placeholder's.
struct TokenInput {
  int id = 0;
  const float* row = nullptr;  ///< [hidden_size], in place of the scaled row of the embedding; null: that row
  std::uint8_t type = 0;       ///< the row of the table of token types: 1 in the second text of a pair

  bool operator==(const TokenInput&) const = default;
};

/// Consecutive tokens. A view of ids, so that a text costs no copy, and of rows and types where any token has one.
class TokenSpan {
 public:
  TokenSpan() = default;

  /// Refers to tokens without rows. `ids`: a vector, array or span.
  template <std::convertible_to<std::span<const int>> Ids>
  TokenSpan(const Ids& ids) : ids_(ids) {}  // NOLINT(google-explicit-constructor): a span converts the same way

  /// Refers to tokens of which some have rows: rows[i] is null if token i has none. `rows` may be empty, and `types` is
  /// empty if all tokens have type 0.
  TokenSpan(std::span<const int> ids, std::span<const float* const> rows, std::span<const std::uint8_t> types = {})
      : ids_(ids), rows_(rows), types_(types) {
    assert(rows.empty() || rows.size() == ids.size());
    assert(types.empty() || types.size() == ids.size());
  }

  std::size_t size() const { return ids_.size(); }
  bool empty() const { return ids_.empty(); }
  TokenInput operator[](std::size_t i) const {
    return {
        .id = ids_[i], .row = rows_.empty() ? nullptr : rows_[i], .type = types_.empty() ? std::uint8_t{0} : types_[i]};
  }

  std::span<const int> ids() const { return ids_; }
  std::span<const float* const> rows() const { return rows_; }    ///< empty if no token has a row
  std::span<const std::uint8_t> types() const { return types_; }  ///< empty if all are 0

  TokenSpan subspan(std::size_t first, std::size_t count) const {
    return {ids_.subspan(first, count), rows_.empty() ? rows_ : rows_.subspan(first, count),
            types_.empty() ? types_ : types_.subspan(first, count)};
  }

 private:
  std::span<const int> ids_;
  std::span<const float* const> rows_;
  std::span<const std::uint8_t> types_;
};

}  // namespace ballast::model

#endif  // BALLAST_MODEL_TOKEN_INPUT_H_
