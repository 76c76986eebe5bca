#include "engine/speculation.h"

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "ballast/generate.h"
#include "error_message.h"
#include "temporary_directory.h"
#include "tiny_model.h"
#include "tiny_tokenizer.h"
#include "with_threads.h"

namespace ballast::engine {
namespace {

using test::Contains;
using test::error_message;

std::vector<int> token_ids(const GenerateResult& result) {
  std::vector<int> ids;
  for (const GeneratedToken& token : result.tokens) ids.push_back(token.id);
  return ids;
}

/// Two random models with the same tokens, written to a directory of their own.
class ModelPair {
 public:
  ModelPair() : target_(write("target", {.context = 256})), draft_(write("draft", {.layers = 1, .context = 96})) {}

  const std::filesystem::path& target() const { return target_; }
  const std::filesystem::path& draft() const { return draft_; }
  std::filesystem::path write(const std::string& name, const test::TinyModelOptions& options) const {
    test::TinyModel model = test::random_model(options);
    model.tokenizer = test::tiny_tokenizer_json();
    return model.write(directory_ / name);
  }

 private:
  test::TemporaryDirectory directory_;
  std::filesystem::path target_;
  std::filesystem::path draft_;
};

TEST_CASE("the end of a text is found where it came before, the longest repetition and of these the latest") {
  const auto found = [](std::vector<int> tokens) {
    const Repetition repetition = find_repetition(tokens);
    return std::pair(repetition.next, repetition.length);
  };
  using Found = std::pair<std::size_t, std::size_t>;
  CHECK(found({}) == Found(0, 0));
  CHECK(found({1, 1}) == Found(1, 1));
  CHECK(found({1, 2, 3}).second == 0);
  CHECK(found({1, 2, 1}) == Found(1, 1));
  CHECK(found({1, 2, 1, 3, 1}) == Found(3, 1));
  CHECK(found({1, 2, 3, 1, 2}) == Found(2, 2));
  CHECK(found({1, 2, 3, 8, 1, 2, 4, 9, 1, 2}) == Found(6, 2));
  CHECK(found({7, 1, 2, 3, 9, 1, 2, 4, 7, 1, 2}) == Found(3, 3));
  CHECK(found({5, 6, 7, 1, 2, 3, 0, 5, 6, 7, 1, 2}) == Found(5, 5));
  CHECK(found({1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9}) == Found(18, 8));
  CHECK(found({1, 1, 1, 1}) == Found(3, 3));
}

/// Returns the times of steps that cost 1 second, and `row_cost` more for each row after the first.
StepTimes times_of(double row_cost) {
  StepTimes times;
  for (int i = 0; i < 100; ++i) {
    for (const std::size_t rows : {1, 2, 4, 8, 16, 32, 64}) {
      times.measure(rows, 1 + row_cost * static_cast<double>(rows - 1));
    }
  }
  return times;
}

/// Returns how many tokens of each draft are chosen.
std::vector<std::size_t> chosen_counts(const std::vector<std::vector<double>>& acceptance, std::size_t rows,
                                       const StepTimes& times, double drafting = 0) {
  std::vector<DraftOffer> offers;
  for (const std::vector<double>& text : acceptance) offers.push_back({.acceptance = text, .seconds = drafting});
  DraftChooser().choose(offers, rows, times);
  std::vector<std::size_t> counts;
  for (const DraftOffer& offer : offers) counts.push_back(offer.count);
  return counts;
}

TEST_CASE("as many tokens are drafted as their chance is worth") {
  const auto worthwhile = [](double acceptance, double row_cost, std::size_t most, double drafting = 0) {
    return chosen_counts({std::vector<double>(most, acceptance)}, 1, times_of(row_cost), drafting).front();
  };
  CHECK(worthwhile(0.0, 0.1, 8) == 0);
  CHECK(worthwhile(0.1, 0.2, 8) == 0);
  CHECK(worthwhile(1.0, 0.1, 8) == 8);
  CHECK(worthwhile(1.0, 1.0, 8) == 0);
  CHECK(worthwhile(0.9, 0.1, 0) == 0);
  const std::size_t some = worthwhile(0.6, 0.1, 8);
  CHECK(some > 1);
  CHECK(some < 8);
  CHECK(worthwhile(0.8, 0.1, 8) > some);
  CHECK(worthwhile(0.6, 0.3, 8) < some);
  CHECK(worthwhile(0.6, 0.1, 8, 0.2) < some);
  CHECK(worthwhile(0.9, 0.1, 8, 2.0) == 0);
}

TEST_CASE("the drafts of many texts share a step: the likeliest tokens of all run") {
  const std::vector<double> sure(8, 0.99), unlikely(8, 0.2);
  const StepTimes cheap = times_of(0.05);
  CHECK(chosen_counts({sure, unlikely}, 2, cheap) == std::vector<std::size_t>{8, 0});
  CHECK(chosen_counts({unlikely, sure, {}}, 3, cheap) == std::vector<std::size_t>{0, 8, 0});
  // Where a row costs as much as a row of a text, only tokens that are nearly sure are worth it.
  std::vector<std::vector<double>> many(16, std::vector<double>(8, 0.7));
  const std::vector<std::size_t> none(16, 0);
  CHECK(chosen_counts(many, 16, times_of(1.0)) == none);
  CHECK(chosen_counts(many, 16, cheap) != none);
  many[3] = sure;
  const std::vector<std::size_t> one = chosen_counts(many, 16, times_of(0.1));
  CHECK(one[3] == 8);
}

TEST_CASE("the time of a step is learned for its rows, and follows a line between what is known") {
  StepTimes times;
  CHECK(!times.known());
  times.measure(1, 0.010);
  REQUIRE(times.known());
  CHECK(times.seconds(1) == doctest::Approx(0.010));
  CHECK(times.seconds(3) > times.seconds(2));
  for (int i = 0; i < 100; ++i) {
    times.measure(4, 0.010);
    times.measure(9, 0.020);
    times.measure(32, 0.050);
  }
  CHECK(times.seconds(1) == doctest::Approx(0.010));
  CHECK(times.seconds(4) == doctest::Approx(0.010).epsilon(0.05));
  CHECK(times.seconds(9) == doctest::Approx(0.020).epsilon(0.05));
  CHECK(times.seconds(6) > times.seconds(4));
  CHECK(times.seconds(6) < times.seconds(9));
  CHECK(times.seconds(32) == doctest::Approx(0.050).epsilon(0.05));
  CHECK(times.seconds(16) > times.seconds(9));
  CHECK(times.seconds(512) > times.seconds(256));
  // Steps of prompts with more rows than anything is drafted for change nothing.
  const double before = times.seconds(256);
  times.measure(2048, 100);
  CHECK(times.seconds(256) == before);
  // A step that something else held up counts as one of twice the time.
  StepTimes held_up = times, slow = times;
  held_up.measure(4, 10);
  slow.measure(4, 2 * times.seconds(4));
  CHECK(held_up.seconds(4) == slow.seconds(4));
}

TEST_CASE("a number of rows that was slow once is tried again later") {
  StepTimes times;
  times.measure(1, 0.010);
  times.measure(2, 0.020);
  CHECK(times.seconds(2) == doctest::Approx(0.020));
  for (int i = 0; i < 100; ++i) times.measure(1, 0.010);
  CHECK(times.seconds(2) < 0.018);
  for (int i = 0; i < 10'000; ++i) times.measure(1, 0.010);
  CHECK(times.seconds(2) == doctest::Approx(0.012));  // what a row is expected to take
  // What is faster than expected is not forgotten.
  for (int i = 0; i < 100; ++i) times.measure(2, 0.010);
  const double fast = times.seconds(2);
  for (int i = 0; i < 100; ++i) times.measure(1, 0.010);
  CHECK(times.seconds(2) == fast);
}

TEST_CASE("drafts stop where they are wrong, and come again once they would have been right") {
  Speculation speculation(8, nullptr);
  TextDrafts drafts(8);
  DraftState no_state;
  std::vector<int> tokens = {1, 2, 3};
  speculation.measure_step(1, 0.010);
  const auto drafted_with = [&](auto next) {
    std::size_t drafted = 0;
    for (int i = 0; i < 100; ++i) {
      const DraftedText text = {.drafts = &drafts, .state = &no_state, .tokens = tokens, .limit = 100};
      speculation.draft({&text, 1}, 1);
      drafted = drafts.draft().size();
      speculation.measure_step(1 + drafted, 0.010 * (1 + 0.1 * static_cast<double>(drafted)));
      tokens.push_back(next(i));
      drafts.observe(tokens.back());
    }
    return drafted;
  };
  CHECK(drafted_with([](int i) { return i % 3; }) == 8);
  // After "5 5" comes another token each time, and so it does after "5".
  CHECK(drafted_with([](int i) { return i % 2 == 1 ? 100 + i : 5; }) == 0);
  CHECK(drafted_with([](int i) { return i % 3; }) == 8);
}

TEST_CASE("what a constraint forces is drafted first, as far as it turns out to be what comes") {
  Speculation speculation(8, nullptr);
  speculation.measure_step(1, 0.010);
  const std::vector<int> tokens = {1, 2, 3, 1, 2};
  const std::vector<int> forced = {7, 8, 9};
  DraftState no_state;
  const auto drafted = [&](TextDrafts& drafts, std::size_t limit) {
    const DraftedText text = {
        .drafts = &drafts, .state = &no_state, .tokens = tokens, .forced = forced, .limit = limit};
    speculation.draft({&text, 1}, 1);
    return std::vector<int>(drafts.draft().begin(), drafts.draft().end());
  };
  TextDrafts drafts(8);
  CHECK(drafted(drafts, 8) == forced);
  CHECK(drafted(drafts, 2) == std::vector<int>{7, 8});
  CHECK(drafted(drafts, 0).empty());
  for (int i = 0; i < 40; ++i) {
    drafted(drafts, 8);
    drafts.observe(5);
  }
  CHECK(drafted(drafts, 8).empty());
}

TEST_CASE("the generated text does not depend on drafts of any source") {
  const ModelPair models;
  const Model target(models.target());
  const std::string prompt = "abcabcabcabdabcabcab";
  std::size_t drafted = 0;
  std::size_t accepted = 0;
  for (const double temperature : {0.0, 0.3, 1.0}) {
    for (const CacheOptions::Type type :
         {CacheOptions::Type::kF32, CacheOptions::Type::kF16, CacheOptions::Type::kInt8}) {
      for (const std::size_t window : {std::size_t{0}, std::size_t{24}}) {
        CAPTURE(temperature);
        CAPTURE(window);
        GenerateOptions options;
        options.max_tokens = 100;
        options.temperature = temperature;
        options.repetition_penalty = temperature == 1.0 ? 1.1 : 1;
        options.logprobs = 2;
        options.cache = {.type = type, .window = window, .sinks = window > 0 ? std::size_t{2} : 0};
        options.draft_tokens = 0;
        const GenerateResult plain = Generator(target).generate(prompt, options);
        CHECK(plain.draft_tokens == 0);
        options.draft_tokens = 8;
        for (const std::filesystem::path& draft : {std::filesystem::path(), models.draft(), models.target()}) {
          CAPTURE(draft.string());
          Generator generator = draft.empty() ? Generator(target) : Generator(target, Model(draft));
          for (int call = 0; call < 2; ++call) {  // the second one finds what the first one left in the caches
            const GenerateResult result = generator.generate(prompt, options);
            CHECK(token_ids(result) == token_ids(plain));
            CHECK(result.text == plain.text);
            CHECK(result.tokens.back().logprob == plain.tokens.back().logprob);
            CHECK(result.accepted_tokens <= result.draft_tokens);
            drafted += result.draft_tokens;
            accepted += result.accepted_tokens;
          }
        }
      }
    }
  }
  CHECK(accepted > 0);
  CHECK(accepted < drafted);
}

TEST_CASE("tokens sampled with drafts have the frequencies of the model's probabilities") {
  const test::TemporaryDirectory directory;
  constexpr double kLogit = 6;
  const test::TinyModel model = test::alphabet_model(static_cast<float>(kLogit));
  Generator generator{Model(model.write(directory / "model"))};
  GenerateOptions options;
  options.max_tokens = 100'000;
  options.temperature = 1;
  options.cache = {.type = CacheOptions::Type::kF32, .window = 16, .sinks = 0};
  // One thread: the tokens of so small a model take less time than two threads need to find each other.
  const GenerateResult result =
      test::with_threads(1, [&] { return generator.generate(std::vector<int>{0, 1, 2, 3}, options); });
  REQUIRE(result.tokens.size() == options.max_tokens);
  CHECK(result.accepted_tokens > 0);  // how many depends on what steps cost on this machine

  const double vocab_size = model.config["vocab_size"];
  const double share = std::exp(kLogit) / (std::exp(kLogit) + vocab_size - 1);
  double letters = 0;
  double successors = 0;
  for (std::size_t i = 1; i < result.tokens.size(); ++i) {
    const int before = result.tokens[i - 1].id;
    if (before >= 256) continue;
    ++letters;
    if (result.tokens[i].id == before + 1) ++successors;
  }
  CHECK(std::abs(successors / letters - share) < 4 * std::sqrt(share * (1 - share) / letters));
}

TEST_CASE("more draft tokens than are ever right are refused") {
  check_draft_tokens(64);
  CHECK(error_message([] { check_draft_tokens(65); }) == "draft tokens: are 65, must be at most 64");
}

TEST_CASE("a draft model with other tokens is refused") {
  const ModelPair models;
  const Model target(models.target());
  const auto draft_with = [&](const std::filesystem::path& path) {
    return error_message([&] { Generator(target, Model(path)); });
  };
  test::TinyModel other = test::random_model();
  other.tokenizer = test::tiny_tokenizer_json();
  const test::TemporaryDirectory directory;
  other.tokenizer["added_tokens"][0]["content"] = "<|END|>";
  CHECK(draft_with(other.write(directory / "other")) == Contains("has other tokens than"));
  CHECK(draft_with(models.draft()) == "no error");
}

}  // namespace
}  // namespace ballast::engine
