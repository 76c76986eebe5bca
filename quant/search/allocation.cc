#include "quant/search/allocation.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <set>
#include <span>
#include <utility>

#include "ballast/error.h"

namespace ballast::quant {

namespace {

/// The choice for an input: an option for each of its matrices, and the columns that keep 16 bits.
struct Choice {
  std::vector<std::size_t> options;
  std::vector<std::int32_t> outliers;  ///< ascending
  std::uint64_t bytes = 0;
  double cost = 0;
};

/// Returns the rest of the sum of all columns' values without some of them.
double sum_without(double sum, const std::vector<float>& values, const std::vector<std::int32_t>& columns) {
  for (const std::int32_t column : columns) sum -= double{values[static_cast<std::size_t>(column)]};
  return std::max(0.0, sum);
}

/// Returns the total cost of a matrix in a format, including its input's rounding.
double cost_of(const MatrixChoice& matrix, const FormatOption& option, const std::vector<std::int32_t>& outliers) {
  const double activations = matrix.outlier_gains.empty()
                                 ? option.activation_cost
                                 : sum_without(option.activation_cost, matrix.outlier_gains, outliers);
  return sum_without(option.cost, option.column_costs, outliers) + activations;
}

std::uint64_t bytes_of(const MatrixChoice& matrix, const FormatOption& option,
                       const std::vector<std::int32_t>& outliers) {
  return option.bytes + outliers.size() * matrix.column_bytes;
}

void total(const InputChoice& input, Choice& choice) {
  choice.bytes = 0;
  choice.cost = 0;
  for (std::size_t m = 0; m < input.matrices.size(); ++m) {
    const FormatOption& option = input.matrices[m].options[choice.options[m]];
    choice.bytes += bytes_of(input.matrices[m], option, choice.outliers);
    choice.cost += cost_of(input.matrices[m], option, choice.outliers);
  }
}

// Returns the cheapest option of one group size for all of the matrices, at a price per byte.
std::size_t cheapest(std::span<const MatrixChoice> matrices, std::size_t group_size,
                     const std::vector<std::int32_t>& outliers, double lambda) {
  const std::vector<FormatOption>& options = matrices.front().options;
  std::size_t best = options.size();
  double best_total = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < options.size(); ++i) {
    if (options[i].format.group_size != group_size) continue;
    double sum = 0;
    for (const MatrixChoice& matrix : matrices) {
      sum += cost_of(matrix, matrix.options[i], outliers) + lambda * static_cast<double>(matrix.options[i].bytes);
    }
    if (sum < best_total) {
      best_total = sum;
      best = i;
    }
  }
  return best;
}

// Returns the columns that are worth their bytes at this price.
std::vector<std::int32_t> columns_worth_cost(const InputChoice& input, const std::vector<std::size_t>& options,
                                             double lambda) {
  if (input.most_outliers == 0) return {};
  std::vector<double> gains(input.cols);
  double bytes = 0;
  for (std::size_t m = 0; m < input.matrices.size(); ++m) {
    bytes += static_cast<double>(input.matrices[m].column_bytes);
    const FormatOption& option = input.matrices[m].options[options[m]];
    const std::vector<float>& besides = input.matrices[m].outlier_gains;
    for (std::size_t c = 0; c < input.cols; ++c) {
      gains[c] += double{option.column_costs[c]} + (besides.empty() ? 0.0 : double{besides[c]});
    }
  }
  std::vector<std::int32_t> columns;
  for (std::size_t c = 0; c < input.cols; ++c) {
    if (gains[c] > lambda * bytes) columns.push_back(static_cast<std::int32_t>(c));
  }
  if (columns.size() <= input.most_outliers) return columns;
  const auto by_gain = [&](std::int32_t a, std::int32_t b) {
    const double gain_a = gains[static_cast<std::size_t>(a)];
    const double gain_b = gains[static_cast<std::size_t>(b)];
    return gain_a != gain_b ? gain_a > gain_b : a < b;
  };
  std::ranges::nth_element(columns, columns.begin() + static_cast<std::ptrdiff_t>(input.most_outliers), by_gain);
  columns.resize(input.most_outliers);
  std::ranges::sort(columns);
  return columns;
}

Choice choose(const InputChoice& input, double lambda) {
  constexpr int kRounds = 3;  // formats and columns depend on each other; they settle at once
  std::set<std::size_t> group_sizes;
  for (const FormatOption& option : input.matrices.front().options) group_sizes.insert(option.format.group_size);
  Choice best;
  double best_total = std::numeric_limits<double>::infinity();
  for (const std::size_t group_size : group_sizes) {
    Choice choice;
    for (int round = 0; round < kRounds; ++round) {
      choice.options.clear();
      const std::size_t together = input.tied ? input.matrices.size() : 1;
      for (std::size_t m = 0; m < input.matrices.size(); m += together) {
        const auto matrices = std::span(input.matrices).subspan(m, together);
        choice.options.insert(choice.options.end(), together, cheapest(matrices, group_size, choice.outliers, lambda));
      }
      choice.outliers = columns_worth_cost(input, choice.options, lambda);
    }
    total(input, choice);
    const double sum = choice.cost + lambda * static_cast<double>(choice.bytes);
    if (sum < best_total) {
      best_total = sum;
      best = std::move(choice);
    }
  }
  return best;
}

using InputPointers = std::vector<const InputChoice*>;

struct Solution {
  std::vector<Choice> choices;  ///< of the inputs, in their order
  std::uint64_t bytes = 0;
};

Solution solve(const InputPointers& inputs, double lambda) {
  Solution solution;
  for (const InputChoice* input : inputs) {
    solution.choices.push_back(choose(*input, lambda));
    solution.bytes += solution.choices.back().bytes;
  }
  return solution;
}

/// A change to another option for one matrix of an input, with the same columns and group size.
struct Upgrade {
  std::size_t option = 0;
  std::uint64_t bytes = 0;  ///< more than now
  double gain = 0;
  double gain_per_byte() const { return gain / static_cast<double>(bytes); }
};

// Returns the change that saves most per byte, of those that fit.
Upgrade best_upgrade(const MatrixChoice& matrix, std::size_t chosen, const std::vector<std::int32_t>& outliers,
                     std::uint64_t room) {
  const FormatOption& now = matrix.options[chosen];
  Upgrade best;
  for (std::size_t i = 0; i < matrix.options.size(); ++i) {
    const FormatOption& option = matrix.options[i];
    if (option.format.group_size != now.format.group_size || option.bytes <= now.bytes) continue;
    const Upgrade upgrade = {i, option.bytes - now.bytes,
                             cost_of(matrix, now, outliers) - cost_of(matrix, option, outliers)};
    if (upgrade.bytes > room || upgrade.gain <= 0) continue;
    if (best.bytes == 0 || upgrade.gain_per_byte() > best.gain_per_byte()) best = upgrade;
  }
  return best;
}

void greedy_fill(const InputPointers& inputs, std::uint64_t budget, Solution& solution) {
  while (true) {
    Upgrade best;
    std::size_t best_input = 0;
    std::size_t best_matrix = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const Choice& choice = solution.choices[i];
      if (inputs[i]->tied && inputs[i]->matrices.size() > 1) continue;
      for (std::size_t m = 0; m < choice.options.size(); ++m) {
        const Upgrade upgrade =
            best_upgrade(inputs[i]->matrices[m], choice.options[m], choice.outliers, budget - solution.bytes);
        if (upgrade.bytes == 0 || (best.bytes != 0 && upgrade.gain_per_byte() <= best.gain_per_byte())) continue;
        best = upgrade;
        best_input = i;
        best_matrix = m;
      }
    }
    if (best.bytes == 0) return;
    solution.choices[best_input].options[best_matrix] = best.option;
    solution.bytes += best.bytes;
  }
}

