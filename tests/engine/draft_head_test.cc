// Drafts by a head for multi-token prediction: what it drafts, and that texts do not depend on it.
#include <doctest/doctest.h>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "ballast/generate.h"
#include "ballast/model.h"
#include "draft_head_model.h"
#include "engine/engine.h"
#include "engine/head_drafter.h"
#include "kernels/logits.h"
#include "model/model.h"
#include "temporary_directory.h"

namespace ballast::engine::draft_heads {
namespace {

ModelOptions with_draft_head() {
  return {.activations = ActivationType::kFloat, .draft_head = true};
}

std::vector<int> random_tokens(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<int> ids(count);
  for (int& id : ids) id = static_cast<int>(random() % 33);
  return ids;
}

model::Model load(const std::filesystem::path& path) {
  return model::Model(std::make_unique<model::ModelSource>(path), model::FloatLayout::kRows, with_draft_head());
}

/// Drafts after `tokens`, of which the head sees those from index `begin` on, one call after the other.
std::vector<int> expected_draft(const model::Model& model, const std::vector<int>& tokens, std::size_t begin,
                                std::size_t count) {
  const model::DraftHead& head = *model.draft_head();
  const std::size_t size = model.spec().hidden_size;
  std::vector<float> hidden = model.residual_stream(tokens, model.spec().layers.size());
  head.normalize(hidden.data(), tokens.size());
  model::SequenceState state = head.make_state(tokens.size() + count);
  model::DraftHeadWorkspace workspace;
  std::vector<float> output(size), logits(model.spec().vocab_size);
  const auto run = [&](int next, const float* row) {
    const model::DraftHeadTokens text = {.tokens = std::span(&next, 1), .hidden = row, .state = &state};
    model.run_draft_head({&text, 1}, output.data(), logits.data(), workspace);
  };
  for (std::size_t i = begin; i + 1 < tokens.size(); ++i) run(tokens[i + 1], hidden.data() + i * size);
  std::vector<int> draft;
  for (;;) {
    draft.push_back(static_cast<int>(kernels::argmax(logits.data(), logits.size())));
    if (draft.size() == count) return draft;
    run(draft.back(), output.data());
  }
}

TEST_CASE("a head drafts from all outputs that it has not seen, after accepted and after rejected drafts") {
  for (const char* golden : test::kDraftedGoldens) {
    CAPTURE(golden);
    const test::TemporaryDirectory directory;
    const model::Model model = load(test::model_with_draft_head(golden).write(directory / "model"));
    Engine engine(model);
    HeadDrafter drafter(model);
    Sequence sequence(model, {.type = CacheOptions::Type::kF32}, 64);
    sequence.keep_hidden(HeadDrafter::kKeptTokens);
    const std::vector<int> text = random_tokens(60, 3);
    sequence.append(std::span(text).first(9));
    engine.step(sequence);
    DraftState state;
    std::mt19937 random(1);
    for (std::size_t known = 10; known < 50;) {
      const std::vector<int> tokens(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(known));
      sequence.append(tokens.back());
      std::vector<int> draft;
      if (random() % 3 > 0) {
        Drafter::Text asked = {
            .state = &state, .sequence = &sequence, .tokens = tokens, .count = 1 + random() % 3, .drafted = {}};
        drafter.continue_texts({&asked, 1}, 512);
        CHECK(asked.drafted == expected_draft(model, tokens, 0, asked.count));
      }
      // The step runs other drafts, of which the first ones are right.
      const std::size_t right = random() % 3;
      for (std::size_t i = 0; i < right; ++i) draft.push_back(text[known + i]);
      draft.push_back(text[known + right] == 0 ? 1 : 0);
      sequence.append_draft(draft);
      sequence.want(draft.size() + 1);
      engine.step(sequence);
      sequence.cut_back(known + right);
      known += right + 1;
    }
  }
}

TEST_CASE("a head that has not followed a text drafts from the end of it") {
  const test::TemporaryDirectory directory;
  const model::Model model = load(test::model_with_draft_head("glm4_moe").write(directory / "model"));
  Engine engine(model);
  HeadDrafter drafter(model);
  const std::vector<int> tokens = random_tokens(30, 5);
  Sequence sequence(model, {.type = CacheOptions::Type::kF32}, 64);
  sequence.append(std::span(tokens).first(20));
  engine.step(sequence);
  CHECK(sequence.hidden().empty());
  DraftState state;
  Drafter::Text asked = {.state = &state, .sequence = &sequence, .tokens = std::span(tokens).first(21), .count = 2};
  drafter.continue_texts({&asked, 1}, 512);
  CHECK(asked.drafted.empty());
  sequence.keep_hidden(4);
  sequence.append(std::span(tokens).subspan(20, 9));
  engine.step(sequence);
  CHECK(sequence.hidden_begin() == 25);
  CHECK(sequence.hidden_end() == 29);
  asked.tokens = tokens;
  drafter.continue_texts({&asked, 1}, 3);  // reads a piece
  CHECK(asked.drafted.empty());
  drafter.continue_texts({&asked, 1}, 3);
  CHECK(asked.drafted == expected_draft(model, tokens, 25, 2));
}

TEST_CASE("heads of several texts draft together as alone") {
  const test::TemporaryDirectory directory;
  const model::Model model = load(test::model_with_draft_head("qwen3_next").write(directory / "model"));
  Engine engine(model);
  HeadDrafter drafter(model);
  std::vector<std::vector<int>> tokens;
  std::vector<Sequence> sequences;
  std::vector<DraftState> states(3);
  std::vector<Drafter::Text> asked;
  sequences.reserve(3);
  for (std::size_t i = 0; i < 3; ++i) {
    tokens.push_back(random_tokens(5 + 9 * i, static_cast<unsigned>(i)));
    sequences.emplace_back(model, CacheOptions{.type = CacheOptions::Type::kF32}, std::size_t{64});
    sequences[i].keep_hidden(HeadDrafter::kKeptTokens);
    sequences[i].append(std::span(tokens[i]).first(tokens[i].size() - 1));
    engine.step(sequences[i]);
    asked.push_back(
        {.state = &states[i], .sequence = &sequences[i], .tokens = tokens[i], .count = 3 - i, .drafted = {}});
  }
  drafter.continue_texts(asked, 512);
  for (std::size_t i = 0; i < 3; ++i) CHECK(asked[i].drafted == expected_draft(model, tokens[i], 0, 3 - i));
}

TEST_CASE("the drafts of a head that predicts what the model does are all accepted") {
  for (const char* golden : test::kDraftedGoldens) {
    CAPTURE(golden);
    const test::TemporaryDirectory directory;
    test::TinyModel counting = test::counting_model_with_draft_head(golden);
    counting.config.erase("eos_token_id");
    const Model model(counting.write(directory / "model"), with_draft_head());
    GenerateOptions options;
    options.max_tokens = 25;  // a text that does not repeat itself
    const GenerateResult result = Generator(model).generate(std::vector<int>{3, 4}, options);
    REQUIRE(result.tokens.size() == 25);
    for (std::size_t i = 0; i < 25; ++i) CHECK(result.tokens[i].id == static_cast<int>(5 + i));
    CHECK(result.accepted_tokens > 0);
    CHECK(result.accepted_tokens == result.draft_tokens);
  }
}

TEST_CASE("the generated text does not depend on the drafts of a head") {
  std::size_t drafted = 0;
  for (const char* golden : test::kDraftedGoldens) {
    CAPTURE(golden);
    const test::TemporaryDirectory directory;
    test::TinyModel with_head = test::model_with_draft_head(golden);
    with_head.config["max_position_embeddings"] = 256;
    with_head.config.erase("eos_token_id");
    const std::filesystem::path path = with_head.write(directory / "model");
    const Model model(path, with_draft_head());
    for (const double temperature : {0.0, 1.0}) {
      for (const std::size_t window : {std::size_t{0}, std::size_t{24}}) {
        CAPTURE(temperature);
        CAPTURE(window);
        GenerateOptions options;
        options.max_tokens = 120;
        options.temperature = temperature;
        options.logprobs = 1;
        options.cache = {.type = CacheOptions::Type::kF16, .window = window, .sinks = window > 0 ? std::size_t{2} : 0};
        options.draft_tokens = 0;
        const std::vector<int> prompt = random_tokens(20, 2);
        const GenerateResult plain = Generator(model).generate(prompt, options);
        options.draft_tokens = 4;
        Generator generator(model);
        for (int call = 0; call < 2; ++call) {  // the second one finds what the first one left
          const GenerateResult result = generator.generate(prompt, options);
          REQUIRE(result.tokens.size() == plain.tokens.size());
          for (std::size_t i = 0; i < plain.tokens.size(); ++i) {
            CHECK(result.tokens[i].id == plain.tokens[i].id);
            CHECK(result.tokens[i].logprob == plain.tokens[i].logprob);
          }
          drafted += result.draft_tokens;
        }
      }
    }
  }
  CHECK(drafted > 0);
}

}  // namespace
}  // namespace ballast::engine::draft_heads
