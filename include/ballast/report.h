// Pages drawn from what was measured.
#ifndef BALLAST_REPORT_H_
#define BALLAST_REPORT_H_

#include <filesystem>
#include <string>
#include <vector>

#include "ballast/statistics.h"
#include "ballast/sweep.h"

namespace ballast {

/// One self-contained HTML page (inline SVG and CSS, nothing loaded from elsewhere) that shows the massive activations,
/// attention sinks and outlier ratios that calibration found, and says in words what conversion does about them.
std::string calibration_page(const Statistics& statistics);

/// Writes it; the file is there whole or not at all. Throws FileError, and Error when it exists and is not to be
/// replaced.
void save_calibration_page(const Statistics& statistics, const std::filesystem::path& path, bool replace);

/// One self-contained HTML page that shows what a sweep measured: divergence over size and over speed with the recipes
/// that no other beats, other programs' figures beside them, and all numbers as a table.
std::string sweep_page(const Sweep& sweep, const std::vector<SweepPeer>& peers = {});

/// Writes results.json, results.csv and, as index.html, the page to a folder that exists. Throws FileError.
void save_sweep(const Sweep& sweep, const std::filesystem::path& folder, const std::vector<SweepPeer>& peers = {});

}  // namespace ballast

#endif  // BALLAST_REPORT_H_
