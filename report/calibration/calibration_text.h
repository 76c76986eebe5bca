// The texts of the calibration page.
#ifndef BALLAST_REPORT_CALIBRATION_CALIBRATION_TEXT_H_
#define BALLAST_REPORT_CALIBRATION_CALIBRATION_TEXT_H_

#include <string>

#include "ballast/statistics.h"
#include "report/calibration/calibration_summary.h"

namespace ballast::report {

/// Returns one sentence of plain text: "Two of 576 channels carry values up to 14,000 times the median, at the first
/// token, in layers 12–28".
std::string headline(const Statistics& statistics, const CalibrationSummary& findings);

/// Returns model, text and samples as HTML.
std::string provenance(const Statistics& statistics);

/// Returns a summary of the page in a few sentences of HTML.
std::string lead(const Statistics& statistics, const CalibrationSummary& findings);

/// Returns as HTML how a conversion handles each finding.
std::string conversion_plan(const Statistics& statistics, const CalibrationSummary& findings);

}  // namespace ballast::report

#endif  // BALLAST_REPORT_CALIBRATION_CALIBRATION_TEXT_H_
