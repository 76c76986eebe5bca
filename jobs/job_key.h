// What tells one job from another: two jobs with the same key do the same work, so what one has done serves the other.
#ifndef BALLAST_JOBS_JOB_KEY_H_
#define BALLAST_JOBS_JOB_KEY_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace ballast::jobs {

/// The version and what tells builds of it apart: changed code or flags may give other bytes.
const std::string& program_identity();

/// Everything that a job's result depends on. The running program takes part by itself.
class JobKey {
 public:
  JobKey();

  JobKey& add(std::string_view name, std::string_view value);
  JobKey& add(std::string_view name, std::uint64_t value);

  /// A file by its name, size, time of change and first 64 KB; a directory by all files in it. A path that does not
  /// exist takes part as that.
  JobKey& add_file(const std::filesystem::path& path);

  /// A file by what is in it, wherever it is. Throws Error when it cannot be read.
  JobKey& add_content(std::string_view name, const std::filesystem::path& path);

  /// A model by what its owner knows it by, wherever it is; where that is empty, as add_file().
  JobKey& add_model(std::string_view identity, const std::filesystem::path& path);

  /// 16 hexadecimal digits.
  std::string digest() const;

 private:
  std::string text_;
};

}  // namespace ballast::jobs

#endif  // BALLAST_JOBS_JOB_KEY_H_
