#include "model/source/linear_folds.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "error_message.h"

namespace ballast::model {
namespace {

using test::Contains;
using test::error_message;

std::map<std::string, LinearFolds> some_folds() {
  LinearFolds folds;
  folds.add_constant_input(std::vector<float>{1, -2, 0.5F, 3});
  folds.inputs.scale(std::vector<float>{2, 2, 4, 1});
  folds.inputs.scale(std::vector<float>{1, 0.5F, 1, 3});
  folds.inputs.add(AxisFolds::Rotation{.order = 4, .random_signs = true});
  folds.outputs.add(AxisFolds::Centering{});
  folds.outputs.add(AxisFolds::Rotation{.order = 2});
  return {{"model.layers.0.self_attn.o_proj", folds}, {"model.layers.10.mlp.down_proj", {}}};
}

LoraProduct some_product() {
  return {.outputs = 2, .inputs = 4, .rank = 1, .scale = 2, .up = {1, 3}, .down = {1, 2, 3, 4}, .bias = {}};
}

TEST_CASE("folds survive their file, scalings that follow each other being one") {
  const std::map<std::string, LinearFolds> folds = some_folds();
  const LinearFolds& own = folds.begin()->second;
  REQUIRE(own.inputs.steps().size() == 2);
  CHECK(std::get<AxisFolds::Scaling>(own.inputs.steps()[0]).factors == std::vector<float>{2, 1, 4, 3});
  const std::map<std::string, LinearFolds> read = parse_folds(folds_bytes(folds), "folds");
  REQUIRE(read.size() == 1);  // of a module without folds there is nothing to write
  CHECK(*read.begin() == *folds.begin());
}

TEST_CASE("an adapter's product gets the bias of a constant input, and then the changes of its axes") {
  LinearFolds folds;
  folds.add_constant_input(std::vector<float>{1, 0, 0, 1});
  folds.inputs.scale(std::vector<float>{2, 1, 1, 1});
  folds.outputs.scale(std::vector<float>{1, 10});
  LoraProduct product = some_product();
  apply_folds(folds, "adapter", product);
  CHECK(product.down == std::vector<float>{2, 2, 3, 4});
  CHECK(product.up == std::vector<float>{1, 30});
  CHECK(product.bias == std::vector<float>{10, 300});  // 2 * {1, 3} * (1 + 4), times the outputs' factors
  folds = {};
  folds.outputs.add(AxisFolds::Centering{});
  product = some_product();
  apply_folds(folds, "adapter", product);
  CHECK(product.up == std::vector<float>{-1, 1});
}

TEST_CASE("folds that are damaged or do not fit are refused") {
  const std::string bytes = folds_bytes(some_folds());
  for (const std::size_t size : {std::size_t{0}, std::size_t{7}, bytes.size() / 2, bytes.size() - 1}) {
    CHECK(error_message([&] { parse_folds(std::string_view(bytes).substr(0, size), "folds"); }) == Contains("folds"));
  }
  const auto with = [&](std::string_view from, std::string_view to) {
    std::string changed = bytes;
    changed.replace(changed.find(from), from.size(), to);
    return error_message([&] { parse_folds(changed, "folds"); });
  };
  CHECK(with(".1.rotation", ".1.rotatiom") == Contains("is no step that this version knows"));
  CHECK(with("inputs.0.scaling", "inputs.3.scaling") == Contains("is not the axis's next step"));
  LoraProduct narrow = some_product();
  narrow.inputs = 3;
  narrow.down.resize(3);
  const LinearFolds own = some_folds().begin()->second;
  CHECK(error_message([&] { apply_folds(own, "adapter", narrow); }) == Contains("does not fit the model's folds"));
}

}  // namespace
}  // namespace ballast::model
