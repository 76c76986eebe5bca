#include "quant/rounding/expert_moments.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "quant/block/runnable_block.h"
#include "quant/conversion/prepared_blocks.h"
#include "quant/measure/measure_inputs.h"
#include "quant/quantize/gptq.h"
#include "quant/search/output_error.h"
#include "quant/write/ballast_format.h"
#include "random_floats.h"
#include "tiny_model.h"

namespace ballast::quant {
namespace {

using test::random_floats;

Hessian second_moments(const std::vector<float>& rows, std::size_t cols) {
  HessianSum sum(cols, jobs::SumOrder::kAny);
  sum.add(rows.data(), rows.size() / cols);
  sum.end_shard(0);
  return sum.finish(single_rank());
}

TEST_CASE("moments of n tokens are drawn toward those of all tokens with a weight of what n lacks to the columns") {
  constexpr std::size_t kCols = 12;
  const Hessian all = second_moments(random_floats(50 * kCols, 1), kCols);
  for (const std::size_t tokens : {0, 1, 5, 11, 12, 30}) {
    CAPTURE(tokens);
    const Hessian own = second_moments(random_floats(tokens * kCols, 2), kCols);
    const Hessian result = shrunk(own, all);
    // The moments are those of all tokens if the expert has no tokens, and its own if it has enough.
    const double share = std::min(1.0, static_cast<double>(tokens) / static_cast<double>(kCols));
    const double rows =
        static_cast<double>(kCols) / (share + (1 - share) * static_cast<double>(kCols) / static_cast<double>(all.rows));
    CHECK(result.rows == (tokens >= kCols ? tokens : static_cast<std::uint64_t>(std::llround(rows))));
    const double lacking = tokens < kCols ? static_cast<double>(kCols - tokens) : 0;
    for (std::size_t i = 0; i < kCols * kCols; ++i) {
      const double expected = double{own.values[i]} + lacking * double{all.values[i]} / 50;
      CHECK(double{result.values[i]} == doctest::Approx(expected).epsilon(1e-5));
    }
  }
}

TEST_CASE("an expert's moments are those of the rows that were routed to it, over batches and shards") {
  constexpr std::size_t kCols = 7;
  constexpr std::size_t kTokens = 9;
  const std::vector<float> first = random_floats(kTokens * kCols, 3);
  const std::vector<float> second = random_floats(kTokens * kCols, 4);
  const std::vector<std::vector<std::size_t>> of_first = {{0, 3, 8}, {}, {1}};
  const std::vector<std::vector<std::size_t>> of_second = {{2}, {}, {0, 1, 2, 7}};
  for (const jobs::SumOrder order : {jobs::SumOrder::kAny, jobs::SumOrder::kFixed}) {
    ExpertMoments experts(3, kCols, {.order = order, .samples = 8});
    for (std::size_t shard = 0; shard < jobs::kShards; ++shard) {
      if (shard == 2) experts.add(first.data(), kTokens, of_first);
      if (shard == 5) experts.add(second.data(), kTokens, of_second);
      experts.end_shard();
    }
    for (std::size_t e = 0; e < 3; ++e) {
      std::vector<float> own;
      for (const std::size_t t : of_first[e]) own.insert(own.end(), &first[t * kCols], &first[t * kCols] + kCols);
      for (const std::size_t t : of_second[e]) own.insert(own.end(), &second[t * kCols], &second[t * kCols] + kCols);
      const Hessian expected = second_moments(own, kCols);
      const Hessian moments = experts.of(e);
      CHECK(moments.rows == expected.rows);
      for (std::size_t i = 0; i < kCols * kCols; ++i) {
        CHECK(double{moments.values[i]} == doctest::Approx(double{expected.values[i]}).epsilon(1e-5));
      }
    }
    CHECK(experts.of(1).rows == 0);
    experts.shrink_toward(std::make_shared<const Hessian>(second_moments(first, kCols)));
    CHECK(experts.of(1).values[0] > 0);
  }
}

/// The last block of a golden mixture, measured on few tokens.
struct MeasuredBlock {
  explicit MeasuredBlock(const std::string& golden, const MeasureOptions& options)
      : source(test::golden_model(golden)) {
    constexpr std::size_t kLength = 6;
    const ModelSpec& spec = source.spec();
    layer = spec.layers.size() - 1;
    const WorkingBlockLoader loader(source, nullptr, {});
    block = loader.load(layer + 1, true);
    std::vector<int> ids(2 * kLength);
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int>(i * 7 % 31);
    const WorkingBlock front = loader.load(0, true);
    samples::BlockRunner runner(spec, kLength);
    runner.embed(runnable_embedding(front, spec, run_with_int16), {ids, kLength});
    const std::vector<float> before = runner.rows().hidden;
    measure_inputs(runner, model::assemble_block(spec, layer, runnable_parts(block, spec, run_with_int16)), spec, layer,
                   {.samples = 2}, options, block);
    CHECK(runner.rows().hidden == before);
  }

