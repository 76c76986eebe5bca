// Reads JSON Schemas: which values the conjunction of several schemas allows, type by type.
#ifndef BALLAST_TEXT_CONSTRAINT_JSON_SCHEMA_READER_H_
#define BALLAST_TEXT_CONSTRAINT_JSON_SCHEMA_READER_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/constraint/number_grammar.h"

namespace ballast::text {

using OrderedJson = nlohmann::ordered_json;

/// A part of a schema that a value must satisfy.
struct SchemaPart {
  enum class Which : std::uint8_t {
    kAll,
    kOwn,    ///< all but $ref, allOf, anyOf and oneOf
    kAnyOf,  ///< anyOf alone
    kOneOf,
  };
  const OrderedJson* schema = nullptr;
  Which which = Which::kAll;

  auto operator<=>(const SchemaPart&) const = default;
};

/// All of these must hold: sorted, each once.
using SchemaParts = std::vector<SchemaPart>;

/// Types of JSON values as bits.
enum JsonType : unsigned {
  kJsonNull = 1,
  kJsonBoolean = 2,
  kJsonInteger = 4,
  kJsonFraction = 8,  ///< numbers that are not integers
  kJsonString = 16,
  kJsonArray = 32,
  kJsonObject = 64,
  kJsonAny = 127,
};

/// The values that the parts of a schema allow together, except for their alternatives.
struct SchemaShape {
  unsigned types = kJsonAny;
  std::optional<std::vector<OrderedJson>> values{};  ///< only these: enum and const
  NumberBound least = {-std::numeric_limits<double>::infinity()};
  NumberBound most = {std::numeric_limits<double>::infinity()};
  std::vector<std::int64_t> multiples{};  ///< integers that divide the number
  std::size_t least_length = 0;           ///< of strings, in characters
  std::size_t most_length = static_cast<std::size_t>(-1);
  std::vector<std::string> patterns{};
  std::string format{};
  std::size_t least_items = 0;
  std::size_t most_items = static_cast<std::size_t>(-1);
  std::size_t least_properties = 0;
  std::size_t most_properties = static_cast<std::size_t>(-1);
  std::vector<std::string> required{};
  std::vector<std::string> absent{};          ///< properties that must not be there
  std::vector<const OrderedJson*> schemas{};  ///< all own parts, for the keywords of arrays and objects
  std::vector<SchemaPart> alternatives{};     ///< anyOf and oneOf: one of each must hold, too
};

/// One schema document, which it owns.
class JsonSchemaReader {
 public:
  /// Throws Error for text that is no schema.
  explicit JsonSchemaReader(std::string_view text);

  const OrderedJson& root() const { return root_; }

  /// Throws Error for a schema that is not valid, UnsupportedError for a keyword that is not supported.
  SchemaShape read(const SchemaParts& parts) const;

  /// Returns the schemas that apply to the same value because this one does, or may: references, conjunctions and
  /// alternatives, this one first.
  std::vector<const OrderedJson*> in_place(const OrderedJson* schema) const;

  /// Returns where a schema is in the document: "#/properties/a".
  std::string place(const OrderedJson* schema) const;

  [[noreturn]] void refuse(const OrderedJson* schema, std::string_view keyword, std::string_view problem) const;
  [[noreturn]] void refuse_kind(const OrderedJson* schema, std::string_view keyword,
                                std::string_view detail = {}) const;

  /// Returns a keyword's value, null if the schema does not have it. Throws Error for another type of value.
  const OrderedJson* object_at(const OrderedJson* schema, const char* keyword) const;
  const OrderedJson* array_at(const OrderedJson* schema, const char* keyword) const;
  /// Returns a schema: an object or a boolean.
  const OrderedJson* schema_at(const OrderedJson* schema, const char* keyword) const;

 private:
  void collect(const OrderedJson& schema, std::string place);
  void flatten(const SchemaParts& parts, SchemaShape& shape) const;
  void read_own(const OrderedJson* schema, SchemaShape& shape) const;
  void read_types(const OrderedJson* schema, SchemaShape& shape) const;
  void read_values(const OrderedJson* schema, SchemaShape& shape) const;
  void read_numbers(const OrderedJson* schema, SchemaShape& shape) const;
  void read_strings(const OrderedJson* schema, SchemaShape& shape) const;
  void read_arrays(const OrderedJson* schema, SchemaShape& shape) const;
  void read_objects(const OrderedJson* schema, SchemaShape& shape) const;
  void read_not(const OrderedJson* schema, SchemaShape& shape) const;
  void read_count(const OrderedJson* schema, const char* least_keyword, const char* most_keyword, std::size_t& least,
                  std::size_t& most) const;
  unsigned types_of(const OrderedJson* schema, const OrderedJson& type) const;
  const OrderedJson* target(const OrderedJson* schema) const;

  OrderedJson root_;
  std::map<const OrderedJson*, std::string> places_;  ///< of all objects and booleans
  std::map<std::string, const OrderedJson*> anchors_;
  bool has_inner_ids_ = false;
};

/// Returns the type of a value, as one bit.
unsigned json_type(const OrderedJson& value);

/// Returns `parts` and `more`, sorted, each once.
SchemaParts merged(const SchemaParts& parts, const SchemaParts& more);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_CONSTRAINT_JSON_SCHEMA_READER_H_