/// Prices between which one is searched.
struct PriceRange {
  double low = 1e-30;  ///< everything is worth its bytes
  double high = 1;     ///< nothing is
  int steps = 100;
};

/// The solution for a budget at one price per byte, and the price.
struct PricedSolution {
  Solution solution;
  double lambda = 0;
  double cost = 0;
};

/// Returns the solution at the lowest price at which it fits, with the remaining bytes spent. At the high price it must
/// fit.
PricedSolution find_price(const InputPointers& inputs, std::uint64_t budget, const PriceRange& range,
                          Solution at_high) {
  PricedSolution best = {.solution = std::move(at_high), .lambda = range.high};
  double low = range.low;
  for (int step = 0; step < range.steps; ++step) {
    const double lambda = std::sqrt(best.lambda * low);
    Solution candidate = solve(inputs, lambda);
    if (candidate.bytes <= budget) {
      best.lambda = lambda;
      best.solution = std::move(candidate);
    } else {
      low = lambda;
    }
  }
  greedy_fill(inputs, budget, best.solution);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    total(*inputs[i], best.solution.choices[i]);
    best.cost += best.solution.choices[i].cost;
  }
  return best;
}

/// Returns the options of a matrix that none with fewer bytes is better than, in ascending order of bytes.
std::vector<std::size_t> efficient_options(const MatrixChoice& matrix) {
  std::vector<std::size_t> order(matrix.options.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto cost = [&](std::size_t i) { return matrix.options[i].cost + matrix.options[i].activation_cost; };
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return std::pair(matrix.options[i].bytes, cost(i)); });
  std::vector<std::size_t> efficient;
  for (const std::size_t i : order) {
    if (efficient.empty() || cost(i) < cost(efficient.back())) efficient.push_back(i);
  }
  return efficient;
}

