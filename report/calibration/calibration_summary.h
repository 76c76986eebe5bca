// What the calibration page says, worked out from the statistics before anything is drawn.
#ifndef BALLAST_REPORT_CALIBRATION_CALIBRATION_SUMMARY_H_
#define BALLAST_REPORT_CALIBRATION_CALIBRATION_SUMMARY_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "ballast/statistics.h"

namespace ballast::report {

struct LargestValue {
  TopValue value;
  std::size_t layer = 0;
  double median = 0;  ///< of that layer

  /// Times the median; not finite where the median is 0.
  double ratio() const;
};

/// The input of one linear, or of several that share it.
struct InputSummary {
  std::size_t layer = 0;  ///< from 1: the first number in the linear's name, plus 1
  std::string name;       ///< of the first linear that reads it
  double ratio = 0;       ///< absmax_ratio
  std::size_t channels = 0;
  std::size_t outliers = 0;
};

/// Inputs that differ in their layer only. Kinds come from the names as they are, whatever the architecture calls them.
struct LinearKind {
  std::string name;      ///< "self_attn.q_proj, k_proj, v_proj"
  bool layered = false;  ///< false for what stands outside the layers, as the head does
  std::vector<InputSummary> inputs;
};

/// The channel with the largest magnitude among keys or values of a layer.
struct ChannelRange {
  std::size_t channel = 0;
  double largest = 0;
  double median = 0;  ///< over channels
};

struct CalibrationSummary {
  explicit CalibrationSummary(const Statistics& statistics);

  /// True when some layer has massive values.
  bool massive() const { return !massive_layers.empty(); }

  std::optional<LargestValue> largest;  ///< over the massive layers, or over all when none is
  std::vector<std::size_t> massive_layers;
  std::size_t residual_channels = 0;  ///< 0: unknown
  std::size_t attention_layers = 0;   ///< rows of sink_share
  std::size_t sink_heads = 0;
  std::vector<LinearKind> kinds;  ///< in the order of the forward pass
  std::size_t inputs = 0;
  std::size_t inputs_with_outliers = 0;
};

/// Nothing when there are no channels.
std::optional<ChannelRange> channel_range(const ChannelStatistics& channels);

/// Where massive values stand: "at the first token", "at the first token and at “.”". Tokens that were massive in one
/// sample only are left out beside those that are so again and again.
std::string massive_places(const Statistics& statistics);

}  // namespace ballast::report

#endif  // BALLAST_REPORT_CALIBRATION_CALIBRATION_SUMMARY_H_
