// The factors that smoothing has chosen for the inputs of linears.
#ifndef BALLAST_QUANT_PASSES_SMOOTHING_FACTORS_H_
#define BALLAST_QUANT_PASSES_SMOOTHING_FACTORS_H_

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "quant/block/module_id.h"

namespace ballast::quant {

/// Stores the results of smoothing's search, which takes longer than all other parts of preparing a block, so that a
/// block that is prepared twice is searched once. It takes a fifth of the memory of the statistics: one float per
/// channel. Not thread-safe.
class SmoothingFactors {
 public:
  /// One factor per channel; nullopt: the input is left as it is.
  using Factors = std::optional<std::vector<float>>;

  /// Returns the factors of the input that `reader` reads, or null if they were not searched for yet. An input is
  /// identified by the first linear that reads it.
  const Factors* find(const ModuleId& reader) const {
    const auto it = chosen_.find(reader);
    return it == chosen_.end() ? nullptr : &it->second;
  }

  void keep(const ModuleId& reader, Factors factors) { chosen_[reader] = std::move(factors); }

 private:
  std::map<ModuleId, Factors> chosen_;
};

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_PASSES_SMOOTHING_FACTORS_H_
