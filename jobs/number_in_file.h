// Numbers from the kernel's small text files.
#ifndef BALLAST_JOBS_NUMBER_IN_FILE_H_
#define BALLAST_JOBS_NUMBER_IN_FILE_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace ballast::jobs {

/// Returns the number after `key` in a file of "key number" lines; without a key, the file's first word. Returns
/// nullopt if the file or the number is missing ("max").
std::optional<std::uint64_t> number_in_file(const std::filesystem::path& path, const std::string& key = "");

}  // namespace ballast::jobs

#endif  // BALLAST_JOBS_NUMBER_IN_FILE_H_
