#include "quant/conversion/format_search.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ballast/error.h"
#include "jobs/sharded_sum.h"
#include "quant/search/sensitivity.h"
#include "quant/search/stacked_experts.h"

namespace ballast {

std::shared_ptr<FormatCosts> make_format_costs() {
  return std::make_shared<FormatCosts>();
}

namespace quant {

namespace {

using Values = PreparedBlocks::Values;

// The largest share of an input's columns in 16 bits, which are multiplied in F32 at run time.
constexpr double kMostOutliers = 0.03;

}  // namespace

Allocation FormatSearch::run() {
  const std::uint64_t target = inputs_.recipe().target_bytes;
  std::optional<StackedExperts> stacked;
  if (inputs_.format().stacks_experts()) stacked.emplace(weighed().choices);
  std::vector<InputChoice> choices = stacked ? stacked->inputs() : weighed().choices;
  assign_int16_activations(choices, inputs_.recipe().int16_activation_fraction);
  // The size of the rest of the file depends slightly on the matrices' formats, through its header.
  std::uint64_t overhead_bytes = 0;
  constexpr int kRounds = 100;
  constexpr int kPlainRounds = 10;  // then the steps grow, because a header may cancel what a step has saved
  for (int round = 0; round < kRounds; ++round) {
    if (overhead_bytes >= target) {
      throw Error("target size", std::to_string(target) + " bytes are too few: without its matrices the model takes " +
                                     std::to_string(overhead_bytes));
    }
    Allocation allocation = allocate(choices, target - overhead_bytes);
    if (stacked) stacked->spread(allocation);
    const std::uint64_t file = file_bytes(allocation);
    if (round > 0 && file <= target) return allocation;
    const auto step = static_cast<std::uint64_t>(std::max(1, round - kPlainRounds + 2));
    overhead_bytes = round == 0 ? file - allocation.bytes : overhead_bytes + (file - target) * step;
  }
  throw Error("target size", "no choice of formats was found that takes at most " + std::to_string(target) + " bytes");
}

const WeighedFormats& FormatSearch::weighed() {
  if (weighed_ != nullptr) return *weighed_;
  const std::shared_ptr<FormatCosts>& costs = inputs_.options().format_costs;
  if (costs == nullptr) return *(weighed_ = weigh());
  const std::string key = inputs_.weighing_key();
  weighed_ = costs->find(key);
  if (jobs::least_of_ranks(inputs_.ranks(), weighed_ == nullptr ? 0 : 1) == 0) {
    weighed_ = weigh();
    costs->keep(key, weighed_);
  }
  return *weighed_;
}

std::shared_ptr<const WeighedFormats> FormatSearch::weigh() {
  WeighedFormats weighed;
  PreparedBlocks blocks(inputs_.preparation());
  const bool keeps_columns = inputs_.recipe().outlier_fraction > 0;
  SensitivityAnalysis analysis(blocks.spec(), inputs_.samples(),
                               {.format = &inputs_.format(),
                                .probe_samples = inputs_.options().probe_samples,
                                .most_outliers = keeps_columns ? kMostOutliers : 0,
                                .shrink_experts = inputs_.recipe().shrink_experts,
                                .corrects_drift = inputs_.corrects_drift(),
                                .sharing = inputs_.sharing(),
                                .check_cancelled = steps_.check_cancelled()});
  const auto load = [&](std::size_t index) {
    WorkingBlock block = blocks.load(index, Values::kAll);
    std::ranges::move(plan_modules(block, blocks.spec().norm.bias), std::back_inserter(weighed.plan));
    return block;
  };
  WorkingBlock front = load(0);
  analysis.add_front(front);
  for (std::size_t layer = 0; layer < blocks.spec().layers.size(); ++layer) {
    WorkingBlock block = load(layer + 1);
    analysis.add_block(block, layer);
    steps_.report("weighing formats", layer + 1, blocks.spec().layers.size());
  }
  WorkingBlock back = load(blocks.count() - 1);
  std::ranges::move(inputs_.draft_head().plan(), std::back_inserter(weighed.plan));
  weighed.choices = analysis.finish(front, back);
  weighed.tied_head_moments = analysis.tied_head_moments();
  return std::make_shared<const WeighedFormats>(std::move(weighed));
}

std::uint64_t FormatSearch::file_bytes(const Allocation& allocation) {
  std::vector<ModulePlan> plan = weighed().plan;
  apply_allocation(allocation, plan);
  return inputs_.format().file_bytes(plan);
}

}  // namespace quant

}  // namespace ballast
