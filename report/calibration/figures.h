// The figures of the calibration page. Each function gives the inside of one section: a sentence that says what is
// seen, the drawing, and where they are few the numbers as a table. Without data it says that nothing was recorded.
#ifndef BALLAST_REPORT_CALIBRATION_FIGURES_H_
#define BALLAST_REPORT_CALIBRATION_FIGURES_H_

#include <string>

#include "ballast/statistics.h"
#include "report/calibration/calibration_summary.h"

namespace ballast::report {

/// The three largest magnitudes and the median of each layer's output.
std::string magnitude_figure(const Statistics& statistics, const CalibrationSummary& findings);

/// |activation| over tokens and channels at the output of the layer with the largest value.
std::string activation_map_figure(const Statistics& statistics);

/// Share of attention on the first token, by layer and head.
std::string sink_figure(const Statistics& statistics, const CalibrationSummary& findings);

/// How far the largest input channel of each linear stands above the median one, and how many are outliers.
std::string linear_figure(const CalibrationSummary& findings);

/// How many tokens each expert got, where there are experts.
std::string expert_figure(const Statistics& statistics);

/// The largest and the median channel of keys and values.
std::string key_value_figure(const Statistics& statistics);

}  // namespace ballast::report

#endif  // BALLAST_REPORT_CALIBRATION_FIGURES_H_
