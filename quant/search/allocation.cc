#include "quant/search/allocation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <span>

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

struct Solution {
  std::vector<Choice> choices;
  std::uint64_t bytes = 0;
};

Solution solve(const std::vector<InputChoice>& inputs, double lambda) {
  Solution solution;
  for (const InputChoice& input : inputs) {
    solution.choices.push_back(choose(input, lambda));
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

void greedy_fill(const std::vector<InputChoice>& inputs, std::uint64_t budget, Solution& solution) {
  while (true) {
    Upgrade best;
    std::size_t best_input = 0;
    std::size_t best_matrix = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const Choice& choice = solution.choices[i];
      if (inputs[i].tied && inputs[i].matrices.size() > 1) continue;
      for (std::size_t m = 0; m < choice.options.size(); ++m) {
        const Upgrade upgrade =
            best_upgrade(inputs[i].matrices[m], choice.options[m], choice.outliers, budget - solution.bytes);
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
  // At the high price nothing is worth its bytes, at the low one everything is.
  double lambda_high = 1.0;
  double lambda_low = 1e-30;
  Solution solution = solve(inputs, lambda_high);
  if (solution.bytes > budget) {
    throw Error("target size", "the matrices take at least " + std::to_string(solution.bytes) + " bytes, and " +
                                   std::to_string(budget) + " are left for them");
  }
  constexpr int kSteps = 100;
  for (int step = 0; step < kSteps; ++step) {
    const double lambda = std::sqrt(lambda_high * lambda_low);
    Solution candidate = solve(inputs, lambda);
    if (candidate.bytes <= budget) {
      lambda_high = lambda;
      solution = std::move(candidate);
    } else {
      lambda_low = lambda;
    }
  }
  greedy_fill(inputs, budget, solution);

  Allocation allocation;
  allocation.bytes = solution.bytes;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Choice& choice = solution.choices[i];
    total(inputs[i], choice);
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
