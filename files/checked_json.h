// Reading JSON that somebody else wrote: every access is checked and a failure names the file and the path in it.
#ifndef BALLAST_FILES_CHECKED_JSON_H_
#define BALLAST_FILES_CHECKED_JSON_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ballast::files {

/// View of a value and where it stands ("FILE: model.vocab"). The value must outlive it. All getters throw Error.
class CheckedJson {
 public:
  CheckedJson(const nlohmann::json& value, std::string context) : value_(&value), context_(std::move(context)) {}

  /// The member `key` of an object; missing is an Error.
  CheckedJson at(std::string_view key) const;

  /// The member `key` of an object, nothing when it is missing or null.
  std::optional<CheckedJson> find(std::string_view key) const;

  std::vector<CheckedJson> elements() const;
  const std::string& string() const;
  bool boolean() const;
  std::int64_t integer() const;

  bool flag(std::string_view key, bool otherwise) const;

  /// `type` of an object such as {"type": "NFC"}.
  const std::string& type() const { return at("type").string(); }

  const nlohmann::json& object() const;
  const nlohmann::json& array() const;
  const nlohmann::json& value() const { return *value_; }
  const std::string& context() const { return context_; }

  [[noreturn]] void fail(std::string_view problem) const;

 private:
  [[noreturn]] void wrong_type(std::string_view expected) const;

  const nlohmann::json* value_;
  std::string context_;
};

}  // namespace ballast::files

#endif  // BALLAST_FILES_CHECKED_JSON_H_
