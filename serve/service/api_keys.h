// API keys with names, read from a file.
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
  /// Allows requests without a key.
  ApiKeys() = default;

  /// Reads lines "NAME KEY"; empty lines and those that begin with # are skipped. Throws Error naming the file and the
  /// line.
  explicit ApiKeys(const std::filesystem::path& file);

  bool empty() const { return keys_.empty(); }

  /// Returns the name of the key in `Authorization: Bearer KEY`, or nullopt for an unknown key. Its time does not
  /// depend on the keys.
  std::optional<std::string_view> name_of(std::string_view authorization) const;

 private:
  std::vector<std::pair<std::string, std::string>> keys_;
};

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_SERVICE_API_KEYS_H_
