#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "layers.h"
#include "quant/passes/passes.h"
#include "working_layer.h"

namespace ballast::quant {
namespace {

using test::LayerValues;
using test::Random;
using test::Tokens;

/// Folds the gains of a random block of this spec, after `prepare`, and returns what it computes before and after.
template <typename Prepare>
std::pair<LayerValues, LayerValues> fold(const ModelSpec& spec, WorkingBlock& block, const Prepare& prepare) {
  Random random(3);
  block = test::random_layer(spec, random);
  prepare(block);
  const Tokens residual = random.tokens(5, spec.hidden_size);
  const LayerValues before = test::run_layer(spec, block, residual);
  make_fold_norms()->run(block);
  return {before, test::run_layer(spec, block, residual)};
}

void check_same(const std::pair<LayerValues, LayerValues>& values) {
  CHECK(test::relative_change(values.first.attention_output, values.second.attention_output) < 2e-6);
  CHECK(test::relative_change(values.first.mlp_output, values.second.mlp_output) < 2e-6);
}

TEST_CASE("gains fold into all readers in every layout with input norms") {
  for (const BlockLayout layout : {BlockLayout::kPreNorm, BlockLayout::kParallel, BlockLayout::kParallelShared}) {
    ModelSpec spec = test::small_spec();
    spec.layout = layout;
    test::attention_of(spec).output_gate = true;
    WorkingBlock block;
    check_same(fold(spec, block, [](WorkingBlock&) {}));
    for (const WorkingNorm& norm : block.norms) CHECK(norm.gain == std::vector<float>(spec.hidden_size, 1.0F));
  }
  for (const BlockLayout layout : {BlockLayout::kPostNorm, BlockLayout::kOutputNorm}) {
    ModelSpec spec = test::small_layer_norm_spec();
    spec.layout = layout;
    Random random(3);
    WorkingBlock block = test::random_layer(spec, random);
    const WorkingBlock before = block;
    make_fold_norms()->run(block);
    for (std::size_t i = 0; i < block.norms.size(); ++i) CHECK(block.norms[i].gain == before.norms[i].gain);
    for (std::size_t i = 0; i < block.linears.size(); ++i) CHECK(block.linears[i].values == before.linears[i].values);
  }
}

TEST_CASE("a bias that stays in the norm is divided by the gain") {
  const ModelSpec spec = test::small_layer_norm_spec();
  WorkingBlock block;
  check_same(fold(spec, block, [](WorkingBlock&) {}));
  CHECK(block.norms[0].gain == std::vector<float>(spec.hidden_size, 1.0F));
}

TEST_CASE("a channel keeps its gain if the bias cannot be divided by it") {
  const ModelSpec spec = test::small_layer_norm_spec();
  WorkingBlock block;
  check_same(fold(spec, block, [](WorkingBlock& random) {
    random.norms[0].gain[2] = 0;
    random.norms[0].gain[5] = 1e-30F;
  }));
  CHECK(block.norms[0].gain[2] == 0);
  CHECK(block.norms[0].gain[5] == 1e-30F);
  CHECK(block.norms[0].gain[0] == 1);
}

TEST_CASE("norms of queries and keys keep their gain") {
  ModelSpec spec = test::small_spec();
  test::attention_of(spec).query_key_norm = HeadNormSpec{};
  WorkingBlock block;
  check_same(fold(spec, block, [](WorkingBlock&) {}));
  for (const WorkingNorm& norm : block.norms) {
    const bool of_heads = norm.role == model::Role::kQueryNorm || norm.role == model::Role::kKeyNorm;
    CHECK((norm.gain == std::vector<float>(norm.gain.size(), 1.0F)) == !of_heads);
  }
}

TEST_CASE("the gain folds into the columns of a router and of all experts") {
  ModelSpec spec = test::small_spec();
  test::mlp_of(spec).experts = ExpertSpec{.count = 3, .per_token = 1, .size = 4, .shared_size = 5};
  Random random(3);
  WorkingBlock block = test::random_layer(spec, random);
  const WorkingBlock before = block;
  make_fold_norms()->run(block);
  for (const model::Part part : {model::Part{model::Role::kRouter}, model::Part{model::Role::kExpertUp, 2},
                                 model::Part{model::Role::kSharedGate}}) {
    const WorkingLinear& linear = *block.find(part.role, part.expert);
    WorkingBlock copy = before;
    const WorkingLinear& original = *copy.find(part.role, part.expert);
    for (std::size_t i = 0; i < linear.values.size(); ++i) {
      CHECK(linear.values[i] == doctest::Approx(original.values[i] * before.norms[1].gain[i % linear.cols]));
    }
  }
}

TEST_CASE("the norms of latent vectors fold into their readers") {
  ModelSpec spec = test::small_spec();
  test::attention_of(spec).kv_heads = test::attention_of(spec).heads;
  test::attention_of(spec).rope->rotary_size = 2;
  test::make_latent(spec, 5, 6);
  Random random(3);
  WorkingBlock block = test::random_layer(spec, random);
  make_fold_norms()->run(block);
  for (const WorkingNorm& norm : block.norms) CHECK(norm.gain == std::vector<float>(norm.gain.size(), 1.0F));
}

}  // namespace
}  // namespace ballast::quant