/// An input of which one matrix can only have one format. The others have the same group size then.
class FixedMatrix {
 public:
  FixedMatrix(const InputChoice& input, std::size_t matrix, std::size_t option) : input_(input) {
    const std::size_t group_size = input.matrices[matrix].options[option].format.group_size;
    for (std::size_t m = 0; m < input.matrices.size(); ++m) {
      const std::vector<FormatOption>& all = input.matrices[m].options;
      std::vector<FormatOption>& left = input_.matrices[m].options;
      left.clear();
      kept_.emplace_back();
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (m == matrix ? i != option : all[i].format.group_size != group_size) continue;
        left.push_back(all[i]);
        kept_.back().push_back(i);
      }
    }
  }

  const InputChoice& input() const { return input_; }

  /// Turns the options of a choice for input() into those of the original input.
  void restore(Choice& choice) const {
    for (std::size_t m = 0; m < kept_.size(); ++m) choice.options[m] = kept_[m][choice.options[m]];
  }

 private:
  InputChoice input_;
  std::vector<std::vector<std::size_t>> kept_;  ///< [matrices]: the options that are left
};

/// Finds better formats for matrices that take much of the budget alone, like an embedding. At one price per byte such
/// a matrix takes a step that does not fit, or leaves it, and then the rest of the budget is spent badly. Here it takes
/// the next format up or down, and a price is found for the others.
class LargeMatrices {
 public:
  LargeMatrices(const InputPointers& inputs, std::uint64_t budget, PricedSolution& best)
      : inputs_(inputs), budget_(budget), best_(best) {}

  void improve() {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i]->tied && inputs_[i]->matrices.size() > 1) continue;
      for (std::size_t m = 0; m < inputs_[i]->matrices.size(); ++m) {
        if (!is_large(inputs_[i]->matrices[m])) continue;
        while (take_step(i, m, 1)) continue;
        while (take_step(i, m, -1)) continue;
      }
    }
  }

 private:
  // The share of the budget between a matrix's smallest and largest format from which on it is large.
  static constexpr double kLargeShare = 0.02;
  static constexpr double kPriceFactor = 1e3;  ///< the other matrices' price changes by less
  static constexpr int kPriceSteps = 24;

  bool is_large(const MatrixChoice& matrix) const {
    const auto [least, most] = std::ranges::minmax_element(matrix.options, {}, &FormatOption::bytes);
    return static_cast<double>(most->bytes - least->bytes) > kLargeShare * static_cast<double>(budget_);
  }

  /// Changes one matrix of an input to its next efficient format if that has a smaller cost with the best formats of
  /// all others. Returns whether it has.
  bool take_step(std::size_t input, std::size_t large, std::ptrdiff_t direction) {
    const MatrixChoice& matrix = inputs_[input]->matrices[large];
    const std::vector<std::size_t> options = efficient_options(matrix);
    const std::uint64_t bytes = matrix.options[best_.solution.choices[input].options[large]].bytes;
    // The first option that has more bytes than now, or as many; the one before it has fewer.
    const auto above =
        std::ranges::upper_bound(options, bytes, {}, [&](std::size_t i) { return matrix.options[i].bytes; });
    const auto not_below =
        std::ranges::lower_bound(options, bytes, {}, [&](std::size_t i) { return matrix.options[i].bytes; });
    if (direction > 0 ? above == options.end() : not_below == options.begin()) return false;
    const FixedMatrix fixed(*inputs_[input], large, direction > 0 ? *above : *std::prev(not_below));

    InputPointers inputs = inputs_;
    inputs[input] = &fixed.input();
    const PriceRange range = {
        .low = best_.lambda / kPriceFactor, .high = best_.lambda * kPriceFactor, .steps = kPriceSteps};
    Solution at_high = solve(inputs, range.high);
    if (at_high.bytes > budget_) return false;
    PricedSolution found = find_price(inputs, budget_, range, std::move(at_high));
    if (!(found.cost < best_.cost)) return false;
    fixed.restore(found.solution.choices[input]);
    best_ = std::move(found);
    return true;
  }

  const InputPointers& inputs_;
  std::uint64_t budget_;
  PricedSolution& best_;
};

}  // namespace

