// Pages drawn from what was measured.
#ifndef BALLAST_REPORT_H_
#define BALLAST_REPORT_H_

#include <string>
#include <vector>

#include "ballast/statistics.h"
#include "ballast/sweep.h"

namespace ballast {

/// One self-contained HTML page (inline SVG and CSS, nothing loaded from elsewhere) that shows the massive activations,
/// attention sinks and outlier ratios that calibration found, and says in words what conversion does about them.
std::string calibration_page(const Statistics& statistics);

/// One self-contained HTML page that shows what a sweep measured: divergence over size and over speed with the recipes
/// that no other beats, other programs' figures beside them, and all numbers as a table.
std::string sweep_page(const Sweep& sweep, const std::vector<SweepPeer>& peers = {});

}  // namespace ballast

#endif  // BALLAST_REPORT_H_
