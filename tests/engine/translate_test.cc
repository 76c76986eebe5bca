#include "ballast/translate.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ballast/generate.h"
#include "ballast/model.h"
#include "error_message.h"
#include "files/checkpoint.h"
#include "files/safetensors/safetensors_file.h"
#include "model_runs.h"
#include "temporary_directory.h"
#include "tiny_model.h"
#include "tiny_tokenizer.h"

namespace ballast {
namespace {

using test::Contains;
using test::error_message;
using test::golden_translator;
using test::TemporaryDirectory;
using Ids = std::vector<int>;

/// Returns the rows of a tensor of whole numbers without the numbers below `least`.
std::vector<Ids> rows_of(const files::SafetensorsFile& file, const std::string& name, int least = 0) {
  const TensorView& view = file.tensor(name);
  const auto size = static_cast<std::size_t>(view.shape.back());
  std::vector<std::int64_t> values(view.bytes.size() / sizeof(std::int64_t));
  std::memcpy(values.data(), view.bytes.data(), view.bytes.size());
  std::vector<Ids> rows(values.size() / size);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] >= least) rows[i / size].push_back(static_cast<int>(values[i]));
  }
  return rows;
}

/// The texts that transformers' generate() writes with a golden model.
struct Written {
  explicit Written(const std::string& name) {
    const files::SafetensorsFile file(golden_translator(name) / "expected.safetensors");
    sources = rows_of(file, "input_ids");
    const std::vector<Ids> mask = rows_of(file, "attention_mask", 1);
    for (std::size_t i = 0; i < sources.size(); ++i) sources[i].resize(mask[i].size());
    greedy = rows_of(file, "greedy");
    beams = rows_of(file, "beams");
    scores.resize(beams.size());
    std::memcpy(scores.data(), file.tensor("scores").bytes.data(), scores.size() * sizeof(float));
  }

  std::vector<Ids> sources, greedy, beams;
  std::vector<float> scores;
};

/// Returns the model's own settings for texts of at most 12 tokens without padding.
TranslateOptions greedy_options(const Model& model) {
  TranslateOptions options = model.translate_defaults();
  options.max_tokens = 12;
  options.forbidden_sequences = {{files::open_checkpoint(model.path())->config().at("pad_token_id").get<int>()}};
  options.cache_type = CacheOptions::Type::kF32;
  return options;
}

/// Returns the settings of `beams`: SEARCH of scripts/make_golden_models.py.
TranslateOptions search_options(const Model& model) {
  TranslateOptions options = greedy_options(model);
  options.beams = 3;
  options.length_penalty = 0.7;
  options.no_repeat_ngram = 2;
  options.repetition_penalty = 1.2;
  options.min_tokens = 3;
  options.hypotheses = 3;
  options.first_tokens = {5};
  return options;
}

TEST_CASE("texts are those that transformers writes, greedily and with beams") {
  for (const std::string& name : test::translator_names()) {
    CAPTURE(name);
    const Written expected(name);
    const Model model(golden_translator(name));
    const auto greedy = model.translate(expected.sources, greedy_options(model));
    const auto found = model.translate(expected.sources, search_options(model));
    REQUIRE(greedy.size() == expected.sources.size());
    for (std::size_t i = 0; i < greedy.size(); ++i) {
      CHECK(greedy[i].texts.front().tokens == expected.greedy[i]);
      CHECK(greedy[i].source_tokens == expected.sources[i].size());
      REQUIRE(found[i].texts.size() == 3);
      for (std::size_t beam = 0; beam < 3; ++beam) {
        CAPTURE(beam);
        CHECK(found[i].texts[beam].tokens == expected.beams[i * 3 + beam]);
        CHECK(found[i].texts[beam].score == doctest::Approx(double{expected.scores[i * 3 + beam]}).epsilon(1e-4));
      }
    }
  }
}

TEST_CASE("a text does not depend on the others, nor on how many run at once") {
  const Written expected("marian");
  const Model model(golden_translator("marian"));
  std::vector<Ids> sources;
  for (int i = 0; i < 9; ++i) {
    sources.push_back(expected.sources[static_cast<std::size_t>(i) % 2]);
    sources.back().front() = 3 + i;
  }
  TranslateOptions options = search_options(model);
  const auto many = model.translate(sources, options);
  options.texts_at_once = 2;
  const auto few = model.translate(sources, options);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const auto alone = model.translate(std::span(sources).subspan(i, 1), options);
    for (std::size_t beam = 0; beam < 3; ++beam) {
      CHECK(many[i].texts[beam].tokens == alone.front().texts[beam].tokens);
      CHECK(many[i].texts[beam].score == alone.front().texts[beam].score);
      CHECK(few[i].texts[beam].score == alone.front().texts[beam].score);
    }
  }
}

