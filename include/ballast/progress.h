// How a long job tells its caller where it is, without printing anything itself.
#ifndef BALLAST_PROGRESS_H_
#define BALLAST_PROGRESS_H_

#include <cstddef>
#include <functional>
#include <string_view>

namespace ballast {

/// Called by a job from its own thread after each step: `done` of `total` steps of `stage`.
/// An exception thrown from it ends the job, which leaves no partial output behind.
using Progress = std::function<void(std::string_view stage, std::size_t done, std::size_t total)>;

}  // namespace ballast

#endif  // BALLAST_PROGRESS_H_
