#include "ballast/evaluate.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ballast/convert.h"
#include "error_message.h"
#include "fixed_recipe.h"
#include "temporary_directory.h"
#include "tiny_model.h"
#include "tiny_tokenizer.h"
#include "with_threads.h"

namespace ballast {
namespace {

using test::Contains;
using test::error_message;
using test::TemporaryDirectory;

constexpr double kVocab = 264;

/// A model and a text, each in a directory of its own.
struct EvaluationCase {
  TemporaryDirectory directory;
  std::filesystem::path model;
  EvaluateOptions options;

  EvaluationCase(test::TinyModel tiny, const std::string& text, std::size_t context) {
    tiny.tokenizer = test::tiny_tokenizer_json();
    model = tiny.write(directory / "model");
    options.text_file = test::write_file(directory / "text.txt", text);
    options.context = context;
  }
};

std::string without_seconds(Evaluation evaluation) {
  evaluation.seconds = 0;
  return evaluation_json(evaluation);
}

std::string varied_text() {
  std::string text;
  for (std::size_t i = 0; i < 100; ++i) text += static_cast<char>('a' + i * 7 % 24);
  return text;
}

TEST_CASE("perplexity equals a value computed by hand over the second half of each chunk") {
  // Chunks of 8; positions 4, 5 and 6 of each predict tokens 5, 6 and 7. What follows the alphabet has probability
  // e^4 / (e^4 + 263), anything else 1 / (e^4 + 263). The last three characters fill no chunk.
  const EvaluationCase example(test::alphabet_model(4),
                               "zzzabcdx"
                               "qrstuvwy"
                               "abc",
                               8);
  const Evaluation result = evaluate(example.model, example.options);
  CHECK(result.chunks == 2);
  CHECK(result.tokens == 6);
  const double sum = std::exp(4.0) + kVocab - 1;
  // "bcdx": c and d follow, x does not; "uvwy": v and w follow, y does not.
  const double nll = (4 * (std::log(sum) - 4) + 2 * std::log(sum)) / 6;
  CHECK(result.ppl == doctest::Approx(std::exp(nll)).epsilon(1e-4));
  const double variance = (4 * std::pow(std::log(sum) - 4 - nll, 2) + 2 * std::pow(std::log(sum) - nll, 2)) / 5;
  CHECK(result.ppl_stderr == doctest::Approx(std::exp(nll) * std::sqrt(variance / 6)).epsilon(1e-4));
  CHECK(!result.reference_ppl.has_value());
  CHECK(!result.kl_mean.has_value());
}

TEST_CASE("a model that knows nothing has the vocabulary's size as perplexity") {
  const EvaluationCase example(test::alphabet_model(0), varied_text(), 10);
  const Evaluation result = evaluate(example.model, example.options);
  CHECK(result.ppl == doctest::Approx(kVocab).epsilon(1e-5));
  CHECK(result.ppl_stderr == doctest::Approx(0));
  CHECK(result.chunks == 10);
  CHECK(result.tokens == 40);
}

TEST_CASE("the divergence from another model equals a value computed by hand") {
  const EvaluationCase example(test::alphabet_model(2), varied_text(), 10);
  const EvaluationCase other(test::alphabet_model(5), "", 10);
  EvaluateOptions options = example.options;
  options.reference = other.model;
  const Evaluation result = evaluate(example.model, options);
  const double sum = std::exp(2.0) + kVocab - 1;
  const double reference_sum = std::exp(5.0) + kVocab - 1;
  const double kl = (std::exp(5.0) * (5 - 2)) / reference_sum + std::log(sum / reference_sum);
  CHECK(*result.kl_mean == doctest::Approx(kl).epsilon(1e-4));
  CHECK(*result.kl_p99 == doctest::Approx(kl).epsilon(1e-4));
  CHECK(*result.top1_agreement == 1.0);
  CHECK(*result.reference_ppl == doctest::Approx(evaluate(other.model, example.options).ppl));
  CHECK(result.ppl == doctest::Approx(evaluate(example.model, example.options).ppl));
}

TEST_CASE("a model agrees with itself") {
  const EvaluationCase example(test::random_model(), varied_text(), 12);
  EvaluateOptions options = example.options;
  options.reference = example.model;
  const Evaluation result = evaluate(example.model, options);
  CHECK(std::abs(*result.kl_mean) <= 1e-9);
  CHECK(std::abs(*result.kl_p99) <= 1e-9);
  CHECK(*result.top1_agreement == 1.0);
  CHECK(*result.reference_ppl == result.ppl);
}

TEST_CASE("fewer bits give more divergence and smaller files") {
  const EvaluationCase example(test::random_model({.mlp = 1024, .weights = 0.1F}), varied_text(), 12);
  EvaluateOptions options = example.options;
  options.reference = example.model;
  std::vector<Evaluation> results;
  for (const char* scheme : {"w8a16", "w4a16"}) {
    ConvertOptions convert_options;
    convert_options.recipe = test::fixed_recipe(scheme);
    convert_options.recipe.outlier_fraction = 0;  // a fraction would need a calibration
    const auto path = example.directory / scheme;
    const ConvertReport report = convert(example.model, path, convert_options);
    results.push_back(evaluate(path, options));
    CHECK(results.back().file_bytes == report.bytes_after);
    CHECK(*results.back().kl_mean > 0);
  }
  CHECK(*results[0].kl_mean < *results[1].kl_mean);
  CHECK(results[0].file_bytes > results[1].file_bytes);
  CHECK(results[0].bits_per_weight > results[1].bits_per_weight);
}

TEST_CASE("if the tokenizer adds BOS, it is the first token of each chunk") {
  // BOS is followed by 'b' in this model, so a chunk of 4 scores only position 2. Whether BOS replaced a token shows in
  // the number of chunks and in the prediction of the last position.
  EvaluationCase example(test::alphabet_model(4), "abcdefg", 4);
  test::write_file(example.model / "tokenizer_config.json", R"({"bos_token": "<|end|>", "add_bos_token": true})");
  const Evaluation result = evaluate(example.model, example.options);
  CHECK(result.chunks == 2);  // BOS abc, BOS efg: BOS replaces 'd'
  const double sum = std::exp(4.0) + kVocab - 1;
  CHECK(result.ppl == doctest::Approx(sum / std::exp(4.0)).epsilon(1e-4));
}

TEST_CASE("at most the requested number of chunks is scored") {
  EvaluationCase example(test::random_model(), varied_text(), 10);
  example.options.chunks = 3;
  CHECK(evaluate(example.model, example.options).tokens == 12);
  example.options.chunks = 1000;
  CHECK(evaluate(example.model, example.options).tokens == 40);
}

TEST_CASE("figures do not depend on the number of threads") {
  const EvaluationCase example(test::random_model(), varied_text(), 20);
  EvaluateOptions options = example.options;
  options.reference = example.model;
  const auto run = [&] { return evaluate(example.model, options).ppl; };
  CHECK(test::with_threads(1, run) == test::with_threads(2, run));
}

TEST_CASE("stored logits of the reference are reused and give the same figures") {
  EvaluationCase example(test::random_model(), varied_text(), 12);
  EvaluateOptions options = example.options;
  options.reference = test::random_model({.weights = 0.1F}).write(example.directory / "reference");
  const std::string computed = without_seconds(evaluate(example.model, options));
  options.reference_cache = example.directory / "cache" / "logits";
  std::vector<std::string> stages;
  const Progress progress = [&](std::string_view stage, std::size_t, std::size_t) { stages.emplace_back(stage); };
  CHECK(without_seconds(evaluate(example.model, options, progress)) == computed);
  CHECK(std::ranges::count(stages, "running the reference") == 8);
  stages.clear();
  CHECK(without_seconds(evaluate(example.model, options, progress)) == computed);
  CHECK(std::ranges::count(stages, "running the reference") == 0);

  SUBCASE("a copy of the reference elsewhere has the same") {
    std::filesystem::copy(*options.reference, example.directory / "copy");
    options.reference = example.directory / "copy";
    CHECK(without_seconds(evaluate(example.model, options, progress)) == computed);
    CHECK(std::ranges::count(stages, "running the reference") == 0);
  }
  SUBCASE("other weights, chunks, lengths and positions have others") {
    options.chunks = 3;
    evaluate(example.model, options, progress);
    CHECK(std::ranges::count(stages, "running the reference") == 3);
    options.context = 10;
    evaluate(example.model, options, progress);
    CHECK(std::ranges::count(stages, "running the reference") == 6);
    options.per_position = true;
    evaluate(example.model, options, progress);
    CHECK(std::ranges::count(stages, "running the reference") == 9);
    options.reference = test::random_model({.weights = 0.11F}).write(example.directory / "other");
    evaluate(example.model, options, progress);
    CHECK(std::ranges::count(stages, "running the reference") == 12);
  }
  SUBCASE("a damaged file is refused") {
    const auto entry = std::filesystem::directory_iterator(*options.reference_cache)->path() / "model.safetensors";
    std::string bytes = test::read_file(entry);
    bytes[bytes.size() - 3] ^= 0x10;
    test::write_file(entry, bytes);
    CHECK(error_message([&] { evaluate(example.model, options); }) == Contains("model.safetensors: is damaged"));
  }
}

TEST_CASE("figures by position are those of all positions, in ranges that double") {
  EvaluationCase example(test::random_model(), varied_text(), 12);
  EvaluateOptions options = example.options;
  options.reference = test::random_model({.weights = 0.1F}).write(example.directory / "reference");
  const Evaluation plain = evaluate(example.model, options);
  CHECK(plain.positions.empty());
  options.per_position = true;
  const Evaluation result = evaluate(example.model, options);
  CHECK(result.ppl == plain.ppl);
  CHECK(*result.kl_mean == *plain.kl_mean);
  const std::vector<std::pair<std::size_t, std::size_t>> ranges = {{0, 0}, {1, 1}, {2, 3}, {4, 7}, {8, 10}};
  REQUIRE(result.positions.size() == ranges.size());
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    CHECK(result.positions[i].first == ranges[i].first);
    CHECK(result.positions[i].last == ranges[i].second);
    CHECK(result.positions[i].tokens == 8 * (ranges[i].second + 1 - ranges[i].first));
    CHECK(*result.positions[i].kl_mean > 0);
  }
  // A stream with the length of a chunk has the same predictions.
  EvaluateOptions stream = options;
  stream.stream = 12;
  options.chunks = 1;
  const Evaluation one = evaluate(example.model, options);
  const Evaluation streamed = evaluate(example.model, stream);
  REQUIRE(streamed.positions.size() == one.positions.size());
  double kl = 0;
  for (std::size_t i = 0; i < one.positions.size(); ++i) {
    CHECK(streamed.positions[i].ppl == doctest::Approx(one.positions[i].ppl).epsilon(1e-5));
    CHECK(*streamed.positions[i].kl_mean == doctest::Approx(*one.positions[i].kl_mean).epsilon(1e-4));
    kl += *streamed.positions[i].kl_mean * static_cast<double>(streamed.positions[i].tokens);
  }
  CHECK(*streamed.kl_mean == doctest::Approx(kl / 11));
  CHECK(streamed.segments.size() == 11);
  CHECK(*streamed.segments[0].kl_mean == doctest::Approx(*streamed.positions[0].kl_mean));
}

TEST_CASE("a long chunk has at most 16 ranges of positions, which cover it") {
  test::TinyModel tiny = test::random_model({.hidden = 8, .layers = 1, .heads = 1, .kv_heads = 1, .mlp = 8});
  EvaluationCase example(tiny, std::string(40'000, 'x'), 12);
  example.options.stream = 40'000;
  example.options.per_position = true;
  example.options.cache.window = 16;
  const Evaluation result = evaluate(example.model, example.options);
  REQUIRE(result.positions.size() == 16);
  CHECK(result.positions.back().first == 16'384);
  CHECK(result.positions.back().last == 39'998);
}

TEST_CASE("the worst predictions are those where the models differ most, worst first") {
  // Both models know the alphabet, but the model predicts 'x' after 'c', and the reference 'd'.
  std::vector<int> successors(256);
  std::iota(successors.begin(), successors.end(), 1);
  const int c = 'c' - '!';
  EvaluationCase example(test::alphabet_model(6), "ababcdefabcdefgh", 8);
  const EvaluationCase reference(test::alphabet_model(6), "", 8);
  successors[c] = 'x' - '!';
  test::TinyModel wrong = test::successor_model(successors, 6);
  wrong.tokenizer = test::tiny_tokenizer_json();
  example.model = wrong.write(example.directory / "wrong");
  EvaluateOptions options = example.options;
  options.reference = reference.model;
  options.worst = 2;
  const Evaluation result = evaluate(example.model, options);
  REQUIRE(result.worst.size() == 2);
  const DivergentToken& worst = result.worst[0];
  CHECK(worst.chunk == 0);
  CHECK(worst.position == 4);
  CHECK(worst.context == "ababc");
  CHECK(worst.next.text == "d");
  CHECK(worst.top.text == "x");
  CHECK(worst.reference_top.text == "d");
  const double sure = std::exp(6.0) / (std::exp(6.0) + kVocab - 1);
  CHECK(worst.top.probability == doctest::Approx(sure).epsilon(1e-4));
  CHECK(worst.reference_probability == doctest::Approx(sure).epsilon(1e-4));
  CHECK(worst.next.probability == doctest::Approx(sure / std::exp(6.0)).epsilon(1e-4));
  CHECK(worst.kl > 1);
  CHECK(result.worst[1].kl == doctest::Approx(0));
  CHECK(result.worst[1].position == 5);

  // The second chunk's 'c' is in its first half, which only --per-position scores.
  options.per_position = true;
  const Evaluation all = evaluate(example.model, options);
  CHECK(all.worst[0].chunk == 0);
  CHECK(all.worst[1].chunk == 1);
  CHECK(all.worst[1].position == 2);
  const auto json = nlohmann::json::parse(evaluation_json(all));
  CHECK(json["worst"][1]["context"] == "abc");
  CHECK(json["worst"][1]["top"]["text"] == "x");
  CHECK(json["positions"][2]["first"] == 2);
}

TEST_CASE("a part of a character in the worst list leaves the JSON valid") {
  Evaluation evaluation;
  evaluation.worst.push_back({.context = "\xe4\xb8", .next = {.text = "\xad"}});
  CHECK(nlohmann::json::parse(evaluation_json(evaluation))["worst"][0]["next"]["text"] == "\xef\xbf\xbd");
}

TEST_CASE("the JSON has a reference's figures only when there is one") {
  const EvaluationCase example(test::random_model(), varied_text(), 10);
  EvaluateOptions options = example.options;
  auto json = nlohmann::json::parse(evaluation_json(evaluate(example.model, options)));
  for (const char* field : {"chunks", "tokens", "ppl", "ppl_stderr", "file_bytes", "bits_per_weight"}) {
    CHECK(json.contains(field));
  }
  CHECK(!json.contains("kl_mean"));
  options.reference = example.model;
  json = nlohmann::json::parse(evaluation_json(evaluate(example.model, options)));
  for (const char* field : {"reference_ppl", "kl_mean", "kl_p99", "top1_agreement"}) CHECK(json.contains(field));
}

TEST_CASE("input that cannot be evaluated is refused") {
  const EvaluationCase example(test::random_model(), "hello", 8);
  EvaluateOptions options = example.options;
  const auto refusal = [&] { return error_message([&] { evaluate(example.model, options); }); };
  CHECK(refusal() == Contains("text.txt: holds 1 tokens, fewer than the 8 that are scored together"));
  options.context = 3;
  CHECK(refusal() == "context: must be at least 4 tokens");
  options.context = 65;
  CHECK(refusal() == "context: 65 is more than the model's 64");
  options.context = std::size_t{1} << 60;
  CHECK(refusal() == "context: 1152921504606846976 is more than the model's 64");
  options.context = 8;
  options.worst = 3;
  CHECK(refusal() == "worst: lists what diverges most from a reference: name one");
  options.worst = 0;
  options.reference_cache = example.directory / "cache";
  CHECK(refusal() == "reference cache: keeps a reference's logits: name a reference");
  options.reference = example.model;
  options.stream = 8;
  CHECK(refusal() == "reference cache: keeps logits of chunks, not of a stream");
  options.stream = 0;
  options.reference = std::nullopt;
  options.reference_cache = std::nullopt;
  options.text_file = example.directory / "none.txt";
  options.context = 65;
  CHECK(refusal() == Contains("none.txt"));  // comes first: the length of a missing text is unknown
  options.context = 8;
  options.text_file = example.options.text_file;
  options.reference = test::golden_model("llama");
  CHECK(refusal() == Contains("llama: has another vocabulary"));
  CHECK(error_message([&] { evaluate(test::golden_model("llama"), example.options); }) ==
        Contains("has no tokenizer.json"));
}

TEST_CASE("an encoder is refused before its text is read") {
  EvaluateOptions options;
  options.text_file = "no such file";
  CHECK(error_message([&] { evaluate(test::golden_model("bert"), options); }) ==
        Contains(
            "bert: is an encoder: it does not predict what comes next; compare the vectors of texts (eval --vectors)"));
}

}  // namespace
}  // namespace ballast
