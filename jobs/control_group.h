// The control groups (version 2) that limit this process, as in a container.
#ifndef BALLAST_JOBS_CONTROL_GROUP_H_
#define BALLAST_JOBS_CONTROL_GROUP_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace ballast::jobs {

/// A group and those above it, which limit it too.
class ControlGroup {
 public:
  /// This process' own.
  ControlGroup();

  /// `root` is /sys/fs/cgroup, `group` a path in it, relative.
  ControlGroup(std::filesystem::path root, std::filesystem::path group);

  /// The least of the limits on memory, less what the groups hold that cannot be dropped; the largest number when there
  /// are none.
  std::uint64_t available_memory() const;

  /// Whole processors that the smallest quota pays for; nothing when there is none.
  std::optional<std::size_t> processors() const;

 private:
  // Calls visit(folder) for the group and each above it.
  template <typename Visit>
  void walk_up(const Visit& visit) const;

  std::filesystem::path root_;
  std::filesystem::path group_;
};

/// Whole processors that a quota of "150000 100000" (microseconds of each period, as in a control group's cpu.max)
/// pays for, at least one: a team of threads that spends its quota early stops as a whole. Nothing when there is none
/// ("max 100000", or text of another form).
std::optional<std::size_t> processors_of_quota(std::string_view cpu_max);

}  // namespace ballast::jobs

#endif  // BALLAST_JOBS_CONTROL_GROUP_H_