  const WorkingInput& input_of(model::Role role, std::size_t expert) const {
    for (const WorkingInput& input : block.inputs) {
      for (const std::size_t reader : input.readers) {
        if (block.linears[reader].part == model::Part{role, expert}) return input;
      }
    }
    FAIL("no such input");
    return block.inputs.front();
  }

  model::ModelSource source;
  std::size_t layer = 0;
  WorkingBlock block;
};

TEST_CASE("an expert with fewer tokens than columns is also measured on others, and the share of its own is recorded") {
  const MeasuredBlock own("qwen3_moe", {.each_expert = true, .shrink = false});
  const MeasuredBlock more("qwen3_moe", {.each_expert = true});
  const std::size_t experts = more.block.expert_tokens.size();
  REQUIRE(experts == 5);
  CHECK(more.block.expert_tokens == own.block.expert_tokens);
  std::uint64_t routed = 0;
  for (std::size_t e = 0; e < experts; ++e) {
    const std::uint64_t tokens = more.block.expert_tokens[e];
    routed += tokens;
    const WorkingInput& with = more.input_of(model::Role::kExpertDown, e);
    const WorkingInput& without = own.input_of(model::Role::kExpertDown, e);
    CHECK((without.moments != nullptr) == (tokens > 0));
    CHECK(without.routed_share == 1);
    REQUIRE(with.moments != nullptr);  // 12 tokens of two experts each are fewer than 16 columns for every expert
    CHECK(with.moments->rows > tokens);
    CHECK(with.moments->rows <= 12);
    CHECK(with.routed_share == doctest::Approx(static_cast<double>(std::max<std::uint64_t>(1, tokens)) /
                                               static_cast<double>(with.moments->rows)));
    REQUIRE(with.expert_moments == nullptr);
    const WorkingInput& gate = more.input_of(model::Role::kExpertGate, e);
    REQUIRE(gate.expert_moments != nullptr);
    // They are mixed with the moments of all 12 tokens, in the share of 16 that the expert lacks.
    const double share = static_cast<double>(tokens) / 16;
    CHECK(gate.expert_moments->of(e).rows ==
          static_cast<std::uint64_t>(std::llround(16 / (share + (1 - share) * 16 / 12))));
  }
  CHECK(routed == 12 * 2);
}

TEST_CASE("values of experts and embeddings that are loaded on demand have passed all passes") {
  for (const std::string golden : {"qwen3_moe", "deepseek_v3", "mixtral"}) {
    CAPTURE(golden);
    const model::ModelSource source(test::golden_model(golden));
    Recipe recipe = recipe_for_scheme("f32");
    recipe.equalize = true;
    recipe.rotate = true;
    const BallastFormat format(recipe);
    const Preparation preparation(source, recipe, format);
    PreparedBlocks blocks(preparation);
    for (std::size_t i = 0; i < blocks.count(); ++i) {
      const WorkingBlock block = blocks.load(i, PreparedBlocks::Values::kAll);
      for (const WorkingLinear& linear : block.linears) {
        CHECK(linear.has_values());
        const bool loaded = is_routed_expert(linear.part.role) || is_embedding(linear.part.role);
        CHECK((linear.load != nullptr) == loaded);
        CHECK(linear.values.empty() == loaded);
        float largest = 0;
        const LinearValues values(linear);
        for (const float value : values.all()) largest = std::max(largest, std::abs(value));
        CHECK(values.all().size() == linear.rows * linear.cols);
        CHECK(largest <= linear.absmax * 1.0001F);
      }
    }
  }
}

/// Returns tokens whose channels are correlated.
std::vector<float> correlated(std::size_t tokens, std::size_t cols, unsigned seed) {
  constexpr std::size_t kSources = 8;
  const std::vector<float> mixing = random_floats(kSources * cols, 100);
  const std::vector<float> sources = random_floats(tokens * kSources, seed);
  std::vector<float> rows = random_floats(tokens * cols, seed + 1, 0.3F);
  for (std::size_t t = 0; t < tokens; ++t) {
    for (std::size_t i = 0; i < kSources * cols; ++i) {
      rows[t * cols + i % cols] += sources[t * kSources + i / cols] * mixing[i];
    }
  }
  return rows;
}

TEST_CASE("with few tokens, shrunk moments reduce the rounding error on other tokens") {
  constexpr std::size_t kCols = 64;
  WorkingLinear linear;
  linear.rows = 48;
  linear.cols = kCols;
  linear.format = {.bits = 4, .group_size = 32, .symmetric = false};
  linear.values = random_floats(linear.rows * kCols, 7);
  for (const float value : linear.values) linear.absmax = std::max(linear.absmax, std::abs(value));
  const Hessian own = second_moments(correlated(6, kCols, 8), kCols);
  const Hessian all = second_moments(correlated(400, kCols, 9), kCols);
  const Hessian unseen = second_moments(correlated(400, kCols, 11), kCols);
  const auto error = [&](const Hessian& moments) {
    WorkingLinear rounded = linear;
    rounded.quantized = round_gptq(linear, factorize(moments, {}, damping_for(moments)));
    return output_error(rounded, &unseen, {});
  };
  CHECK(error(shrunk(own, all)) < 0.6 * error(own));
}

}  // namespace
}  // namespace ballast::quant
