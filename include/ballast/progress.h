// The forecast and the progress of a long job.
#ifndef BALLAST_PROGRESS_H_
#define BALLAST_PROGRESS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

namespace ballast {

/// Is called by a job on its own thread after each step: `done` of `total` steps of `stage` are complete. An exception
/// thrown from it ends the job, which leaves no partial output behind.
using Progress = std::function<void(std::string_view stage, std::size_t done, std::size_t total)>;

/// The forecast that is reported before a job begins.
struct JobPlan {
  std::uint64_t memory_bytes = 0;     ///< resident at the peak, of one rank
  std::uint64_t available_bytes = 0;  ///< that one rank may use
  double seconds = 0;                 ///< on an otherwise idle machine
};

}  // namespace ballast

#endif  // BALLAST_PROGRESS_H_
