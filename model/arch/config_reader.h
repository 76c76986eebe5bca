// Typed access to the fields of a config.json, with errors that name the file and the field.
#ifndef BALLAST_MODEL_ARCH_CONFIG_READER_H_
#define BALLAST_MODEL_ARCH_CONFIG_READER_H_

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace ballast::model {

/// A view of one JSON object; `context` ("dir/config.json") and the path of the object go into messages.
class ConfigReader {
 public:
  ConfigReader(const nlohmann::json& object, std::string context);

  bool has(std::string_view field) const;  ///< present and not null

  /// A whole number in [1, 2^31). The second form has a default for an absent field.
  std::size_t size(std::string_view field) const;
  std::size_t size(std::string_view field, std::size_t fallback) const;

  /// A number of blocks. So that a list or a loop of one entry per block is harmless before any tensor has been looked
  /// at, it is at most 65,536.
  std::size_t layers(std::string_view field) const;

  /// A whole number in [0, 2^31).
  std::size_t count(std::string_view field) const;
  std::size_t count(std::string_view field, std::size_t fallback) const;

  /// A finite number.
  double number(std::string_view field) const;
  double number(std::string_view field, double fallback) const;

  /// A finite number above 0.
  double positive(std::string_view field) const;
  double positive(std::string_view field, double fallback) const;

  bool flag(std::string_view field) const;
  bool flag(std::string_view field, bool fallback) const;
  std::string text(std::string_view field, std::string_view fallback) const;

  /// A nested object; Error when it is missing or not an object.
  ConfigReader object(std::string_view field) const;

  const nlohmann::json& json() const { return object_; }

  /// Throws Error about `field`: "dir/config.json: hidden_size: PROBLEM".
  [[noreturn]] void fail(std::string_view field, std::string_view problem) const;

 private:
  std::size_t whole(std::string_view field, std::int64_t least) const;
  const nlohmann::json& at(std::string_view field) const;

  const nlohmann::json& object_;
  std::string context_;
};

/// Whether a value is a whole number from `least` on that fits an int.
bool is_token_id(const nlohmann::json& value, int least);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_ARCH_CONFIG_READER_H_
