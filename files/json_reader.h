// Typed access to JSON from untrusted files. Every access is checked, and a failure is one line that names the file and
// the path in it: "dir/config.json: rope_scaling.factor: must be a number, is \"8\"".
#ifndef BALLAST_FILES_JSON_READER_H_
#define BALLAST_FILES_JSON_READER_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace ballast::files {

/// A view of a value, which must outlive it and all readers made from it. All getters throw Error. It only reads, so
/// several threads may use it.
class JsonReader {
 public:
  /// `context` is the location of the value for messages: a file, or a location in it.
  JsonReader(const nlohmann::json& value, std::string context);

  /// Getters of the value itself.
  const std::string& string() const;
  bool boolean() const;
  double number() const;  ///< a finite number

  /// Returns a whole number from `least` to `most`.
  template <typename Integer = std::int64_t>
  Integer integer(Integer least = std::numeric_limits<Integer>::min(),
                  Integer most = std::numeric_limits<Integer>::max()) const;

  std::vector<JsonReader> elements() const;                              ///< of a list
  std::vector<JsonReader> tuple(std::size_t size) const;                 ///< of a list with this size
  std::vector<std::pair<std::string_view, JsonReader>> members() const;  ///< of an object, by name

  /// Returns a list that contains only strings.
  std::vector<std::string> strings() const;
  template <typename Integer>
  std::vector<Integer> integers(Integer least = std::numeric_limits<Integer>::min(),
                                Integer most = std::numeric_limits<Integer>::max()) const;

  /// The functions below access the members of an object. A member that is null counts as missing.
  bool has(std::string_view field) const;
  std::optional<JsonReader> find(std::string_view field) const;
  JsonReader at(std::string_view field) const;  ///< throws Error if it is missing

  /// Returns a member that must be an object.
  JsonReader object(std::string_view field) const;

  /// Returns a whole number in [1, 2^31). The second form has a default for a missing field, as those below.
  std::size_t size(std::string_view field) const;
  std::size_t size(std::string_view field, std::size_t fallback) const;

  /// Returns a whole number in [0, 2^31).
  std::size_t count(std::string_view field) const;
  std::size_t count(std::string_view field, std::size_t fallback) const;

  /// Returns a finite number.
  double number(std::string_view field) const { return at(field).number(); }
  double number(std::string_view field, double fallback) const;

  /// Returns a finite number above 0.
  double positive(std::string_view field) const;
  double positive(std::string_view field, double fallback) const;

  bool flag(std::string_view field) const { return at(field).boolean(); }
  bool flag(std::string_view field, bool fallback) const;
  std::string text(std::string_view field) const { return at(field).string(); }
  std::string text(std::string_view field, std::string_view fallback) const;

  const nlohmann::json& json() const { return *value_; }
  std::string context() const;

  /// Throws Error about the value, or about a member of it, which need not exist.
  [[noreturn]] void fail(std::string_view problem) const;
  [[noreturn]] void fail(std::string_view field, std::string_view problem) const;

 private:
  // The container of a value: the file, or a list or an object in it.
  struct Container {
    std::string context;
    bool is_file;
  };

  // The step from the container to the value: none in a file, a member's name, or an index.
  using Step = std::variant<std::monostate, std::string_view, std::size_t>;

  JsonReader(const nlohmann::json& value, std::shared_ptr<const Container> container, Step step)
      : value_(&value), container_(std::move(container)), step_(step) {}

  void check_object() const;
  std::shared_ptr<const Container> as_container() const;
  [[noreturn]] void wrong_type(std::string_view expected) const;
  [[noreturn]] void out_of_range(const std::string& least, const std::string& most) const;

  // A vocabulary has 100,000 members, so the text of a location is built only when it is needed.
  const nlohmann::json* value_;
  std::shared_ptr<const Container> container_;
  Step step_;
};

template <typename Integer>
Integer JsonReader::integer(Integer least, Integer most) const {
  if (!value_->is_number_integer()) wrong_type("a whole number");
  const auto in_range = [&](auto value) {
    return std::cmp_less_equal(least, value) && std::cmp_less_equal(value, most);
  };
  const bool fits =
      value_->is_number_unsigned() ? in_range(value_->get<std::uint64_t>()) : in_range(value_->get<std::int64_t>());
  if (!fits) out_of_range(std::to_string(least), std::to_string(most));
  return value_->get<Integer>();
}

template <typename Integer>
std::vector<Integer> JsonReader::integers(Integer least, Integer most) const {
  std::vector<Integer> integers;
  for (const JsonReader& element : elements()) integers.push_back(element.integer(least, most));
  return integers;
}

}  // namespace ballast::files

#endif  // BALLAST_FILES_JSON_READER_H_
