// The figures of the calibration page. Each function returns the content of one section: a sentence that describes the
// figure, the drawing, and for small data a table of the numbers. Without data it states that nothing was recorded.
#ifndef BALLAST_REPORT_CALIBRATION_FIGURES_H_
#define BALLAST_REPORT_CALIBRATION_FIGURES_H_

#include <string>

#include "ballast/statistics.h"
#include "report/calibration/calibration_summary.h"

namespace ballast::report {

/// Draws the three largest magnitudes and the median of each layer's output.
std::string magnitude_figure(const Statistics& statistics, const CalibrationSummary& findings);

/// Draws |activation| over tokens and channels at the output of the layer with the largest value.
std::string activation_map_figure(const Statistics& statistics);

/// Draws the share of attention on the first token, by layer and head.
std::string sink_figure(const Statistics& statistics, const CalibrationSummary& findings);

/// Draws the ratio of the largest to the median input channel of each linear, and the number of outliers.
std::string linear_figure(const CalibrationSummary& findings);

/// Draws the number of tokens of each expert, if there are experts.
std::string expert_figure(const Statistics& statistics);

/// Draws the largest and the median channel of keys and values.
std::string key_value_figure(const Statistics& statistics);

}  // namespace ballast::report

#endif  // BALLAST_REPORT_CALIBRATION_FIGURES_H_