const MatrixAllocation* Allocation::find(const ModuleId& id) const {
  const auto it = matrices.find(id);
  return it == matrices.end() ? nullptr : &it->second;
}

void assign_int16_activations(std::vector<InputChoice>& inputs, double share) {
  struct Candidate {
    InputChoice* input;
    double products = 0;  ///< multiply-adds per token
    double cost = 0;
  };
  std::vector<Candidate> candidates;
  double products = 0;
  for (InputChoice& input : inputs) {
    Candidate candidate{.input = &input};
    for (const MatrixChoice& matrix : input.matrices) {
      candidate.products += input.share * static_cast<double>(matrix.rows) * static_cast<double>(input.cols);
      candidate.cost += std::ranges::min(matrix.options, {}, &FormatOption::activation_cost).activation_cost;
    }
    if (candidate.cost == 0) continue;
    products += candidate.products;
    candidates.push_back(candidate);
  }
  std::ranges::stable_sort(candidates, std::ranges::greater{},
                           [](const Candidate& candidate) { return candidate.cost / candidate.products; });
  double rest = share * products;
  for (const Candidate& candidate : candidates) {
    if (candidate.products > rest) continue;
    rest -= candidate.products;
    candidate.input->int16_activations = true;
    for (MatrixChoice& matrix : candidate.input->matrices) {
      matrix.outlier_gains.clear();
      for (FormatOption& option : matrix.options) option.activation_cost = 0;
    }
  }
}

Allocation allocate(const std::vector<InputChoice>& inputs, std::uint64_t budget) {
  InputPointers all;
  for (const InputChoice& input : inputs) all.push_back(&input);
  const PriceRange range;
  Solution smallest = solve(all, range.high);
  if (smallest.bytes > budget) {
    throw Error("target size", "the matrices take at least " + std::to_string(smallest.bytes) + " bytes, and " +
                                   std::to_string(budget) + " are left for them");
  }
  PricedSolution best = find_price(all, budget, range, std::move(smallest));
  LargeMatrices(all, budget, best).improve();
  Solution& solution = best.solution;

  Allocation allocation;
  allocation.bytes = solution.bytes;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Choice& choice = solution.choices[i];
    allocation.cost += choice.cost;
    for (std::size_t m = 0; m < choice.options.size(); ++m) {
      const MatrixChoice& matrix = inputs[i].matrices[m];
      const FormatOption& option = matrix.options[choice.options[m]];
      const Upgrade next =
          best_upgrade(matrix, choice.options[m], choice.outliers, std::numeric_limits<std::uint64_t>::max());
      allocation.matrices[matrix.id] = {.format = option.format,
                                        .outlier_columns = choice.outliers,
                                        .int16_activations = inputs[i].int16_activations,
                                        .bytes = bytes_of(matrix, option, choice.outliers),
                                        .cost = cost_of(matrix, option, choice.outliers),
                                        .next_gain = next.bytes == 0 ? 0 : next.gain_per_byte()};
    }
  }
  return allocation;
}

void apply_allocation(const Allocation& allocation, WorkingBlock& block) {
  for (WorkingLinear& linear : block.linears) {
    const MatrixAllocation* chosen = allocation.find(block.id_of(linear));
    if (chosen == nullptr) continue;
    linear.format = chosen->format;
    linear.outlier_columns = chosen->outlier_columns;
    if (!chosen->int16_activations) continue;
    // All readers of an input need the same form of it, including those with a named format.
    for (const WorkingInput& input : block.inputs) {
      const auto is_linear = [&](std::size_t reader) { return &block.linears[reader] == &linear; };
      if (std::ranges::none_of(input.readers, is_linear)) continue;
      for (const std::size_t reader : input.readers) block.linears[reader].activations = ActivationType::kInt16;
    }
  }
}

void apply_allocation(const Allocation& allocation, std::span<ModulePlan> plan) {
  for (ModulePlan& module : plan) {
    const MatrixAllocation* chosen = allocation.find(module.id);
    if (chosen == nullptr) continue;
    module.format = chosen->format;
    module.outlier_columns = chosen->outlier_columns.size();
  }
}

}  // namespace ballast::quant
