#include "model/forward/forward.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "error_message.h"
#include "model/model.h"
#include "model_runs.h"
#include "temporary_directory.h"
#include "tiny_model.h"
#include "with_threads.h"

namespace ballast::model {
namespace {

using test::error_message;
using test::Golden;
using test::golden_model;
using test::read_golden;
using test::relative_error;
using test::run_at_once;
using test::run_in_pieces;

// The order of summation differs: the values are equal up to a few roundings.
constexpr double kRounding = 5e-5;

TEST_CASE("logits are those of transformers") {
  for (const std::string& name : test::golden_names()) {
    CAPTURE(name);
    const Golden golden = read_golden(name);
    Model model(golden_model(name));
    for (std::size_t b = 0; b < golden.ids.size(); ++b) {
      CHECK(relative_error(run_at_once(model, golden.ids[b]), golden.logits[b]) <= 1e-4);
    }
  }
}

TEST_CASE("a GGUF gives the logits of the Hugging Face directory with the same weights") {
  for (const std::string name : test::kGoldenGgufs) {
    CAPTURE(name);
    const Golden golden = read_golden(name);
    const test::TemporaryDirectory unpacked;
    test::TinyModel plain = test::read_model(golden_model(name));
    plain.config["use_sliding_window"] = false;  // a GGUF does not store it
    Model directory(plain.write(unpacked / name));
    Model gguf(golden_model(name + ".gguf"));
    for (const std::vector<int>& ids : golden.ids) {
      CHECK(relative_error(run_at_once(gguf, ids), run_at_once(directory, ids)) <= kRounding);
    }
  }
}

TEST_CASE("token by token with a cache equals all at once") {
  for (const char* name : test::kGoldenDecoders) {
    CAPTURE(name);
    const std::vector<int> ids = read_golden(name).ids[0];
    Model model(golden_model(name));
    const std::vector<float> at_once = run_at_once(model, ids);
    for (const std::size_t piece : {1, 3, 5}) {
      CAPTURE(piece);
      CHECK(relative_error(run_in_pieces(model, ids, piece), at_once) <= kRounding);
    }
    CHECK(relative_error(run_in_pieces(model, ids, 1, CacheOptions::Type::kF16), at_once) <= 2e-2);
  }
}

TEST_CASE("the next token's logits are the last of all, and leave the same cache") {
  for (const char* name : test::kGoldenDecoders) {
    CAPTURE(name);
    const std::vector<int> ids = read_golden(name).ids[0];
    Model model(golden_model(name));
    const std::size_t vocab = model.spec().vocab_size;
    const std::vector<float> at_once = run_at_once(model, ids);
    SequenceState state = model.make_exact_state(ids.size());
    Workspace workspace;
    std::vector<float> logits(vocab);
    const std::size_t half = ids.size() / 2;
    for (const auto& [first, count] : {std::pair{std::size_t{0}, half}, {half, ids.size() - half}}) {
      const SequenceTokens piece = {.tokens = std::span(ids).subspan(first, count), .state = &state, .wanted = 1};
      model.run({&piece, 1}, logits.data(), workspace);
      const float* expected = at_once.data() + (first + count - 1) * vocab;
      CHECK(relative_error(logits, std::vector<float>(expected, expected + vocab)) <= kRounding);
    }
  }
}

TEST_CASE("rows of the embedding give the same bits as the ids whose rows they are, also among ids and in pieces") {
  for (const std::string& name : test::golden_names()) {
    CAPTURE(name);
    const std::vector<int> ids = read_golden(name).ids[0];
    Model model(golden_model(name));
    const ModelSpec& spec = model.spec();
    const Linear table = model.source().linear(Role::kEmbedding);
    std::vector<float> values(ids.size() * spec.hidden_size);
    std::vector<const float*> rows(ids.size(), nullptr);
    std::vector<int> placeholders = ids;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (i % 3 == 2) continue;  // remains an id
      float* row = values.data() + i * spec.hidden_size;
      decode_row(table, static_cast<std::size_t>(ids[i]), row);
      for (std::size_t c = 0; c < spec.hidden_size; ++c) row[c] *= static_cast<float>(spec.embedding_scale);
      rows[i] = row;
      if (!spec.token_inputs) placeholders[i] = 0;  // only the embedding is read by ids
    }
    const TokenSpan tokens(placeholders, rows);
    SequenceState state = model.make_exact_state(ids.size());
    std::vector<float> logits;
    const std::size_t first = spec.causal ? ids.size() / 2 : ids.size();
    for (const TokenSpan& piece : {tokens.subspan(0, first), tokens.subspan(first, ids.size() - first)}) {
      const SequenceTokens sequence = {piece, &state, piece.size()};
      const std::vector<float> part = test::run_batch(model, {&sequence, 1});
      logits.insert(logits.end(), part.begin(), part.end());
    }
    SequenceState id_state = model.make_exact_state(ids.size());
    std::vector<float> expected = test::run_tokens(model, std::span(ids).first(first), id_state);
    const std::vector<float> rest = test::run_tokens(model, std::span(ids).subspan(first), id_state);
    expected.insert(expected.end(), rest.begin(), rest.end());
    REQUIRE(logits.size() == expected.size());
    CHECK(std::memcmp(logits.data(), expected.data(), logits.size() * sizeof logits[0]) == 0);
  }
}

TEST_CASE("a row is read in place of its placeholder's, and only there") {
  const std::vector<int> ids = read_golden("llama3").ids[0];
  Model model(golden_model("llama3"));
  std::vector<float> row(model.spec().hidden_size, 0.25F);
  std::vector<const float*> rows(ids.size(), nullptr);
  rows[3] = row.data();
  SequenceState state = model.make_exact_state(ids.size());
  const SequenceTokens sequence = {TokenSpan(ids, rows), &state, ids.size()};
  const std::vector<float> logits = test::run_batch(model, {&sequence, 1});
  const std::vector<float> expected = run_at_once(model, ids);
  const std::size_t before = 3 * model.spec().vocab_size;
  CHECK(std::memcmp(logits.data(), expected.data(), before * sizeof logits[0]) == 0);
  CHECK(relative_error(std::vector(logits.begin() + static_cast<std::ptrdiff_t>(before), logits.end()),
                       std::vector(expected.begin() + static_cast<std::ptrdiff_t>(before), expected.end())) > 1e-3);
}

TEST_CASE("a truncated cache continues as if the removed tokens had never been there") {
  const std::vector<int> ids = read_golden("llama3").ids[0];
  Model model(golden_model("llama3"));
  SequenceState state = model.make_exact_state(ids.size());
  const std::vector<int> other = {9, 8, 7};
  test::run_tokens(model, std::span(ids).first(5), state);
  test::run_tokens(model, other, state);
  CHECK(state.length() == 8);
  state.truncate(5);
  const std::vector<float> continued = test::run_tokens(model, std::span(ids).subspan(5), state);
  std::vector<float> expected = run_at_once(model, ids);
  expected.erase(expected.begin(), expected.end() - static_cast<std::ptrdiff_t>(continued.size()));
  CHECK(relative_error(continued, expected) <= kRounding);
}

TEST_CASE("a batch of sequences of different length equals each sequence alone") {
  for (const char* name : test::kGoldenDecoders) {
    CAPTURE(name);
    const Golden golden = read_golden(name);
    const std::vector<int> second(golden.ids[1].begin(), golden.ids[1].begin() + 6);
    Model model(golden_model(name));
    SequenceState first_state = model.make_exact_state(32);
    SequenceState second_state = model.make_exact_state(20);
    std::vector<float> first_rows;
    std::vector<float> second_rows;
    // The forward pass runs twice, so that the caches differ in length when the second half begins.
    for (const auto& [from, first_count, second_count] : {std::tuple{0, 9, 2}, std::tuple{1, 5, 4}}) {
      const SequenceTokens batch[] = {
          {std::span(golden.ids[0]).subspan(from == 0 ? 0 : 9, static_cast<std::size_t>(first_count)), &first_state,
           static_cast<std::size_t>(first_count)},
          {std::span(second).subspan(from == 0 ? 0 : 2, static_cast<std::size_t>(second_count)), &second_state,
           static_cast<std::size_t>(second_count)}};
      const std::vector<float> rows = test::run_batch(model, batch);
      const auto split = rows.begin() + first_count * static_cast<std::ptrdiff_t>(model.spec().vocab_size);
      first_rows.insert(first_rows.end(), rows.begin(), split);
      second_rows.insert(second_rows.end(), split, rows.end());
    }
    CHECK(relative_error(first_rows, run_at_once(model, golden.ids[0])) <= kRounding);
    CHECK(relative_error(second_rows, run_at_once(model, second)) <= kRounding);
  }
}

TEST_CASE("an encoder's sequences of one batch do not see each other") {
  const Golden golden = read_golden("bert");
  const std::vector<int> second(golden.ids[1].begin(), golden.ids[1].begin() + 6);
  Model model(golden_model("bert"));
  SequenceState first_state = model.make_exact_state(14);
  SequenceState second_state = model.make_exact_state(6);
  const SequenceTokens batch[] = {{golden.ids[0], &first_state, 14}, {second, &second_state, 6}};
  const std::vector<float> rows = test::run_batch(model, batch);
  const auto split = rows.begin() + static_cast<std::ptrdiff_t>(golden.logits[0].size());
  CHECK(relative_error(std::vector(rows.begin(), split), golden.logits[0]) <= 1e-4);
  CHECK(relative_error(std::vector(split, rows.end()), run_at_once(model, second)) <= kRounding);
}

TEST_CASE("logits do not depend on the number of threads") {
  for (const char* name : {"llama3", "bert", "deepseek_v3"}) {
    CAPTURE(name);
    const Golden golden = read_golden(name);
    const auto run = [&] {
      Model model(golden_model(name));
      return run_at_once(model, golden.ids[0]);
    };
    const std::vector<float> one = test::with_threads(1, run);
    CHECK(test::with_threads(2, run) == one);
    CHECK(test::with_threads(5, run) == one);
  }
}

TEST_CASE("a position past a table of learned positions is refused") {
  Model model(golden_model("gpt2"));
  SequenceState state = model.make_exact_state(80);
  const std::vector<int> ids(65, 2);
  CHECK(error_message([&] { test::run_tokens(model, ids, state); }) ==
        "position 64: the model has learned positions up to 63 only");
}

TEST_CASE("an id outside the vocabulary is refused") {
  Model model(golden_model("llama"));
  SequenceState state = model.make_exact_state(4);
  for (const int id : {-1, 67}) {
    const std::vector<int> ids = {1, id};
    CHECK(error_message([&] { test::run_tokens(model, ids, state); }) ==
          "token " + std::to_string(id) + ": not in the model's vocabulary of 67");
  }
  CHECK(state.length() == 0);
}

TEST_CASE("the share of attention on the first token is that of a softmax") {
  const ModelSource source(golden_model("llama3"));
  const ModelSpec& spec = source.spec();
  const AttentionSpec& attention = *spec.layers[0].attention();
  const RopeTable rope(spec);
  const BlockWeights block = source.block(0);
  std::vector<float> hidden(6 * spec.hidden_size);
  for (std::size_t i = 0; i < hidden.size(); ++i) hidden[i] = std::sin(static_cast<float>(i));
  SequenceState first(spec, 0, {.type = kernels::CacheType::kF32, .capacity = 8});
  SequenceState second(spec, 0, {.type = kernels::CacheType::kF32, .capacity = 8});
  const BatchSequence batch[] = {{1, &first}, {5, &second}};
  BlockActivations activations;
  RopeAngles angles;
  rope.look_up(batch, angles);
  forward_block(spec, block, 0, angles, batch, 0, hidden.data(), activations, {.first_token_share = true});
  REQUIRE(activations.first_token_share.size() == 2 * attention.heads);
  for (std::size_t head = 0; head < attention.heads; ++head) {
    CHECK(activations.first_token_share[head] == doctest::Approx(1));  // one token sees only itself
    double expected = 0;
    for (std::size_t i = 1; i < 6; ++i) {
      const float* q = activations.query_key_value.data() + i * activations.keys.stride + head * attention.head_size;
      double first_weight = 0;
      double sum = 0;
      for (std::size_t j = 1; j <= i; ++j) {
        const float* k = activations.keys.rows + j * activations.keys.stride +
                         head / (attention.heads / attention.kv_heads) * attention.head_size;
        double score = 0;
        for (std::size_t c = 0; c < attention.head_size; ++c) score += double{q[c]} * double{k[c]};
        const double weight = std::exp(score / std::sqrt(static_cast<double>(attention.head_size)));
        if (j == 1) first_weight = weight;
        sum += weight;
      }
      expected += first_weight / sum;
    }
    CHECK(activations.first_token_share[attention.heads + head] == doctest::Approx(expected).epsilon(1e-4));
  }
}

}  // namespace
}  // namespace ballast::model
