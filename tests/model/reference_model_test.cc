#include "reference/model.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "layers.h"
#include "model/embedding_and_head.h"
#include "model/forward/forward.h"
#include "model/structure/assemble_block.h"
#include "model_runs.h"

namespace ballast::model {
namespace {

using test::ReferenceModel;
using test::RoleTensor;
using test::RoleTensors;

TEST_CASE("the reference forward pass gives the logits of transformers") {
  for (const std::string& name : test::golden_names()) {
    CAPTURE(name);
    const test::Golden golden = test::read_golden(name);
    const ModelSource source(test::golden_model(name));
    const RoleTensors tensors = test::read_tensors(source);
    CHECK(test::relative_error(golden.logits[0], ReferenceModel(source.spec(), tensors).logits(golden.ids[0])) <= 1e-4);
  }
}

Linear make_linear(const RoleTensor& tensor) {
  FloatMatrixHolder holder{.matrix = {}, .owned = tensor.weight, .copied = {}, .panels = {}};
  holder.matrix = {
      .data = holder.owned.data(), .type = kernels::FloatType::kF32, .rows = tensor.rows, .cols = tensor.cols};
  Linear linear;
  linear.weights = std::move(holder);
  linear.bias = tensor.bias;
  return linear;
}

Norm make_norm(const ModelSpec& spec, Role role, const RoleTensor& tensor) {
  const NormSpec kind = norm_spec(spec, 0, role);
  Norm norm{.kind = kind.kind, .epsilon = static_cast<float>(kind.epsilon), .gain = tensor.weight, .bias = tensor.bias};
  for (float& gain : norm.gain) gain += static_cast<float>(kind.gain_offset);
  return norm;
}

/// Returns the parts of the first block, and those outside the blocks.
BlockParts parts_of(const ModelSpec& spec, const RoleTensors& tensors) {
  return {.linear = [&](Part part) { return make_linear(tensors.at({part.role, 0, part.expert})); },
          .norm = [&](Role role) { return make_norm(spec, role, tensors.at({role, 0, 0})); },
          .vector = [&](Role role) { return tensors.at({role, 0, 0}).weight; }};
}

ModelSpec small_spec() {
  ModelSpec spec;
  spec.hidden_size = 20;
  spec.vocab_size = 3;
  const AttentionSpec attention = {
      .heads = 4, .kv_heads = 2, .head_size = 6, .value_size = 6, .scale = 0.4, .rope = RopeSpec{.rotary_size = 6}};
  spec.layers = {{.mixer = attention, .mlp = {.size = 28}}};
  return spec;
}

/// Returns values that are uniformly distributed in [-2, 2].
std::vector<float> random_rows(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values(size);
  for (float& value : values) value = static_cast<float>(random() % 2001) / 500.0F - 2.0F;
  return values;
}

/// Returns the error of forward_block against the reference on nine random tokens, divided by the spread of the block's
/// output.
double block_error(const ModelSpec& spec, unsigned seed) {
  const RoleTensors tensors = test::random_tensors(spec, seed);
  const BlockWeights block = assemble_block(spec, 0, parts_of(spec, tensors));
  constexpr std::size_t kTokens = 9;
  std::vector<float> hidden = random_rows(kTokens * spec.hidden_size, seed);
  ReferenceModel::Rows rows;
  for (std::size_t t = 0; t < kTokens; ++t) {
    const auto begin = hidden.begin() + static_cast<std::ptrdiff_t>(t * spec.hidden_size);
    rows.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(spec.hidden_size));
  }
  std::vector<double> expected;
  for (const auto& row : ReferenceModel(spec, tensors).block(0, rows)) {
    expected.insert(expected.end(), row.begin(), row.end());
  }

