// Numbers that the kernel tells in small text files.
#ifndef BALLAST_JOBS_NUMBER_IN_FILE_H_
#define BALLAST_JOBS_NUMBER_IN_FILE_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace ballast::jobs {

/// The number after `key` in a file of "key number" lines; without a key, the file's first word. Nothing when there is
/// no such file or number ("max").
std::optional<std::uint64_t> number_in_file(const std::filesystem::path& path, const std::string& key = "");

}  // namespace ballast::jobs

#endif  // BALLAST_JOBS_NUMBER_IN_FILE_H_