TEST_CASE("a generator writes from a source text what a greedy search does") {
  const Written expected("t5");
  const Model model(golden_translator("t5"));
  Generator generator(model);
  for (std::size_t i = 0; i < expected.sources.size(); ++i) {
    const GenerateResult result = generator.generate(expected.sources[i], {.max_tokens = 12});
    Ids tokens;
    for (const GeneratedToken& token : result.tokens) tokens.push_back(token.id);
    CHECK(tokens == expected.greedy[i]);
    CHECK(result.prompt_tokens == expected.sources[i].size());
  }
}

/// A golden model with a row of its embedding for each token of the tiny tokenizer.
std::filesystem::path with_words(const TemporaryDirectory& directory) {
  constexpr std::size_t kTinyRows = 262;
  test::TinyModel model = test::read_model(golden_translator("bart"));
  model.tokenizer = test::tiny_tokenizer_json();
  model.config["vocab_size"] = kTinyRows;
  for (const char* name : {"model.shared.weight", "final_logits_bias"}) {
    Tensor& words = model.at(name);
    const std::size_t known = words.values.size();
    const std::size_t row = known / 33;
    words.shape[name[0] == 'm' ? 0 : 1] = kTinyRows;
    words.values.resize(kTinyRows * row);
    for (std::size_t i = known; i < words.values.size(); ++i) words.values[i] = words.values[i - known];
  }
  model.write(directory / "words");
  return directory / "words";
}

TEST_CASE("texts are encoded, written and decoded") {
  const TemporaryDirectory directory;
  const Model model(with_words(directory));
  const std::vector<std::string> texts = {"a cat", "the longer one of the two"};
  const TranslateOptions options = {.beams = 2, .max_tokens = 6};
  const auto translated = model.translate(texts, options);
  REQUIRE(translated.size() == 2);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const Ids ids = model.encode(texts[i]);
    CHECK(translated[i].source_tokens == ids.size());
    const WrittenText& best = translated[i].texts.front();
    CHECK(best.text == model.decode(best.tokens));
    CHECK(best.tokens.size() <= 6);
  }
  Generator generator(model);
  CHECK(generator.generate(texts[0], {.max_tokens = 6}).text ==
        model.translate(std::span(texts).first(1), {.max_tokens = 6}).front().texts.front().text);
}

TEST_CASE("options that no search can have are refused") {
  const TemporaryDirectory directory;
  const Model model(golden_translator("bart"));
  const std::vector<Ids> sources = {{3, 4, 2}};
  const auto refusal = [&](const TranslateOptions& options, const std::vector<Ids>& from) {
    return error_message([&] { model.translate(from, options); });
  };
  CHECK(refusal({.beams = 0}, sources) == Contains("beams: must be from 1"));
  CHECK(refusal({.beams = 2, .hypotheses = 3}, sources) == Contains("hypotheses"));
  CHECK(refusal({.repetition_penalty = 0}, sources) == Contains("repetition_penalty"));
  CHECK(refusal({.texts_at_once = 0}, sources) == Contains("texts_at_once"));
  CHECK(refusal({.forbidden_sequences = std::vector<Ids>{Ids{}}}, sources) == Contains("forbidden_sequences"));
  CHECK(refusal({}, std::vector<Ids>{Ids{}}) == Contains("source text: is empty"));
  CHECK(refusal({}, std::vector<Ids>{Ids(40, 3)}) == Contains("the model's context has 32"));
  CHECK(refusal({.first_tokens = {33}}, sources) == Contains("first_tokens"));
  const Model words(with_words(directory));
  const std::vector<std::string> texts = {"a"};
  CHECK(error_message([&] { words.translate(texts, {.source_language = "en"}); }) == Contains("en"));
  const Model decoder(test::golden_model("llama"));
  CHECK(error_message([&] { decoder.translate(sources, {}); }) == Contains("has no encoder"));
  Generator generator(model);
  const std::vector<ChatMessage> messages = {{.role = "user", .content = "hello"}};
  CHECK(error_message([&] { generator.chat(messages, {}); }) == Contains("answers no conversation"));
  CHECK(error_message([&] { generator.score(Ids{3, 4}, 1); }) == Contains("source text"));
  CHECK(error_message([&] { model.logits(Ids{3, 4}); }) == Contains("source text"));
}

