#include "ballast/hub_name.h"

#include <cstddef>
#include <regex>
#include <system_error>

namespace ballast {

namespace fs = std::filesystem;

std::optional<HubName> parse_hub_name(const fs::path& model) {
  static const std::regex kPattern(R"((\w[\w.-]*/\w[\w.-]*)(?:/((?:\w[\w.-]*/)*\w[\w.-]*\.gguf))?(?:@(\w[\w./-]*))?)");
  constexpr std::size_t kLongest = 500;  // the Hub's names have at most 96 characters, and matching takes stack
  const std::string text = model.string();
  if (text.size() > kLongest) return std::nullopt;
  std::smatch parts;
  if (!std::regex_match(text, parts, kPattern)) return std::nullopt;
  std::error_code error;
  if (fs::exists(*model.begin(), error)) return std::nullopt;
  HubName name = {.repository = parts[1], .file = parts[2], .revision = parts[3]};
  if (name.repository.ends_with(".gguf")) return std::nullopt;  // FOLDER/FILE.gguf
  return name;
}

std::string hub_command(const HubName& name) {
  std::string command = "hf download " + name.repository;
  if (!name.file.empty()) command += " " + name.file;
  if (!name.revision.empty()) command += " --revision " + name.revision;
  return command;
}

}  // namespace ballast
