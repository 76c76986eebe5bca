// Who may ask: keys with names, from a file.
#ifndef BALLAST_SERVE_SERVICE_API_KEYS_H_
#define BALLAST_SERVE_SERVICE_API_KEYS_H_

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ballast::serve {

class ApiKeys {
 public:
  /// Anybody may ask.
  ApiKeys() = default;

  /// Lines "NAME KEY"; empty ones and those that begin with # are skipped. Throws Error naming the file and the line.
  explicit ApiKeys(const std::filesystem::path& file);

  bool empty() const { return keys_.empty(); }

  /// The name of who sends `Authorization: Bearer KEY`; nothing for a key that is not there. How long it takes tells
  /// nothing of the keys.
  std::optional<std::string_view> name_of(std::string_view authorization) const;

 private:
  std::vector<std::pair<std::string, std::string>> keys_;
};

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_SERVICE_API_KEYS_H_
