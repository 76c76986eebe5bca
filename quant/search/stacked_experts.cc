#include "quant/search/stacked_experts.h"

#include <cassert>
#include <cstddef>
#include <utility>

#include "quant/working_block.h"

namespace ballast::quant {

StackedExperts::StackedExperts(std::span<const InputChoice> inputs) {
  std::map<ModuleId, std::size_t> places;  // of a layer's stacked experts, by the first expert's first matrix
  for (const InputChoice& input : inputs) {
    ModuleId key = input.matrices.front().id;
    if (!is_routed_expert(key.role)) {
      inputs_.push_back(input);
      continue;
    }
    key.expert = 0;
    const auto [place, is_first] = places.emplace(key, inputs_.size());
    if (is_first) {
      inputs_.push_back(input);
    } else {
      stack(input, inputs_[place->second]);
    }
  }
}

void StackedExperts::stack(const InputChoice& input, InputChoice& stacked) {
  assert(input.most_outliers == 0 && input.matrices.size() == stacked.matrices.size());
  for (std::size_t m = 0; m < input.matrices.size(); ++m) {
    const MatrixChoice& matrix = input.matrices[m];
    MatrixChoice& sum = stacked.matrices[m];
    assert(matrix.options.size() == sum.options.size());
    others_[sum.id].push_back(matrix.id);
    sum.rows += matrix.rows;
    for (std::size_t i = 0; i < matrix.options.size(); ++i) {
      sum.options[i].bytes += matrix.options[i].bytes;
      sum.options[i].cost += matrix.options[i].cost;
      sum.options[i].activation_cost += matrix.options[i].activation_cost;
    }
  }
}

void StackedExperts::spread(Allocation& allocation) const {
  for (const auto& [first, others] : others_) {
    MatrixAllocation& share = allocation.matrices.at(first);
    share.bytes /= others.size() + 1;
    share.cost /= static_cast<double>(others.size() + 1);
    for (const ModuleId& other : others) allocation.matrices[other] = share;
  }
}

}  // namespace ballast::quant
