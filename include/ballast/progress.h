// What a long job expects to take, and how far it is.
#ifndef BALLAST_PROGRESS_H_
#define BALLAST_PROGRESS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

namespace ballast {

/// Called by a job from its own thread after each step: `done` of `total` steps of `stage`.
/// An exception thrown from it ends the job, which leaves no partial output behind.
using Progress = std::function<void(std::string_view stage, std::size_t done, std::size_t total)>;

/// What is said before a job begins.
struct JobPlan {
  std::uint64_t memory_bytes = 0;     ///< resident at the peak, of one rank
  std::uint64_t available_bytes = 0;  ///< that one rank may take
  double seconds = 0;                 ///< on a machine that does nothing else
};

}  // namespace ballast

#endif  // BALLAST_PROGRESS_H_
