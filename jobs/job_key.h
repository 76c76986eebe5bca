// The identity of a job: two jobs with the same key do the same work, so the results of one can be used by the other.
#ifndef BALLAST_JOBS_JOB_KEY_H_
#define BALLAST_JOBS_JOB_KEY_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/compute_options.h"

namespace ballast::jobs {

/// Returns the version and the identity of the build: changed code or flags may give other bytes.
const std::string& program_identity();

/// A hash of everything that a job's result depends on. The running program and the options that
/// change bits are included automatically.
class JobKey {
 public:
  explicit JobKey(const ComputeOptions& compute = {});

  JobKey& add(std::string_view name, std::string_view value);
  JobKey& add(std::string_view name, std::uint64_t value);

  /// Adds a file by its name, size, modification time and first 64 KB, or a directory by all files in it. A path that
  /// does not exist is added as missing.
  JobKey& add_file(const std::filesystem::path& path);

  /// Adds a file by its contents, independent of its path. Throws Error if it cannot be read.
  JobKey& add_content(std::string_view name, const std::filesystem::path& path);

  /// Adds a model by its owner's `identity`, independent of its paths; each by add_file() if that is empty.
  JobKey& add_model(std::string_view identity, const std::vector<std::filesystem::path>& paths);

  /// Returns 16 hexadecimal digits.
  std::string digest() const;

 private:
  std::string text_;
};

}  // namespace ballast::jobs

#endif  // BALLAST_JOBS_JOB_KEY_H_
