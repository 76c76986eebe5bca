// HTML pages of measurements.
#ifndef BALLAST_REPORT_H_
#define BALLAST_REPORT_H_

#include <filesystem>
#include <string>
#include <vector>

#include "ballast/statistics.h"
#include "ballast/sweep.h"

namespace ballast {

/// Returns one self-contained HTML page (inline SVG and CSS) that shows the massive activations, attention sinks and
/// outlier ratios of a calibration, and explains what a conversion does about them.
std::string calibration_page(const Statistics& statistics);

/// Writes the page completely or not at all. Throws FileError, and Error if it exists and must not be replaced.
void save_calibration_page(const Statistics& statistics, const std::filesystem::path& path, bool replace);

/// Returns one self-contained HTML page with the results of a sweep: divergence over size and over speed with the
/// recipes that no other beats, other programs' figures for comparison, and all numbers as a table.
std::string sweep_page(const Sweep& sweep, const std::vector<SweepPeer>& peers = {});

/// Writes results.json, results.csv and the page, as index.html, to an existing folder. Throws FileError.
void save_sweep(const Sweep& sweep, const std::filesystem::path& folder, const std::vector<SweepPeer>& peers = {});

}  // namespace ballast

#endif  // BALLAST_REPORT_H_