  SequenceState state(spec, 0, {.type = kernels::CacheType::kF32, .capacity = kTokens});
  const BatchSequence batch[] = {{kTokens, &state}};
  BlockActivations activations;
  RopeAngles angles;
  const RopeTable rope(spec);
  rope.look_up(batch, angles);
  forward_block(spec, block, 0, angles, batch, 0, hidden.data(), activations);
  return test::relative_error(hidden, expected);
}

TEST_CASE("an attention's output is gated per element or per head, with and without a bias") {
  for (const bool head_gates : {false, true}) {
    for (const bool bias : {false, true}) {
      ModelSpec spec = small_spec();
      test::attention_of(spec).output_gate = true;
      test::attention_of(spec).head_gates = head_gates;
      spec.biases.output_gate = spec.biases.value = bias;
      CAPTURE(head_gates);
      CAPTURE(bias);
      CHECK(block_error(spec, 3) <= 1e-5);
      // The gate has an effect: its values are not all the same.
      const RoleTensors gated = test::random_tensors(spec, 3);
      const ReferenceModel::Rows input(1, ReferenceModel::Row(spec.hidden_size, 0.5));
      const double with = ReferenceModel(spec, gated).block(0, input)[0][0];
      ModelSpec ungated = spec;
      test::attention_of(ungated).output_gate = false;
      CHECK(std::abs(with - ReferenceModel(ungated, gated).block(0, input)[0][0]) > 1e-3);
    }
  }
}

TEST_CASE("blocks of all kinds agree with the reference of their spec") {
  std::mt19937 random(11);
  const auto coin = [&] { return random() % 2 == 0; };
  constexpr BlockLayout kLayouts[] = {BlockLayout::kPreNorm, BlockLayout::kPostNorm, BlockLayout::kOutputNorm,
                                      BlockLayout::kParallel, BlockLayout::kParallelShared};
  constexpr Activation kActivations[] = {Activation::kSilu, Activation::kGelu,        Activation::kGeluTanh,
                                         Activation::kRelu, Activation::kReluSquared, Activation::kGeluSigmoid};
  for (unsigned trial = 0; trial < 200; ++trial) {
    ModelSpec spec = small_spec();
    AttentionSpec& attention = test::attention_of(spec);
    MlpSpec& mlp = test::mlp_of(spec);
    spec.layout = kLayouts[random() % 5];
    spec.norm.kind = coin() ? NormSpec::Kind::kRms : NormSpec::Kind::kLayer;
    spec.norm.bias = coin();
    spec.norm.gain_offset = coin() ? 1.0 : 0.0;
    attention.kv_heads = std::size_t{1} << random() % 3;
    spec.causal = random() % 4 != 0;
    spec.post_norms = coin();
    spec.residual_scale = coin() ? 0.3 : 1.0;
    attention.rope.reset();
    if (coin()) attention.rope = RopeSpec{.rotary_size = 2 + 2 * (random() % 3)};
    if (coin()) attention.window = 1 + random() % 9;
    if (coin()) {
      using enum HeadNormSpec::Kind;
      const HeadNormSpec::Kind kinds[] = {kRms, kRmsAllHeads, kLayer};
      attention.query_key_norm = HeadNormSpec{.kind = kinds[random() % 3], .after_rotation = coin(), .gain = coin()};
    }
    if (coin()) attention.query_growth = QueryGrowthSpec{.slope = 0.7, .length = 3, .offset = coin() ? 1.0 : 0.0};
    attention.output_gate = coin();
    attention.head_gates = coin();
    attention.score_cap = coin() ? 0.7 : 0.0;
    attention.sink_logits = coin();
    if (coin()) attention.relative_bias = {.buckets = 8, .reach = 5};
    attention.alibi = random() % 4 == 0;
    attention.value_norm = coin();
    attention.values_are_keys = random() % 4 == 0;
    spec.layer_scales = coin();
    mlp.activation = kActivations[random() % std::size(kActivations)];
    mlp.gated = coin();
    if (mlp.gated && coin()) mlp.limit = 0.3;
    if (mlp.gated && coin()) mlp.up_offset = 1.0;
    for (bool BiasSpec::* flag : {&BiasSpec::query, &BiasSpec::key, &BiasSpec::value, &BiasSpec::output_gate,
                                  &BiasSpec::attention_output, &BiasSpec::up, &BiasSpec::down}) {
      spec.biases.*flag = coin();
    }
    spec.layers[0].mixer_norm = spec.layout != BlockLayout::kPreNorm || coin();
    CAPTURE(trial);
    CHECK(block_error(spec, trial) <= 2e-5);
  }
}

TEST_CASE("short convolutions of all widths agree with the reference, with and without biases") {
  for (const std::size_t width : {1, 2, 3, 4, 5, 7, 8, 12}) {
    for (const bool bias : {false, true}) {
      ModelSpec spec = small_spec();
      spec.layers[0].mixer = ShortConvolutionSpec{.channels = 18, .width = width, .bias = bias};
      spec.biases.mixer_input = spec.biases.mixer_output = bias;
      spec.post_norms = bias;
      CAPTURE(width);
      CAPTURE(bias);
      CHECK(block_error(spec, static_cast<unsigned>(width)) <= 2e-5);
    }
  }
}

TEST_CASE("an expert that is run alone reads tokens times their scores if scores multiply its input") {
  ModelSpec spec = small_spec();
  spec.layers[0].mlp.experts = ExpertSpec{.count = 5,
                                          .per_token = 2,
                                          .size = 14,
                                          .shared_size = 6,
                                          .scoring = ExpertSpec::Scoring::kSigmoid,
                                          .weighs_inputs = true};
  const RoleTensors tensors = test::random_tensors(spec, 4);
  const BlockWeights block = assemble_block(spec, 0, parts_of(spec, tensors));
  constexpr std::size_t kTokens = 9;
  std::vector<float> hidden = random_rows(kTokens * spec.hidden_size, 4);
  SequenceState state(spec, 0, {.type = kernels::CacheType::kF32, .capacity = kTokens});
  const BatchSequence batch[] = {{kTokens, &state}};
  BlockActivations activations;
  RopeAngles angles;
  const RopeTable rope(spec);
  rope.look_up(batch, angles);
  forward_block(spec, block, 0, angles, batch, 0, hidden.data(), activations, {.record_inputs = true});
  const std::vector<float> rows(activations.routing.rows, activations.routing.rows + hidden.size());
  std::size_t compared = 0;
  for (const LinearInput& input : activations.inputs) {
    if (!input.expert) continue;
    const std::vector<float> expected(input.rows, input.rows + input.count * input.cols);
    BlockActivations scratch;
    const float* all = LoneExpert(spec, block, 0, *input.expert).down_rows(rows.data(), kTokens, scratch);
    for (std::size_t i = 0; i < input.count; ++i, ++compared) {
      const float* row = all + input.tokens[i] * input.cols;
      for (std::size_t c = 0; c < input.cols; ++c) {
        CHECK(row[c] == doctest::Approx(expected[i * input.cols + c]).epsilon(1e-5));
      }
    }
  }
  CHECK(compared == 2 * kTokens);
  CHECK(block_error(spec, 4) <= 2e-5);
}

TEST_CASE("latent attention gives the result of attention over expanded keys and values") {
  std::mt19937 random(23);
  const auto coin = [&] { return random() % 2 == 0; };
  for (unsigned trial = 0; trial < 60; ++trial) {
    ModelSpec spec = small_spec();
    AttentionSpec& attention = test::attention_of(spec);
    attention.kv_heads = attention.heads = 1 + random() % 5;
    attention.rope = RopeSpec{.rotary_size = 2 + 2 * (random() % 3)};
    attention.head_size = attention.rope->rotary_size + 1 + random() % 9;
    attention.value_size = 1 + random() % 40;
    attention.output_gate = coin();
    attention.head_gates = coin();
    if (coin()) attention.window = 1 + random() % 9;
    for (bool BiasSpec::* flag : {&BiasSpec::query, &BiasSpec::key, &BiasSpec::value, &BiasSpec::output_gate,
                                  &BiasSpec::attention_output, &BiasSpec::latent, &BiasSpec::up, &BiasSpec::down}) {
      spec.biases.*flag = coin();
    }
    test::make_latent(spec, coin() ? 0 : 1 + random() % 20, 1 + random() % 40);
    CAPTURE(trial);
    CHECK(block_error(spec, trial) <= 2e-5);
  }
}

/// Returns the output of a layer for random inputs in pieces of at most `piece` tokens, [tokens][hidden_size].
std::vector<float> run_layer(const ModelSpec& spec, const BlockWeights& block, const KeyValueCacheOptions& options,
                             std::vector<float> hidden, std::size_t piece) {
  const std::size_t tokens = hidden.size() / spec.hidden_size;
  SequenceState state(spec, 0, options);
  const RopeTable rope(spec);
  BlockActivations activations;
  RopeAngles angles;
  for (std::size_t first = 0, count = 0; first < tokens; first += count) {
    count = std::min(piece, tokens - first);
    std::vector<std::uint8_t> fp16_tokens(count);
    for (std::size_t i = 0; i < count; ++i) fp16_tokens[i] = (first + i) % 50 == 3 ? 1 : 0;
    const BatchSequence batch[] = {{.tokens = count, .state = &state, .fp16_tokens = fp16_tokens}};
    rope.look_up(batch, angles);
    forward_block(spec, block, 0, angles, batch, 0, hidden.data() + first * spec.hidden_size, activations);
    state.advance(count);
  }
  return hidden;
}

TEST_CASE("latent attention gives a token the same bits for any division of a prompt, in caches of every kind") {
  ModelSpec spec = small_spec();
  test::attention_of(spec).kv_heads = 4;
  test::attention_of(spec).rope = RopeSpec{.rotary_size = 2};
  test::make_latent(spec, 0, 18);
  const RoleTensors tensors = test::random_tensors(spec, 5);
  const BlockWeights block = assemble_block(spec, 0, parts_of(spec, tensors));
  constexpr std::size_t kTokens = 700;
  std::vector<float> hidden = random_rows(kTokens * spec.hidden_size, 1);
  for (const kernels::CacheType type :
       {kernels::CacheType::kF32, kernels::CacheType::kF16, kernels::CacheType::kInt8}) {
    for (const std::size_t window : {0, 150}) {
      const KeyValueCacheOptions options = {.type = type,
                                            .capacity = kTokens,
                                            .window = window,
                                            .sinks = window == 0 ? std::size_t{0} : 3,
                                            .largest_append = window == 0 ? std::size_t{0} : kTokens};
      const std::vector<float> one_by_one = run_layer(spec, block, options, hidden, 1);
      for (const std::size_t piece : {2, 13, 130, 700}) {
        CAPTURE(piece);
        CHECK(run_layer(spec, block, options, hidden, piece) == one_by_one);
      }
      if (window != 0 || type == kernels::CacheType::kF32) continue;
      const std::vector<float> exact =
          run_layer(spec, block, {.type = kernels::CacheType::kF32, .capacity = kTokens}, hidden, kTokens);
      const double error = test::relative_error(one_by_one, exact);
      CHECK(error <= (type == kernels::CacheType::kF16 ? 1e-3 : 3e-2));
      CHECK(error > 0);
    }
  }
}

TEST_CASE("embeddings and logits are scaled, and logits capped") {
  ModelSpec spec;
  spec.hidden_size = 12;
  spec.vocab_size = 30;
  spec.embedding_scale = 3.5;
  spec.logit_scale = 0.25;
  const std::vector<int> ids = {3, 29, 0, 7};
  for (const bool tied : {false, true}) {
    for (const double cap : {0.0, 0.5}) {
      spec.tied_embeddings = tied;
      spec.logit_cap = cap;
      const RoleTensors tensors = test::random_tensors(spec, 7);
      const EmbeddingAndHead outer(spec, parts_of(spec, tensors));
      std::vector<float> hidden(ids.size() * spec.hidden_size);
      std::vector<float> logits(ids.size() * spec.vocab_size);
      LinearScratch scratch;
      outer.embedding().embed(ids, 0, hidden.data());
      // The final norm would hide the embeddings' scale, so they are checked separately.
      const std::vector<float>& table = tensors.at({Role::kEmbedding, 0, 0}).weight;
      for (std::size_t c = 0; c < spec.hidden_size; ++c) CHECK(hidden[c] == 3.5F * table[3 * spec.hidden_size + c]);
      outer.preparation().prepare(hidden.data(), ids.size(), hidden.data(), scratch);
      outer.head(hidden.data(), StepRows::outside(ids.size()), logits.data(), scratch);
      CHECK(test::relative_error(logits, ReferenceModel(spec, tensors).logits(ids)) <= 1e-5);
      if (cap > 0) CHECK(std::ranges::all_of(logits, [](float logit) { return std::abs(logit) < 0.5F; }));
    }
  }
}

TEST_CASE("scores fall with ALiBi's slopes for any number of heads") {
  for (const std::size_t heads : {1, 2, 3, 5, 6, 8, 12}) {
    for (const bool causal : {false, true}) {
      ModelSpec spec = small_spec();
      spec.causal = causal;
      AttentionSpec& attention = test::attention_of(spec);
      attention.heads = attention.kv_heads = heads;
      attention.rope.reset();
      attention.alibi = true;
      CAPTURE(heads);
      CHECK(block_error(spec, static_cast<unsigned>(heads)) <= 2e-5);
    }
  }
}

TEST_CASE("an embedding with channels of its own is projected to hidden values, and the head reads as many") {
  for (const std::size_t channels : {5, 12, 18}) {
    ModelSpec spec;
    spec.hidden_size = 12;
    spec.embedding_size = channels;
    spec.vocab_size = 30;
    spec.context_length = 8;
    spec.learned_positions = true;
    spec.token_types = 2;
    spec.tied_embeddings = true;
    spec.embedding_norm = true;
    spec.layout = BlockLayout::kPostNorm;
    spec.norm = {.kind = NormSpec::Kind::kLayer, .bias = true};
    spec.head_transform = Activation::kGelu;
    spec.biases.head_transform = true;
    const std::vector<int> ids = {3, 29, 0, 7};
    const RoleTensors tensors = test::random_tensors(spec, 7);
    const EmbeddingAndHead outer(spec, parts_of(spec, tensors));
    std::vector<float> hidden(ids.size() * spec.hidden_size);
    std::vector<float> prepared(ids.size() * channels);
    std::vector<float> logits(ids.size() * spec.vocab_size);
    LinearScratch scratch;
    outer.embedding().embed(ids, 0, hidden.data());
    outer.preparation().prepare(hidden.data(), ids.size(), prepared.data(), scratch);
    outer.head(prepared.data(), StepRows::outside(ids.size()), logits.data(), scratch);
    CAPTURE(channels);
    CHECK(test::relative_error(logits, ReferenceModel(spec, tensors).logits(ids)) <= 1e-5);
  }
}

}  // namespace
}  // namespace ballast::model
