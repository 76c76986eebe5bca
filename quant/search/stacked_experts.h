// Files that keep a layer's experts of one role in one tensor: the formats of all of them are chosen together.
#ifndef BALLAST_QUANT_SEARCH_STACKED_EXPERTS_H_
#define BALLAST_QUANT_SEARCH_STACKED_EXPERTS_H_

#include <map>
#include <span>
#include <vector>

#include "quant/module_id.h"
#include "quant/search/allocation.h"

namespace ballast::quant {

class StackedExperts {
 public:
  /// In place of a layer's experts one of as many bytes, which costs what they cost. Precondition: no column of theirs
  /// can keep 16 bits.
  explicit StackedExperts(std::span<const InputChoice> inputs);

  const std::vector<InputChoice>& inputs() const { return inputs_; }

  /// An allocation of inputs() as one of all experts: each has the format and its share of bytes and cost.
  void spread(Allocation& allocation) const;

 private:
  void stack(const InputChoice& input, InputChoice& stacked);

  std::vector<InputChoice> inputs_;
  std::map<ModuleId, std::vector<ModuleId>> others_;  ///< that a matrix in inputs() stands for
};

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_SEARCH_STACKED_EXPERTS_H_
