// The fields of a request's body with checks; errors name the field.
#ifndef BALLAST_SERVE_API_REQUEST_FIELDS_H_
#define BALLAST_SERVE_API_REQUEST_FIELDS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/error.h"
#include "files/json_reader.h"
#include "serve/api/api_error.h"

namespace ballast::serve {

/// Reads a whole number from `least` to `most`. Clients, unlike files, may write it as 16.0 or 1e3. Throws Error.
std::int64_t whole_number(const files::JsonReader& value, std::int64_t least, std::int64_t most);

/// Reads a list of token ids, each below `vocab_size`. Throws Error.
std::vector<int> token_ids(const files::JsonReader& value, std::size_t vocab_size);

/// Objects that keep their order search all members for each new one.
inline constexpr std::size_t kMostOrderedMembers = 4096;

/// Parses the text of a value, keeping the order of members. Throws Error naming `context` for text that is not JSON,
/// and for an object with too many members.
nlohmann::ordered_json parse_ordered_json(std::string_view text, std::string_view context);

/// All getters throw ApiError with status 400. A field that is null counts as missing.
class RequestFields {
 public:
  /// Parses a body, which must outlive this object and may begin with a byte order mark. Throws ApiError if it is not
  /// UTF-8, not JSON, not an object, or nested too deeply.
  explicit RequestFields(std::string_view body);

  /// The fields of an object within a body, which must outlive this object; without ordered().
  explicit RequestFields(const files::JsonReader& object) : reader_(object) {}

  /// Readers refer to the body, so it cannot be copied.
  RequestFields(const RequestFields&) = delete;
  RequestFields& operator=(const RequestFields&) = delete;

  bool has(std::string_view field) const { return reader_.has(field); }
  std::optional<double> number(std::string_view field, double least, double most) const;
  std::optional<std::int64_t> integer(std::string_view field, std::int64_t least, std::int64_t most) const;
  std::optional<std::string> text(std::string_view field) const;
  bool flag(std::string_view field, bool fallback) const;

  /// Returns a field's value with the members of its objects in the client's order, which templates and schemas need;
  /// null if it is missing. Throws ApiError for an object with more members than kMostOrderedMembers.
  nlohmann::ordered_json ordered(std::string_view field) const;

  const files::JsonReader& reader() const { return reader_; }

  /// Returns read(value) if the field is present; an Error becomes an ApiError that names the field.
  template <class Read>
  auto read(std::string_view field, const Read& read) const
      -> std::optional<decltype(read(std::declval<files::JsonReader>()))> {
    try {
      const std::optional<files::JsonReader> value = reader_.find(field);
      if (!value) return std::nullopt;
      return read(*value);
    } catch (const Error& error) {
      throw ApiError(400, error.what(), std::string(field));
    }
  }

 private:
  std::string_view body_;
  nlohmann::json json_;
  files::JsonReader reader_;
};

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_API_REQUEST_FIELDS_H_
