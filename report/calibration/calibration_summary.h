// The findings of the calibration page, computed from the statistics before drawing.
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

  /// Returns the value divided by the median; not finite if the median is 0.
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

/// Inputs that differ only in their layer. Kinds are derived from the names and work for any architecture.
struct LinearKind {
  std::string name;      ///< "self_attn.q_proj, k_proj, v_proj"
  bool layered = false;  ///< false for linears outside the layers, such as the head
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

  /// Returns whether a layer has massive values.
  bool massive() const { return !massive_layers.empty(); }

  std::optional<LargestValue> largest;  ///< over the massive layers, or over all if there are none
  std::vector<std::size_t> massive_layers;
  std::size_t residual_channels = 0;  ///< 0: unknown
  std::size_t attention_layers = 0;   ///< rows of sink_share
  std::size_t sink_heads = 0;
  std::vector<LinearKind> kinds;  ///< in the order of the forward pass
  std::size_t inputs = 0;
  std::size_t inputs_with_outliers = 0;
};

/// Returns nullopt if there are no channels.
std::optional<ChannelRange> channel_range(const ChannelStatistics& channels);

/// Describes the tokens with massive values: "at the first token", "at the first token and at “.”". If some tokens are
/// massive in several samples, those that are massive in one sample only are left out.
std::string massive_places(const Statistics& statistics);

}  // namespace ballast::report

#endif  // BALLAST_REPORT_CALIBRATION_CALIBRATION_SUMMARY_H_
