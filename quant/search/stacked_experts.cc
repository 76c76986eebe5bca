#include "quant/search/stacked_experts.h"

#include "quant/block/working_block.h"

namespace ballast::quant {

namespace {

void add(const MatrixChoice& matrix, MatrixChoice& sum) {
  sum.rows += matrix.rows;
  for (std::size_t i = 0; i < sum.options.size(); ++i) {
    sum.options[i].bytes += matrix.options.at(i).bytes;
    sum.options[i].cost += matrix.options[i].cost;
    sum.options[i].activation_cost += matrix.options[i].activation_cost;
  }
}

}  // namespace

StackedExperts::StackedExperts(std::span<const InputChoice> inputs) {
  for (const InputChoice& input : inputs) {
    InputChoice left = input;  // the part that no other matrix represents
    left.matrices.clear();
    for (const MatrixChoice& matrix : input.matrices) {
      const ModuleId key = {.role = matrix.id.role, .layer = matrix.id.layer};
      const auto place = places_.find(key);
      if (place == places_.end()) {
        if (is_routed_expert(key.role)) places_[key] = {inputs_.size(), left.matrices.size()};
        left.matrices.push_back(matrix);
        continue;
      }
      const auto [of_input, of_matrix] = place->second;
      MatrixChoice& first =
          of_input == inputs_.size() ? left.matrices[of_matrix] : inputs_[of_input].matrices[of_matrix];
      others_[first.id].push_back(matrix.id);
      add(matrix, first);
    }
    if (!left.matrices.empty()) inputs_.push_back(std::move(left));
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
