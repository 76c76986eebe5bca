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

TEST_CASE("as many tokens are drafted as their chance is worth") {
  const auto worthwhile = [](double acceptance, double token_cost, std::size_t most) {
    const std::vector<double> chances(most, acceptance);
    std::vector<double> costs;
    for (std::size_t i = 1; i <= most; ++i) costs.push_back(1 + token_cost * static_cast<double>(i));
    return worthwhile_tokens(chances, costs);
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
  // Tokens that cost nothing are drafted however unlikely, those after them that cost something are not.
  CHECK(worthwhile_tokens(std::vector{0.2, 0.2, 0.2, 0.2}, std::vector{1.0, 1.0, 1.0, 1.5}) == 3);
}

TEST_CASE("what a step costs is learned for its number of drafts, and a little for its neighbours") {
  StepCosts costs(8);
  CHECK(!costs.known());
  costs.measure(0, 0.010);
  CHECK(costs.known());
  CHECK(costs.seconds() == doctest::Approx(0.010));
  const std::vector<double> expected(costs.of_drafts().begin(), costs.of_drafts().end());
  for (int i = 0; i < 100; ++i) {
    costs.measure(3, 0.010);
    costs.measure(8, 0.020);
  }
  CHECK(costs.of_drafts()[2] == doctest::Approx(1.0).epsilon(0.05));
  CHECK(costs.of_drafts()[7] == doctest::Approx(2.0).epsilon(0.05));
  CHECK(costs.of_drafts()[1] < expected[1]);
  CHECK(costs.of_drafts()[6] > costs.of_drafts()[3]);
  // A step cannot take longer than its tokens alone: something else held it up.
  StepCosts held_up(2), slow(2);
  held_up.measure(0, 0.010);
  slow.measure(0, 0.010);
  held_up.measure(2, 10);
  slow.measure(2, 0.030);
  CHECK(held_up.of_drafts()[1] == slow.of_drafts()[1]);
}

TEST_CASE("drafts stop where they are wrong, and come again once they would have been right") {
  Speculation speculation(8, nullptr);
  std::vector<int> tokens = {1, 2, 3};
  speculation.measure_step(0, 0.010);
  const auto drafted_with = [&](auto next) {
    std::size_t drafted = 0;
    for (int i = 0; i < 100; ++i) {
      drafted = speculation.draft(tokens, 100).size();
      if (drafted > 0) speculation.measure_step(drafted, 0.010 * (1 + 0.1 * static_cast<double>(drafted)));
      tokens.push_back(next(i));
      speculation.observe(tokens.back());
    }
    return drafted;
  };
  CHECK(drafted_with([](int i) { return i % 3; }) == 8);
  // After "5 5" comes another token each time, and so it does after "5".
  CHECK(drafted_with([](int i) { return i % 2 == 1 ? 100 + i : 5; }) == 0);
  CHECK(drafted_with([](int i) { return i % 3; }) == 8);
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
  const GenerateResult result = generator.generate(std::vector<int>{0, 1, 2, 3}, options);
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
