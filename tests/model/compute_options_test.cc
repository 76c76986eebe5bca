// Models that differ in how their floats are multiplied.
#include "ballast/compute_options.h"

#include <doctest/doctest.h>

#include <string_view>
#include <vector>

#include "ballast/error.h"
#include "error_message.h"
#include "kernels/float_gemm.h"
#include "model_runs.h"

namespace ballast::model {
namespace {

constexpr ComputeOptions kBf16 = {.bf16_products = true};

bool can_round() {
  if (kernels::multiplies_bf16()) return true;
  MESSAGE("not tested: " << test::error_message([] { check_compute_options(kBf16); }));
  return false;
}

Model load(const char* name, const ComputeOptions& compute) {
  return Model(test::golden_model(name), FloatLayout::kRows, all_floats(compute));
}

TEST_CASE("BF16 products change logits slightly, and equally for a prompt and token by token") {
  if (!can_round()) return;
  for (const char* name : test::kGoldenDecoders) {
    CAPTURE(name);
    const test::Golden golden = test::read_golden(name);
    const Model model = load(name, kBf16);
    const std::vector<int>& ids = golden.ids.front();
    const std::vector<float> rounded = test::run_at_once(model, ids);
    const double error = test::relative_error(rounded, golden.logits.front());
    CHECK(error > 1e-4);
    CHECK(error < (std::string_view(name) == "gemma4_text" ? 0.6 : 0.2));  // INT8 weights give 1.0
    CHECK(test::run_in_pieces(model, ids, 1) == rounded);
  }
}

TEST_CASE("two models of one process with different options each give the same bits as alone") {
  if (!can_round()) return;
  const std::vector<int> ids = test::read_golden("llama").ids.front();
  const auto alone = [&](const ComputeOptions& compute) { return test::run_in_pieces(load("llama", compute), ids, 1); };
  const std::vector<float> exact_alone = alone({});
  const std::vector<float> rounded_alone = alone(kBf16);
  REQUIRE(exact_alone != rounded_alone);

  const Model exact = load("llama", {});
  const Model rounded = load("llama", kBf16);
  CHECK(exact.source().compute() == ComputeOptions{});
  CHECK(rounded.source().compute() == kBf16);
  struct Run {
    const Model& model;
    SequenceState state;
    std::vector<float> logits{};
  };
  Run runs[] = {{exact, exact.make_exact_state(ids.size())}, {rounded, rounded.make_exact_state(ids.size())}};
  for (const int id : ids) {  // the models take turns
    for (Run& run : runs) {
      const std::vector<float> part = test::run_tokens(run.model, {&id, 1}, run.state);
      run.logits.insert(run.logits.end(), part.begin(), part.end());
    }
  }
  CHECK(runs[0].logits == exact_alone);
  CHECK(runs[1].logits == rounded_alone);
}

TEST_CASE("a model is not loaded with products that the machine lacks") {
  if (kernels::multiplies_bf16()) return;
  CHECK(test::error_message([] { load("llama", kBf16); }) == test::Contains("BF16 products: "));
}

}  // namespace
}  // namespace ballast::model
