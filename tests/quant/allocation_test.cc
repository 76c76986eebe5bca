#include "quant/search/allocation.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ballast/error.h"
#include "described.h"
#include "error_message.h"
#include "quant/search/stacked_experts.h"

namespace ballast::quant {
namespace {

using test::Contains;
using test::error_message;

using model::Role;

constexpr ModuleId kQuery = {.role = Role::kQuery, .layer = 3};
constexpr ModuleId kValue = {.role = Role::kValue, .layer = 3};
constexpr ModuleId kDown = {.role = Role::kDown, .layer = 3};
constexpr ModuleId kEmbedding = {.role = Role::kEmbedding};

/// Returns a matrix whose cost falls by a factor of four per bit, in groups of 32 and of 64; groups of 64 have a
/// slightly higher cost and fewer bytes.
MatrixChoice matrix(const ModuleId& id, std::size_t rows, std::size_t cols, double sensitivity) {
  MatrixChoice choice{
      .id = id, .name = {}, .rows = rows, .options = {}, .column_bytes = 2 * rows + 4, .outlier_gains = {}};
  for (const std::size_t group : {std::size_t{32}, std::size_t{64}}) {
    for (const int bits : {4, 5, 6, 8}) {
      FormatOption option;
      option.format = {.bits = bits, .group_size = group, .symmetric = false, .scale_bits = 8};
      option.bytes = rows * (cols * static_cast<std::size_t>(bits) / 8 + cols / group);
      option.column_costs.resize(cols);
      for (std::size_t c = 0; c < cols; ++c) {
        const double size = c == 3 ? 30 : 1 + 0.01 * static_cast<double>(c);
        option.column_costs[c] =
            static_cast<float>(sensitivity * size * std::pow(0.25, bits) * (group == 64 ? 1.2 : 1));
        option.cost += double{option.column_costs[c]};
      }
      choice.options.push_back(option);
    }
  }
  return choice;
}

std::vector<InputChoice> small_model() {
  std::vector<InputChoice> inputs;
  inputs.push_back(
      {.cols = 64, .matrices = {matrix(kQuery, 64, 64, 1), matrix(kValue, 16, 64, 40)}, .most_outliers = 2});
  inputs.push_back({.cols = 128, .matrices = {matrix(kDown, 64, 128, 5)}, .most_outliers = 4});
  inputs.push_back({.cols = 64, .matrices = {matrix(kEmbedding, 300, 64, 0.2)}, .most_outliers = 0});
  return inputs;
}

TEST_CASE("the error of a type's rounded inputs counts when types are chosen") {
  InputChoice input{.cols = 256,
                    .matrices = {{.id = kDown, .name = {}, .rows = 8, .options = {}, .outlier_gains = {}}}};
  for (const DType type : {DType::kQ4_0, DType::kQ4_K, DType::kQ5_K}) {
    FormatOption option{
        .format = block_format(type), .bytes = type == DType::kQ5_K ? 1408U : 1152U, .column_costs = {}};
    option.column_costs.assign(256, type == DType::kQ4_0 ? 0.004F : type == DType::kQ4_K ? 0.003F : 0.001F);
    option.cost = 256.0 * static_cast<double>(option.column_costs.front());
    option.activation_cost = type == DType::kQ4_0 ? 0.1 : 2;
    input.matrices.front().options.push_back(option);
  }
  for (const std::uint64_t budget : {1200, 1500}) {
    CHECK(allocate({input}, budget).find(kDown)->format == block_format(DType::kQ4_0));
  }
}

TEST_CASE("an allocation fits its budget, uses it, and costs less for a larger budget") {
  double before = std::numeric_limits<double>::infinity();
  for (const std::uint64_t budget : {20'000, 22'000, 24'000, 26'000, 28'000, 30'000}) {
    CAPTURE(budget);
    const Allocation allocation = allocate(small_model(), budget);
    CHECK(allocation.bytes <= budget);
    std::uint64_t bytes = 0;
    double cost = 0;
    for (const auto& [id, matrix] : allocation.matrices) {
      bytes += matrix.bytes;
      cost += matrix.cost;
    }
    CHECK(bytes == allocation.bytes);
    CHECK(cost == doctest::Approx(allocation.cost));
    CHECK(allocation.cost < before);
    before = allocation.cost;
  }
}

TEST_CASE("matrices that read one input have one group size and the same outlier columns") {
  const Allocation allocation = allocate(small_model(), 26'000);
  const MatrixAllocation* q = allocation.find(kQuery);
  const MatrixAllocation* v = allocation.find(kValue);
  REQUIRE(q != nullptr);
  REQUIRE(v != nullptr);
  CHECK(q->format.group_size == v->format.group_size);
  CHECK(q->outlier_columns == v->outlier_columns);
  CHECK(v->format.bits > q->format.bits);  // it has forty times the sensitivity
  CHECK(allocation.find(kEmbedding)->outlier_columns.empty());
  CHECK(allocation.find({.role = Role::kQuery, .layer = 2}) == nullptr);
  CHECK(allocation.find({.role = Role::kQuery, .layer = 3, .expert = 1}) == nullptr);
}

TEST_CASE("inputs with the largest INT8 cost per multiply-add become INT16, up to the given share") {
  std::vector<InputChoice> inputs = small_model();  // 80 * 64, 64 * 128 and 300 * 64 weights
  const auto set_costs = [&](std::size_t input, double fine, double coarse) {
    for (MatrixChoice& matrix : inputs[input].matrices) {
      matrix.outlier_gains.assign(inputs[input].cols, 0.001F);
      for (FormatOption& option : matrix.options) {
        option.activation_cost = option.format.group_size == 32 ? fine : coarse;
      }
    }
  };
  set_costs(0, 1, 9);  // two matrices: cost 2 for 5,120 weights
  set_costs(1, 3, 4);  // cost 3 for 8,192 weights
  const auto becomes_int16 = [&](double share) {
    std::vector<InputChoice> changed = inputs;
    assign_int16_activations(changed, share);
    std::vector<bool> result;
    for (const InputChoice& input : changed) {
      result.push_back(input.int16_activations);
      for (const MatrixChoice& matrix : input.matrices) {
        CHECK((!input.int16_activations || matrix.outlier_gains.empty()));
        CHECK((!input.int16_activations || matrix.options.back().activation_cost == 0));
      }
    }
    return result;
  };
  CHECK(becomes_int16(0.3) == std::vector<bool>{false, false, false});
  CHECK(becomes_int16(0.39) == std::vector<bool>{true, false, false});
  CHECK(becomes_int16(0.7) == std::vector<bool>{true, false, false});
  CHECK(becomes_int16(1) == std::vector<bool>{true, true, false});  // the last input is not quantized
  set_costs(1, 5, 6);
  CHECK(becomes_int16(0.39) == std::vector<bool>{true, false, false});  // an input that exceeds the share is skipped
  CHECK(becomes_int16(0.7) == std::vector<bool>{false, true, false});

  assign_int16_activations(inputs, 0.7);
  const Allocation allocation = allocate(inputs, 26'000);
  CHECK(allocation.find(kDown)->int16_activations);
  CHECK(!allocation.find(kQuery)->int16_activations);
  WorkingBlock block;
  block.layer = 3;
  for (const Role role : {Role::kDown, Role::kUp, Role::kQuery}) {
    block.linears.emplace_back().part.role = role;
    block.linears.back().activations = ActivationType::kInt8;
  }
  block.inputs.resize(2);
  block.inputs[0].readers = {0, 1};  // the second's format is given by name
  block.inputs[1].readers = {2};
  apply_allocation(allocation, block);
  CHECK(block.linears[0].activations == ActivationType::kInt16);
  CHECK(block.linears[1].activations == ActivationType::kInt16);
  CHECK(block.linears[2].activations == ActivationType::kInt8);
  CHECK(block.linears[0].format == allocation.find(kDown)->format);
  CHECK(block.linears[1].format == WeightFormat{});

  block.layer = 2;  // another block's matrices of the same roles
  block.linears[0].format = {.bits = 6};
  apply_allocation(allocation, block);
  CHECK(block.linears[0].format == WeightFormat{.bits = 6});
}

TEST_CASE("an allocation costs at most a quarter more than the best choice of formats within the budget") {
  // The best choice is found exhaustively, without outlier columns.
  std::vector<InputChoice> inputs = small_model();
  for (InputChoice& input : inputs) input.most_outliers = 0;
  const std::uint64_t budget = 26'000;
  double best = std::numeric_limits<double>::infinity();
  const auto& q = inputs[0].matrices[0].options;
  const auto& v = inputs[0].matrices[1].options;
  for (const FormatOption& a : q) {
    for (const FormatOption& b : v) {
      if (a.format.group_size != b.format.group_size) continue;
      for (const FormatOption& c : inputs[1].matrices[0].options) {
        for (const FormatOption& d : inputs[2].matrices[0].options) {
          if (a.bytes + b.bytes + c.bytes + d.bytes > budget) continue;
          best = std::min(best, a.cost + b.cost + c.cost + d.cost);
        }
      }
    }
  }
  // Lagrange's method finds the corners of the curve; between them, the allocation is filled greedily.
  CHECK(allocate(inputs, budget).cost <= 1.25 * best);
  CHECK(allocate(inputs, budget).cost >= best);
}

/// Adds inputs of 40 layers, each of one small matrix.
void add_small_inputs(std::vector<InputChoice>& inputs) {
  for (std::size_t layer = 0; layer < 40; ++layer) {
    const ModuleId id = {.role = Role::kDown, .layer = layer};
    inputs.push_back({.cols = 64, .matrices = {matrix(id, 64, 64, 1 + 0.07 * static_cast<double>(layer))}});
  }
}

TEST_CASE("a large matrix has the format with which all others together cost least") {
  std::vector<InputChoice> inputs;
  inputs.push_back({.cols = 64, .matrices = {matrix(kEmbedding, 1000, 64, 0.6)}});
  add_small_inputs(inputs);
  for (std::uint64_t budget = 130'000; budget <= 200'000; budget += 2'500) {
    CAPTURE(budget);
    const Allocation allocation = allocate(inputs, budget);
    CHECK(allocation.bytes <= budget);
    std::vector<double> costs;
    for (const FormatOption& option : inputs.front().matrices.front().options) {
      std::vector<InputChoice> fixed = inputs;
      fixed.front().matrices.front().options = {option};
      try {
        costs.push_back(allocate(fixed, budget).cost);
      } catch (const Error&) {
        continue;  // too large
      }
    }
    CHECK(allocation.cost <= 1.001 * std::ranges::min(costs));
  }
}

TEST_CASE("each large matrix of an input has the format with which all others together cost least") {
  constexpr ModuleId kRange = {.role = Role::kEmbedding, .layer = 0, .expert = 1};
  std::vector<InputChoice> inputs;
  inputs.push_back({.cols = 64, .matrices = {matrix(kEmbedding, 600, 64, 0.9), matrix(kRange, 800, 64, 0.3)}});
  add_small_inputs(inputs);
  for (std::uint64_t budget = 150'000; budget <= 220'000; budget += 5'000) {
    CAPTURE(budget);
    const Allocation allocation = allocate(inputs, budget);
    CHECK(allocation.bytes <= budget);
    CHECK(allocation.find(kEmbedding)->format.group_size == allocation.find(kRange)->format.group_size);
    double best = std::numeric_limits<double>::infinity();
    for (const FormatOption& first : inputs.front().matrices[0].options) {
      for (const FormatOption& second : inputs.front().matrices[1].options) {
        if (first.format.group_size != second.format.group_size) continue;
        std::vector<InputChoice> fixed = inputs;
        fixed.front().matrices[0].options = {first};
        fixed.front().matrices[1].options = {second};
        try {
          best = std::min(best, allocate(fixed, budget).cost);
        } catch (const Error&) {
          continue;  // too large
        }
      }
    }
    CHECK(allocation.cost <= 1.02 * best);
  }
}

TEST_CASE("an important column keeps 16 bits if that is worth its bytes") {
  for (const std::uint64_t budget : {20'500, 21'500}) {
    CAPTURE(budget);
    const Allocation allocation = allocate(small_model(), budget);
    const std::vector<std::int32_t>& columns = allocation.find(kDown)->outlier_columns;
    CHECK(std::ranges::find(columns, 3) != columns.end());
  }
}

TEST_CASE("a matrix with a better format left reports the gain of further bytes") {
  const Allocation allocation = allocate(small_model(), 24'000);
  CHECK(allocation.matrices.size() == 4);
  for (const auto& [id, matrix] : allocation.matrices) {
    CAPTURE(static_cast<int>(id.role));
    CHECK((matrix.next_gain > 0) == (matrix.format.bits < 8));
  }
}

TEST_CASE("a budget that is too small is refused, and the error has the smallest possible size") {
  CHECK(error_message([] { allocate(small_model(), 10'000); }) == Contains("target size: the matrices take at least"));
}

TEST_CASE("experts in one tensor get one format, and all bytes and costs are distributed") {
  std::vector<InputChoice> inputs(3);
  inputs[0] = {.cols = 64, .matrices = {matrix({.role = Role::kSharedGate}, 32, 64, 1)}};
  for (std::size_t expert = 0; expert < 2; ++expert) {
    const double importance = expert == 0 ? 1 : 100;
    for (const Role role : {Role::kExpertGate, Role::kExpertUp}) {
      inputs[0].matrices.push_back(matrix({.role = role, .expert = expert}, 32, 64, importance));
    }
    inputs[1 + expert] = {.cols = 64, .matrices = {matrix({.role = Role::kExpertDown, .expert = expert}, 64, 64, 1)}};
  }
  const StackedExperts stacked(inputs);
  REQUIRE(stacked.inputs().size() == 2);
  CHECK(stacked.inputs()[0].matrices.size() == 3);
  CHECK(stacked.inputs()[1].matrices.size() == 1);
  std::uint64_t least = 0;
  for (const InputChoice& input : inputs) {
    for (const MatrixChoice& each : input.matrices) {
      least += std::ranges::min(each.options, {}, &FormatOption::bytes).bytes;
    }
  }
  Allocation allocation = allocate(stacked.inputs(), least * 5 / 4);
  const std::uint64_t bytes = allocation.bytes;
  const double cost = allocation.cost;
  stacked.spread(allocation);
  CHECK(allocation.matrices.size() == 7);
  std::uint64_t sum = 0;
  double cost_sum = 0;
  for (const auto& [id, chosen] : allocation.matrices) {
    sum += chosen.bytes;
    cost_sum += chosen.cost;
    ModuleId first = id;
    first.expert = 0;
    CHECK(chosen.format == allocation.matrices.at(first).format);
  }
  CHECK(sum == bytes);
  CHECK(cost_sum == doctest::Approx(cost));
}

}  // namespace
}  // namespace ballast::quant