TEST_CASE("neither a draft model nor its target has an encoder") {
  const Model translator(golden_translator("t5"));
  const Model decoder(test::golden_model("llama"));
  CHECK(error_message([&] { Generator(decoder, translator); }) == Contains("of which none is drafted"));
  CHECK(error_message([&] { Generator(translator, decoder); }) == Contains("of which none is drafted"));
}

TEST_CASE("the start token of generation_config.json counts, and its forbidden words hold for generators, too") {
  constexpr int kTextEnd = 1;  // T5's
  const TemporaryDirectory directory;
  test::read_model(golden_translator("t5")).write(directory / "model");
  const auto tokens_with = [&](const nlohmann::json& fields) {
    std::ofstream(directory / "model" / "generation_config.json") << fields.dump();
    const Model model(directory / "model");
    Generator generator(model);
    Ids tokens;
    for (const GeneratedToken& token :
         generator.generate(Ids{4, 9, kTextEnd}, {.max_tokens = 4, .min_tokens = 4}).tokens) {
      tokens.push_back(token.id);
    }
    return std::pair(model.spec().encoder->start_token, tokens);
  };
  const auto [start, tokens] = tokens_with({{"decoder_start_token_id", 7}});
  CHECK(start == 7);
  const auto word = std::ranges::find_if(tokens, [](int token) { return token != kTextEnd; });
  REQUIRE(word != tokens.end());
  const nlohmann::json words = nlohmann::json::array({nlohmann::json::array({*word})});
  const auto [same_start, others] =
      tokens_with({{"decoder_start_token_id", 7}, {"bad_words_ids", words}, {"eos_token_id", kTextEnd}});
  CHECK(same_start == 7);
  CHECK(std::ranges::find(others, *word) == others.end());
}

TEST_CASE("a model's recommended options are read") {
  const TemporaryDirectory directory;
  const auto options_of = [&](const nlohmann::json& fields) {
    test::TinyModel model = test::read_model(golden_translator("bart"));
    model.write(directory / "model");
    std::ofstream(directory / "model" / "generation_config.json") << fields.dump();
    return Model(directory / "model").translate_defaults();
  };
  const TranslateOptions options = options_of({{"num_beams", 4},
                                               {"length_penalty", 2.0},
                                               {"early_stopping", true},
                                               {"no_repeat_ngram_size", 3},
                                               {"min_length", 10},
                                               {"max_length", 20},
                                               {"forced_bos_token_id", 5},
                                               {"forced_eos_token_id", 2},
                                               {"bad_words_ids", {{1}, {2}, {3, 4}}},
                                               {"eos_token_id", 2},
                                               {"renormalize_logits", true}});
  CHECK(options.beams == 4);
  CHECK(options.length_penalty == 2.0);
  CHECK(options.early_stop == TranslateOptions::EarlyStop::kYes);
  CHECK(options.no_repeat_ngram == 3);
  CHECK(options.min_tokens == 9);
  CHECK(options.max_tokens == 19);
  CHECK(options.first_tokens == Ids{5});
  CHECK(options.last_token == 2);
  CHECK(options.forbidden_sequences == std::vector<Ids>{{1}, {3, 4}});
  CHECK(options.renormalize);
  CHECK(options_of({{"early_stopping", "never"}}).early_stop == TranslateOptions::EarlyStop::kNever);
  CHECK(error_message([&] { options_of({{"forced_bos_token_id", 33}}); }) == Contains("33 is not in the vocabulary"));
  CHECK(error_message([&] { options_of({{"early_stopping", "soon"}}); }) == Contains("early_stopping"));
  CHECK(error_message([&] { options_of({{"num_beams", 0}}); }) == Contains("num_beams"));
  CHECK(error_message([&] { options_of({{"bad_words_ids", {nlohmann::json::array()}}}); }) ==
        Contains("bad_words_ids"));
}

}  // namespace
}  // namespace ballast
