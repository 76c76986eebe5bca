// Pages drawn from what was measured.
#ifndef BALLAST_REPORT_H_
#define BALLAST_REPORT_H_

#include <string>

#include "ballast/statistics.h"

namespace ballast {

/// One self-contained HTML page (inline SVG and CSS, nothing loaded from elsewhere) that shows the massive activations,
/// attention sinks and outlier ratios that calibration found, and says in words what conversion does about them.
std::string calibration_page(const Statistics& statistics);

}  // namespace ballast

#endif  // BALLAST_REPORT_H_
