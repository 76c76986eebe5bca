// The words of the calibration page.
#ifndef BALLAST_REPORT_CALIBRATION_CALIBRATION_TEXT_H_
#define BALLAST_REPORT_CALIBRATION_CALIBRATION_TEXT_H_

#include <string>

#include "ballast/statistics.h"
#include "report/calibration/calibration_summary.h"

namespace ballast::report {

/// One sentence, plain text: "Two of 576 channels carry values up to 14,000 times the median, at the first token, in
/// layers 12–28".
std::string headline(const Statistics& statistics, const CalibrationSummary& findings);

/// What was run: model, text, samples. HTML.
std::string provenance(const Statistics& statistics);

/// What the page shows in a few sentences. HTML.
std::string lead(const Statistics& statistics, const CalibrationSummary& findings);

/// What conversion does about each finding. HTML.
std::string conversion_plan(const Statistics& statistics, const CalibrationSummary& findings);

}  // namespace ballast::report

#endif  // BALLAST_REPORT_CALIBRATION_CALIBRATION_TEXT_H_
