#include "serve/service/api_keys.h"

#include <cctype>
#include <sstream>

#include "ballast/error.h"
#include "files/text.h"
#include "files/text_file.h"

namespace ballast::serve {
namespace {

/// Compares all bytes of `given`, also after a difference.
bool equal_in_constant_time(std::string_view key, std::string_view given) {
  unsigned difference = key.size() == given.size() ? 0 : 1;
  for (std::size_t i = 0; i < given.size(); ++i) {
    difference |=
        static_cast<unsigned>(static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(key[i % key.size()]));
  }
  return difference == 0;
}

}  // namespace

ApiKeys::ApiKeys(const std::filesystem::path& file) {
  constexpr std::size_t kShortest = 8;
  std::istringstream lines(files::read_text_file(file));
  std::string line;
  for (std::size_t number = 1; std::getline(lines, line); ++number) {
    std::istringstream words(line);
    std::string name, key, more;
    if (!(words >> name) || name.front() == '#') continue;
    if (!(words >> key) || words >> more || key.size() < kShortest) {
      throw Error(files::concat(file.string(), ": line ", number),
                  files::concat("must be a name and a key of at least ", kShortest, " characters"));
    }
    keys_.emplace_back(name, key);
  }
  if (keys_.empty()) throw Error(file.string(), "has no keys: a line is a name and a key");
}

std::optional<std::string_view> ApiKeys::name_of(std::string_view authorization) const {
  constexpr std::string_view kScheme = "bearer ";
  if (authorization.size() < kScheme.size()) return std::nullopt;
  for (std::size_t i = 0; i < kScheme.size(); ++i) {
    if (std::tolower(static_cast<unsigned char>(authorization[i])) != kScheme[i]) return std::nullopt;
  }
  const std::string_view given = authorization.substr(kScheme.size());
  std::optional<std::string_view> found;
  for (const auto& [name, key] : keys_) {
    if (equal_in_constant_time(key, given)) found = name;
  }
  return found;
}

}  // namespace ballast::serve
