// The control groups (version 2) that limit this process, as in a container.
#ifndef BALLAST_JOBS_CONTROL_GROUP_H_
#define BALLAST_JOBS_CONTROL_GROUP_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace ballast::jobs {

/// A control group and its parents, which limit the process, too.
class ControlGroup {
 public:
  /// Finds the group of this process.
  ControlGroup();

  /// `root` is /sys/fs/cgroup, `group` a relative path in it.
  ControlGroup(std::filesystem::path root, std::filesystem::path group);

  /// Returns the smallest memory limit, less the memory of the groups that cannot be dropped; the largest number if
  /// there is no limit.
  std::uint64_t available_memory() const;

  /// Returns the whole processors allowed by the smallest quota; nullopt without a quota.
  std::optional<std::size_t> processors() const;

 private:
  // Calls visit(folder) for the group and each above it.
  template <typename Visit>
  void walk_up(const Visit& visit) const;

  std::filesystem::path root_;
  std::filesystem::path group_;
};

/// Returns the whole processors, at least one, of a quota such as "150000 100000" (microseconds per period, as in a
/// control group's cpu.max): a team of threads that uses up its quota early stops as a whole. Returns nullopt for no
/// quota ("max 100000") or text of another form.
std::optional<std::size_t> processors_of_quota(std::string_view cpu_max);

}  // namespace ballast::jobs

#endif  // BALLAST_JOBS_CONTROL_GROUP_H_
