#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "ballast/constraint.h"
#include "ballast/generate.h"
#include "error_message.h"
#include "temporary_directory.h"
#include "text/constraint/constraint_compiler.h"
#include "tiny_model.h"
#include "tiny_tokenizer.h"

namespace ballast::engine {
namespace {

using nlohmann::json;
using test::Contains;
using test::error_message;

constexpr int kEndToken = 261;

/// A random model whose tokens are bytes; it ends texts with kEndToken, or has no end token.
class ByteModel {
 public:
  explicit ByteModel(bool has_end = true, const test::TinyModelOptions& options = {.context = 512}) {
    test::TinyModel model = test::random_model(options);
    model.tokenizer = test::tiny_tokenizer_json();
    if (has_end) model.config["eos_token_id"] = kEndToken;
    path_ = model.write(directory_ / "model");
  }

  const std::filesystem::path& path() const { return path_; }

 private:
  test::TemporaryDirectory directory_;
  std::filesystem::path path_;
};

/// Even the texts that a random model writes under this schema are short.
Constraint person_constraint() {
  return {.kind = Constraint::Kind::kJsonSchema, .text = R"({"type": "object", "properties": {
      "name": {"type": "string", "maxLength": 6}, "age": {"type": "integer", "minimum": 0, "maximum": 150},
      "tags": {"type": "array", "items": {"enum": ["a", "hello"]}, "maxItems": 3},
      "kind": {"const": "a long constant text that a draft may have in advance"}},
      "required": ["name", "age", "kind"]})"};
}

GenerateOptions constrained(std::uint64_t seed) {
  GenerateOptions options;
  options.max_tokens = 400;
  options.temperature = 1;
  options.seed = seed;
  options.draft_tokens = 0;
  options.constraint = person_constraint();
  return options;
}

std::vector<int> ids_of(const GenerateResult& result) {
  std::vector<int> ids;
  for (const GeneratedToken& token : result.tokens) ids.push_back(token.id);
  return ids;
}

TEST_CASE("a random model under a schema writes valid JSON at every seed, and ends it" *
          doctest::skip(!text::has_constraints())) {
  const ByteModel files;
  const Model model(files.path());
  Generator generator(model);
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const GenerateResult result = generator.generate("hello", constrained(seed));
    CAPTURE(result.text);
    CHECK(result.finish == GenerateResult::Finish::kStop);
    const json value = json::parse(result.text);
    CHECK(value.at("name").is_string());
    CHECK(value.at("age").get<int>() <= 150);
    CHECK(result.tokens.back().id == kEndToken);
  }
}

TEST_CASE("constrained texts do not depend on drafts" * doctest::skip(!text::has_constraints())) {
  const ByteModel files;
  const ByteModel draft_files(true, {.layers = 1, .context = 512});
  const Model model(files.path());
  const Model draft(draft_files.path());
  Generator alone(model);
  Generator drafted(model, draft);
  std::size_t drafts = 0;
  std::size_t forced = 0;  // a random text repeats little, so most of these are names that the schema forces
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    GenerateOptions options = constrained(seed);
    const std::vector<int> expected = ids_of(alone.generate("hello", options));
    options.draft_tokens = 8;
    const GenerateResult repeated = alone.generate("hello", options);
    const GenerateResult modelled = drafted.generate("hello", options);
    CHECK(ids_of(repeated) == expected);
    CHECK(ids_of(modelled) == expected);
    drafts += repeated.draft_tokens + modelled.draft_tokens;
    forced += repeated.accepted_tokens;
  }
  CHECK(drafts > 0);
  CHECK(forced > 0);
}

