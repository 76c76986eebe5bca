// Calibration's progress between two blocks, saved and found again.
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

/// What the next block needs and what the blocks before it gave.
struct CalibrationProgress {
  std::vector<std::span<float>> rows;  ///< of tokens: all that is kept of them between two blocks
  std::span<std::uint8_t> massive_rows;
  MassiveActivationTracker& findings;
  Statistics& statistics;
};

/// Saves what is there after `layer`, on all ranks or on none; the first rank decides whether it is worth its time.
void save_progress(jobs::JobState& state, Ranks& ranks, std::size_t layer, const CalibrationProgress& progress);

/// The last layer that all ranks have saved, whose progress is then restored; empty when there is none.
std::optional<std::size_t> restore_progress(const jobs::JobState& state, Ranks& ranks,
                                            const CalibrationProgress& progress);

}  // namespace ballast::calib

#endif  // BALLAST_CALIB_CALIBRATION_STATE_H_
