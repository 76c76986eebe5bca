// Saves and restores calibration's progress between two blocks.
#ifndef BALLAST_CALIB_CALIBRATION_STATE_H_
#define BALLAST_CALIB_CALIBRATION_STATE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ballast/ranks.h"
#include "ballast/statistics.h"
#include "calib/massive_activation_tracker.h"
#include "jobs/job_state.h"

namespace ballast::calib {

/// The input of the next block and the results of the earlier ones.
struct CalibrationProgress {
  std::vector<std::span<float>> rows;  ///< of tokens: the state between two blocks
  std::span<std::uint8_t> massive_rows;
  MassiveActivationTracker& findings;
  Statistics& statistics;
};

/// Saves the progress after `layer`, on all ranks or on none; the root rank decides whether it is worth the time.
void save_progress(jobs::JobState& state, Ranks& ranks, std::size_t layer, const CalibrationProgress& progress);

/// Restores the progress of the last layer that all ranks have saved and returns it; nullopt if there is none.
std::optional<std::size_t> restore_progress(const jobs::JobState& state, Ranks& ranks,
                                            const CalibrationProgress& progress);

}  // namespace ballast::calib

#endif  // BALLAST_CALIB_CALIBRATION_STATE_H_
