#include "jobs/job_key.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <system_error>
#include <vector>

#include "ballast/error.h"
#include "ballast/version.h"
#include "files/content_hash.h"
#include "files/mapped_file.h"

namespace ballast::jobs {

namespace {

namespace fs = std::filesystem;

std::string head_of(const fs::path& path) {
  constexpr std::size_t kHeadBytes = std::size_t{1} << 16;
  std::ifstream file(path, std::ios::binary);
  std::string head(kHeadBytes, '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(file.gcount()));
  return head;
}

/// Returns the file of this code: the program, or the library, if another program has loaded it.
fs::path file_of_this_code() {
  Dl_info found{};
  void* map = nullptr;
  const auto* code = reinterpret_cast<const void*>(&program_identity);
  if (::dladdr1(code, &found, &map, RTLD_DL_LINKMAP) != 0 && map != nullptr) {
    const char* library = static_cast<const link_map*>(map)->l_name;
    if (*library != '\0') return library;
  }
  return "/proc/self/exe";
}

}  // namespace

const std::string& program_identity() {
  static const std::string identity = [] {
    try {
      return std::string(version()) + " (build " +
             files::content_digits(files::MappedFile(file_of_this_code()).bytes()) + ")";
    } catch (const Error&) {
      return std::string(version());  // a program may be executable and not readable
    }
  }();
  return identity;
}

JobKey::JobKey(const ComputeOptions& compute) {
  add("program", program_identity());
  if (compute.bf16_products) add("products", "bf16");
}

JobKey& JobKey::add(std::string_view name, std::string_view value) {
  // The length before the value ensures that no value can be confused with another name and value.
  text_.append(name).append("=").append(std::to_string(value.size())).append(":").append(value).append("\n");
  return *this;
}

JobKey& JobKey::add(std::string_view name, std::uint64_t value) {
  return add(name, std::to_string(value));
}

JobKey& JobKey::add_file(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    std::vector<fs::path> files;
    for (const fs::directory_entry& entry : fs::directory_iterator(path, ignored)) {
      if (!entry.is_directory(ignored)) files.push_back(entry.path());
    }
    std::ranges::sort(files);
    add("directory", path.string());
    for (const fs::path& file : files) add_file(file);
    return *this;
  }
  add("file", path.string());
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return add("missing", "");
  add("size", static_cast<std::uint64_t>(status.st_size));
  add("changed", std::to_string(status.st_mtim.tv_sec) + "." + std::to_string(status.st_mtim.tv_nsec));
  return add("head", head_of(path));
}

JobKey& JobKey::add_content(std::string_view name, const fs::path& path) {
  const files::MappedFile file(path);
  const std::string digits = files::content_digits(file.bytes());
  file.check_whole();
  return add(name, digits);
}

JobKey& JobKey::add_model(std::string_view identity, const std::vector<fs::path>& paths) {
  if (!identity.empty()) return add("model", identity);
  for (const fs::path& path : paths) add_file(path);
  return *this;
}

std::string JobKey::digest() const {
  return files::content_digits(text_);
}

}  // namespace ballast::jobs
