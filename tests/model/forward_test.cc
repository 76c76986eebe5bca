#include "model/forward.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "error_message.h"
#include "model/checkpoint/safetensors_file.h"
#include "model/model.h"
#include "tiny_model.h"
#include "with_threads.h"

namespace ballast::model {
namespace {

using test::Contains;
using test::error_message;
using test::golden_model;

struct Golden {
  std::size_t tokens = 0;
  std::vector<std::vector<int>> ids;
  std::vector<std::vector<float>> logits;  ///< of each sequence, [tokens][vocab]
};

Golden read_golden(const std::string& name) {
  const SafetensorsFile file(golden_model(name) / "expected.safetensors");
  const TensorView& ids = file.tensor("input_ids");
  const TensorView& logits = file.tensor("logits");
  Golden golden;
  golden.tokens = static_cast<std::size_t>(ids.shape[1]);
  for (std::size_t b = 0; b < static_cast<std::size_t>(ids.shape[0]); ++b) {
    std::vector<std::int64_t> wide(golden.tokens);
    std::memcpy(wide.data(), ids.bytes.data() + b * wide.size() * sizeof wide[0], wide.size() * sizeof wide[0]);
    golden.ids.emplace_back(wide.begin(), wide.end());
    std::vector<float> rows(golden.tokens * static_cast<std::size_t>(logits.shape[2]));
    std::memcpy(rows.data(), logits.bytes.data() + b * rows.size() * sizeof rows[0], rows.size() * sizeof rows[0]);
    golden.logits.push_back(std::move(rows));
  }
  return golden;
}

std::vector<float> logits_of(Model& model, std::span<const float> hidden) {
  const std::size_t rows = hidden.size() / model.spec().hidden_size;
  std::vector<float> logits(rows * model.spec().vocab_size);
  model.logits(hidden.data(), rows, logits.data());
  return logits;
}

/// Runs `ids` in pieces of `piece` tokens.
std::vector<float> run_in_pieces(Model& model, const std::vector<int>& ids, std::size_t piece,
                                 kernels::FloatType cache_type = kernels::FloatType::kF32) {
  KeyValueCache cache = model.make_cache(ids.size(), cache_type);
  std::vector<float> logits;
  for (std::size_t begin = 0; begin < ids.size(); begin += piece) {
    const SequenceTokens sequence[] = {{std::span(ids).subspan(begin, std::min(piece, ids.size() - begin)), &cache}};
    const std::vector<float> part = logits_of(model, model.forward(sequence));
    logits.insert(logits.end(), part.begin(), part.end());
  }
  return logits;
}

/// Largest difference over the spread of what was expected.
double relative_error(const std::vector<float>& got, const std::vector<float>& expected) {
  REQUIRE(got.size() == expected.size());
  double largest = 0;
  double squares = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    largest = std::max(largest, std::abs(double{got[i]} - double{expected[i]}));
    squares += double{expected[i]} * double{expected[i]};
  }
  return largest / std::sqrt(squares / static_cast<double>(got.size()));
}

TEST_CASE("logits are those of transformers") {
  for (const char* name : {"llama", "llama3"}) {
    CAPTURE(name);
    const Golden golden = read_golden(name);
    Model model(golden_model(name));
    for (std::size_t b = 0; b < golden.ids.size(); ++b) {
      CHECK(relative_error(run_in_pieces(model, golden.ids[b], golden.tokens), golden.logits[b]) <= 1e-4);
    }
  }
}

TEST_CASE("a GGUF gives the logits of the Hugging Face directory with the same weights") {
  const Golden golden = read_golden("llama");
  Model directory(golden_model("llama"));
  Model gguf(golden_model("llama.gguf"));
  for (const std::vector<int>& ids : golden.ids) {
    CHECK(relative_error(run_in_pieces(gguf, ids, ids.size()), run_in_pieces(directory, ids, ids.size())) <= 1e-5);
  }
}

TEST_CASE("token by token with a cache equals all at once") {
  for (const char* name : {"llama", "llama3", "llama.gguf"}) {
    CAPTURE(name);
    const std::vector<int> ids = read_golden("llama").ids[0];
    Model model(golden_model(name));
    const std::vector<float> at_once = run_in_pieces(model, ids, ids.size());
    for (const std::size_t piece : {1, 3, 5}) {
      CAPTURE(piece);
      CHECK(relative_error(run_in_pieces(model, ids, piece), at_once) <= 1e-5);
    }
    CHECK(relative_error(run_in_pieces(model, ids, 1, kernels::FloatType::kF16), at_once) <= 1e-2);
  }
}

TEST_CASE("a truncated cache continues as if the tokens behind had never been") {
  const std::vector<int> ids = read_golden("llama3").ids[0];
  Model model(golden_model("llama3"));
  KeyValueCache cache = model.make_cache(ids.size(), kernels::FloatType::kF32);
  const std::vector<int> other = {9, 8, 7};
  SequenceTokens sequence[] = {{std::span(ids).first(5), &cache}};
  model.forward(sequence);
  sequence[0].ids = other;
  model.forward(sequence);
  CHECK(cache.length() == 8);
  cache.truncate(5);
  sequence[0].ids = std::span(ids).subspan(5);
  const std::vector<float> continued = logits_of(model, model.forward(sequence));
  std::vector<float> expected = run_in_pieces(model, ids, ids.size());
  expected.erase(expected.begin(), expected.end() - static_cast<std::ptrdiff_t>(continued.size()));
  CHECK(relative_error(continued, expected) <= 1e-5);
}

TEST_CASE("a batch of sequences of different length equals each sequence alone") {
  const Golden golden = read_golden("llama3");
  const std::vector<int> second(golden.ids[1].begin(), golden.ids[1].begin() + 6);
  Model model(golden_model("llama3"));
  KeyValueCache first_cache = model.make_cache(32, kernels::FloatType::kF32);
  KeyValueCache second_cache = model.make_cache(20, kernels::FloatType::kF32);
  std::vector<float> first_rows;
  std::vector<float> second_rows;
  // Twice, so that the caches differ in length when the second half begins.
  for (const auto& [from, first_count, second_count] : {std::tuple{0, 9, 2}, std::tuple{1, 5, 4}}) {
    const SequenceTokens batch[] = {
        {std::span(golden.ids[0]).subspan(from == 0 ? 0 : 9, static_cast<std::size_t>(first_count)), &first_cache},
        {std::span(second).subspan(from == 0 ? 0 : 2, static_cast<std::size_t>(second_count)), &second_cache}};
    const std::vector<float> rows = logits_of(model, model.forward(batch));
    const auto split = rows.begin() + first_count * static_cast<std::ptrdiff_t>(model.spec().vocab_size);
    first_rows.insert(first_rows.end(), rows.begin(), split);
    second_rows.insert(second_rows.end(), split, rows.end());
  }
  CHECK(relative_error(first_rows, run_in_pieces(model, golden.ids[0], 14)) <= 1e-5);
  CHECK(relative_error(second_rows, run_in_pieces(model, second, 6)) <= 1e-5);
}

TEST_CASE("logits do not depend on the number of threads") {
  const Golden golden = read_golden("llama3");
  const auto run = [&] {
    Model model(golden_model("llama3"));
    return run_in_pieces(model, golden.ids[0], golden.tokens);
  };
  const std::vector<float> one = test::with_threads(1, run);
  CHECK(test::with_threads(2, run) == one);
  CHECK(test::with_threads(5, run) == one);
}

TEST_CASE("an id outside the vocabulary is refused") {
  Model model(golden_model("llama"));
  KeyValueCache cache = model.make_cache(4, kernels::FloatType::kF32);
  for (const int id : {-1, 67}) {
    const std::vector<int> ids = {1, id};
    const SequenceTokens sequence[] = {{ids, &cache}};
    CHECK(error_message([&] { model.forward(sequence); }) ==
          "token " + std::to_string(id) + ": not in the model's vocabulary of 67");
  }
  CHECK(cache.length() == 0);
}

TEST_CASE("the share of attention on the first token is that of a softmax") {
  const ModelSource source(golden_model("llama3"));
  const ModelSpec& spec = source.spec();
  const RopeTable rope(spec);
  const BlockWeights block = source.block(0);
  std::vector<float> hidden(6 * spec.hidden_size);
  for (std::size_t i = 0; i < hidden.size(); ++i) hidden[i] = std::sin(static_cast<float>(i));
  KeyValueCache first(spec, 1, 8, kernels::FloatType::kF32);
  KeyValueCache second(spec, 1, 8, kernels::FloatType::kF32);
  const BatchSequence batch[] = {{1, &first}, {5, &second}};
  BlockActivations activations;
  forward_block(spec, block, rope, batch, 0, hidden.data(), activations, {.first_token_share = true});
  REQUIRE(activations.first_token_share.size() == 2 * spec.heads);
  const std::size_t queries = spec.heads * spec.head_size;
  for (std::size_t head = 0; head < spec.heads; ++head) {
    CHECK(activations.first_token_share[head] == doctest::Approx(1));  // one token sees only itself
    double expected = 0;
    for (std::size_t i = 1; i < 6; ++i) {
      const float* q = activations.query_key_value.data() + i * activations.row_size + head * spec.head_size;
      double first_weight = 0;
      double sum = 0;
      for (std::size_t j = 1; j <= i; ++j) {
        const float* k = activations.query_key_value.data() + j * activations.row_size + queries +
                         head / (spec.heads / spec.kv_heads) * spec.head_size;
        double score = 0;
        for (std::size_t c = 0; c < spec.head_size; ++c) score += double{q[c]} * double{k[c]};
        const double weight = std::exp(score / std::sqrt(static_cast<double>(spec.head_size)));
        if (j == 1) first_weight = weight;
        sum += weight;
      }
      expected += first_weight / sum;
    }
    CHECK(activations.first_token_share[spec.heads + head] == doctest::Approx(expected).epsilon(1e-4));
  }
}

}  // namespace
}  // namespace ballast::model
