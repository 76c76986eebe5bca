// Files with all experts of one role of a layer in one tensor: their formats are chosen together.
#ifndef BALLAST_QUANT_SEARCH_STACKED_EXPERTS_H_
#define BALLAST_QUANT_SEARCH_STACKED_EXPERTS_H_

#include <cstddef>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "quant/block/module_id.h"
#include "quant/search/allocation.h"

namespace ballast::quant {

class StackedExperts {
 public:
  /// Replaces a layer's expert matrices of a role by one with their total bytes and cost. Precondition: none of their
  /// columns can keep 16 bits.
  explicit StackedExperts(std::span<const InputChoice> inputs);

  const std::vector<InputChoice>& inputs() const { return inputs_; }

  /// Converts an allocation of inputs() to one of all experts: each has the format and its share of bytes and cost.
  void spread(Allocation& allocation) const;

 private:
  /// The position of a matrix in inputs(): the index of the input, and of the matrix in it.
  using Place = std::pair<std::size_t, std::size_t>;

  std::vector<InputChoice> inputs_;
  std::map<ModuleId, Place> places_;                  ///< of each layer and role, by its first expert
  std::map<ModuleId, std::vector<ModuleId>> others_;  ///< the matrices that one in inputs() represents
};

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_SEARCH_STACKED_EXPERTS_H_