TEST_CASE("constrained texts do not depend on others in the batch" * doctest::skip(!text::has_constraints())) {
  const ByteModel files;
  const Model model(files.path());
  std::vector<std::vector<int>> expected;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    Generator generator(model);
    expected.push_back(ids_of(generator.generate("hello", constrained(seed))));
  }
  std::vector<std::vector<int>> together(expected.size());
  std::vector<std::thread> threads;
  for (std::uint64_t seed = 0; seed < expected.size(); ++seed) {
    threads.emplace_back([&, seed] {
      Generator generator(model);
      together[seed] = ids_of(generator.generate("hello", constrained(seed)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(together == expected);
}

TEST_CASE("log-probabilities of constrained tokens are the model's own" * doctest::skip(!text::has_constraints())) {
  const ByteModel files;
  const Model model(files.path());
  Generator generator(model);
  GenerateOptions options = constrained(3);
  options.logprobs = 2;
  const GenerateResult result = generator.generate("hello", options);
  std::vector<int> ids = model.encode("hello");
  const std::size_t first = ids.size();
  for (const int id : ids_of(result)) ids.push_back(id);
  const std::vector<GeneratedToken> scores = Generator(model).score(ids, first, 2, options.cache);
  REQUIRE(scores.size() == result.tokens.size());
  for (std::size_t i = 0; i < scores.size(); ++i) {
    CHECK(result.tokens[i].logprob == doctest::Approx(scores[i].logprob).epsilon(1e-3));
  }
}

TEST_CASE("a complete text ends before min_tokens and with ignored end tokens, an incomplete one never" *
          doctest::skip(!text::has_constraints())) {
  const ByteModel files;
  const Model model(files.path());
  Generator generator(model);
  GenerateOptions options = constrained(0);
  options.constraint = {.kind = Constraint::Kind::kRegex, .text = "(ab){1,20}"};
  options.min_tokens = 100;
  const GenerateResult longest = generator.generate("hello", options);
  CHECK(longest.text.size() == 40);  // as long as something else could be chosen
  CHECK(longest.finish == GenerateResult::Finish::kStop);
  options.min_tokens = 0;
  options.ignore_eos = true;
  CHECK(generator.generate("hello", options).text.size() == 40);
  options.max_tokens = 5;
  const GenerateResult cut = generator.generate("hello", options);
  CHECK(cut.text == "ababa");
  CHECK(cut.finish == GenerateResult::Finish::kLength);
}

TEST_CASE("a model without end tokens stops where nothing can follow" * doctest::skip(!text::has_constraints())) {
  const ByteModel files(false);
  const Model model(files.path());
  Generator generator(model);
  GenerateOptions options = constrained(0);
  options.constraint = {.kind = Constraint::Kind::kChoice, .text = {}, .choices = {"xyz", "uvw"}};
  const GenerateResult result = generator.generate("hello", options);
  CHECK((result.text == "xyz" || result.text == "uvw"));
  CHECK(result.finish == GenerateResult::Finish::kStop);
  CHECK(result.tokens.size() == 3);
}

TEST_CASE("other rules of choosing apply within a constraint, and one that leaves nothing is an error" *
          doctest::skip(!text::has_constraints())) {
  const ByteModel files;
  const Model model(files.path());
  Generator generator(model);
  const auto id_of = [&](const std::string& text) { return model.encode(text, false).at(0); };
  GenerateOptions options = constrained(0);
  options.constraint = {.kind = Constraint::Kind::kChoice, .text = {}, .choices = {"xyz", "uvw"}};
  options.logit_bias = {{.id = id_of("u"), .bias = 100}, {.id = id_of("q"), .bias = 100}};
  CHECK(generator.generate("hello", options).text == "uvw");
  options.logit_bias.clear();
  options.repetition_penalty = 100;
  CHECK(generator.generate("xyzuvw hello", options).text.size() == 3);
  options.repetition_penalty = 1;
  options.allowed_tokens = {id_of("x"), id_of("y"), id_of("z"), kEndToken};
  CHECK(generator.generate("hello", options).text == "xyz");
  options.allowed_tokens = {id_of("x")};
  CHECK(error_message([&] { generator.generate("hello", options); }) == Contains("none may be chosen: the constraint"));
  options.allowed_tokens.clear();
  options.constraint = {.kind = Constraint::Kind::kJsonSchema, .text = R"({"contains": {}})"};
  CHECK(error_message([&] { generator.generate("hello", options); }) == Contains("`contains` is not supported"));
}

}  // namespace
}  // namespace ballast::engine
