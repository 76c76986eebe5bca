// The results of weighing the formats of a model, stored for conversions that differ only in size.
#ifndef BALLAST_QUANT_SEARCH_WEIGHED_FORMATS_H_
#define BALLAST_QUANT_SEARCH_WEIGHED_FORMATS_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ballast/convert.h"
#include "quant/rounding/hessian.h"
#include "quant/search/allocation.h"
#include "quant/write/converted_module.h"

namespace ballast::quant {

struct WeighedFormats {
  std::vector<InputChoice> choices;                  ///< of the matrices with free formats: costs and bytes
  std::vector<ModulePlan> plan;                      ///< of the whole model, from its weights
  std::shared_ptr<const Hessian> tied_head_moments;  ///< of the head's input; null if it is not the embedding
};

}  // namespace ballast::quant

namespace ballast {

class FormatCosts {
 public:
  /// Returns null if there are no results for this key.
  std::shared_ptr<const quant::WeighedFormats> find(const std::string& key) const {
    const auto it = known_.find(key);
    return it == known_.end() ? nullptr : it->second;
  }
  void keep(const std::string& key, std::shared_ptr<const quant::WeighedFormats> weighed) {
    known_[key] = std::move(weighed);
  }

 private:
  std::map<std::string, std::shared_ptr<const quant::WeighedFormats>> known_;
};

}  // namespace ballast

#endif  // BALLAST_QUANT_SEARCH_WEIGHED_FORMATS_H_
