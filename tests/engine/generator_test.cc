#include "ballast/generate.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "error_message.h"
#include "temporary_directory.h"
#include "tiny_model.h"
#include "tiny_tokenizer.h"

namespace ballast {
namespace {

using test::Contains;
using test::error_message;
using Finish = GenerateResult::Finish;

constexpr int kEnd = 261;  // "<|end|>" of the tiny tokenizer

int token_of(char character) {
  return character - '!';
}

/// Continues "a" with "bcd...z", which ends the text.
class Alphabet {
 public:
  Alphabet() {
    std::vector<int> successors(262);
    std::iota(successors.begin(), successors.end(), 1);
    successors[static_cast<std::size_t>(token_of('z'))] = kEnd;
    successors[kEnd] = kEnd;
    model_ = test::successor_model(successors, 30);
    model_.tokenizer = test::tiny_tokenizer_json();
    model_.config["eos_token_id"] = {kEnd, 500};
    path_ = model_.write(directory_ / "alphabet");
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  test::TemporaryDirectory directory_;
  test::TinyModel model_;
  std::filesystem::path path_;
};

TEST_CASE("generation continues until a stop token") {
  const Alphabet alphabet;
  Generator generator{Model(alphabet.path())};
  const GenerateResult result = generator.generate("aw", {});
  CHECK(result.text == "xyz");
  CHECK(result.finish == Finish::kStop);
  CHECK(result.prompt_tokens == 2);
  CHECK(result.tokens.size() == 4);
}

TEST_CASE("generation ends after the tokens that were asked for") {
  const Alphabet alphabet;
  Generator generator{Model(alphabet.path())};
  const GenerateResult result = generator.generate("a", {.max_tokens = 5});
  CHECK(result.text == "bcdef");
  CHECK(result.finish == Finish::kLength);
  CHECK(generator.generate("a", {.max_tokens = 0}).text.empty());
}

TEST_CASE("a callback that ends the generation is not called again, even where text was held back") {
  const Alphabet alphabet;
  Generator generator{Model(alphabet.path())};
  int calls = 0;
  const auto refuse_e = [&](const GenerateStep& step) {
    ++calls;
    return step.token->id != token_of('e');
  };
  const GenerateResult result = generator.generate("a", {.stop = {"efg"}}, refuse_e);
  CHECK(calls == 4);
  CHECK(result.text == "bcde");
  CHECK(result.finish == Finish::kCancelled);
}

TEST_CASE("a longer turn reads only what is new, however few tokens the last one asked for") {
  const Alphabet alphabet;
  Generator generator{Model(alphabet.path())};
  CHECK(generator.generate("abc", {.max_tokens = 2}).cached_tokens == 0);
  CHECK(generator.generate("abcdef", {.max_tokens = 20}).cached_tokens == 4);
  CHECK(generator.generate("xyz", {}).cached_tokens == 0);
}

TEST_CASE("generation ends before a stop string, which is not shown") {
  const Alphabet alphabet;
  Generator generator{Model(alphabet.path())};
  GenerateOptions options;
  options.stop = {"efg"};
  std::string shown;
  const GenerateResult result = generator.generate("a", options, [&](const GenerateStep& step) {
    shown += step.text;
    return true;
  });
  CHECK(result.text == "bcd");
  CHECK(shown == "bcd");
  CHECK(result.finish == Finish::kStop);
}

TEST_CASE("a callback can end a generation") {
  const Alphabet alphabet;
  Generator generator{Model(alphabet.path())};
  const GenerateResult result = generator.generate("a", {}, [](const GenerateStep& step) { return step.text != "d"; });
  CHECK(result.text == "bcd");
  CHECK(result.finish == Finish::kCancelled);
}

TEST_CASE("a prompt's continuation does not depend on earlier uses of the generator") {
  const test::TemporaryDirectory directory;
  test::TinyModel model = test::random_model();
  model.tokenizer = test::tiny_tokenizer_json();
  const auto path = model.write(directory / "model");
  const GenerateOptions options = {.max_tokens = 12};
  Generator fresh{Model(path)};
  const std::string expected = fresh.generate("hello there", options).text;
  Generator used{Model(path)};
  used.generate("hello therapy", options);
  used.generate("x", {.max_tokens = 40});
  CHECK(used.generate("hello there", options).text == expected);
  CHECK(used.generate("hello there", options).text == expected);
}

TEST_CASE("the type of the cache can change between calls of a generator") {
  // A model that attends: with a short window it goes on differently.
  const test::TemporaryDirectory directory;
  test::TinyModel model = test::random_model({.weights = 0.6F});
  model.tokenizer = test::tiny_tokenizer_json();
  const auto path = model.write(directory / "model");
  const std::string prompt = "abcdefghijklmnopqrst";
  GenerateOptions all;
  all.max_tokens = 12;
  GenerateOptions few = all;
  few.cache.window = 2;
  const std::string with_all = Generator(Model(path)).generate(prompt, all).text;
  const std::string with_few = Generator(Model(path)).generate(prompt, few).text;
  REQUIRE(with_all != with_few);
  Generator generator{Model(path)};
  CHECK(generator.generate(prompt, few).text == with_few);
  CHECK(generator.generate(prompt, all).text == with_all);
  CHECK(generator.generate(prompt, few).text == with_few);
}

TEST_CASE("a seed gives the same text every time") {
  const test::TemporaryDirectory directory;
  test::TinyModel model = test::random_model();
  model.tokenizer = test::tiny_tokenizer_json();
  const auto path = model.write(directory / "model");
  const auto text = [&](std::uint64_t seed) {
    Generator generator{Model(path)};
    return generator.generate("hello", {.max_tokens = 20, .temperature = 1, .seed = seed}).text;
  };
  CHECK(text(3) == text(3));
  CHECK(text(3) != text(4));
}

TEST_CASE("a generation ends at the model's context") {
  const test::TemporaryDirectory directory;
  test::TinyModel model = test::random_model({.context = 10});
  model.tokenizer = test::tiny_tokenizer_json();
  Generator generator{Model(model.write(directory / "model"))};
  CHECK(generator.generate("hello", {.max_tokens = 1000}).tokens.size() == 9);
  CHECK(error_message([&] { generator.generate("abcdefghij", {}); }) ==
        "prompt: 10 tokens leave no room in the model's context of 10");
}

TEST_CASE("an empty prompt and a model without tokenizer are refused") {
  const Alphabet alphabet;
  Generator generator{Model(alphabet.path())};
  CHECK(error_message([&] { generator.generate("", {}); }) == "prompt: is empty");
  CHECK(error_message([] { Generator(Model(test::golden_model("llama"))).generate("a", {}); }) ==
        Contains("has no tokenizer.json"));
}

TEST_CASE("the makers' sampling values are options' defaults, where they are said and wanted") {
  const test::TemporaryDirectory directory;
  test::TinyModel model = test::random_model();
  model.tokenizer = test::tiny_tokenizer_json();
  const auto path = model.write(directory / "m");
  CHECK(Model(path).generation_defaults().empty());
  test::write_file(path / "generation_config.json",
                   R"({"do_sample": true, "temperature": 0.6, "top_k": 20, "top_p": 0.9, "max_new_tokens": 9})");
  CHECK(Model(path).generation_defaults() == GenerationDefaults{.temperature = 0.6, .top_k = 20, .top_p = 0.9});
  CHECK(Model(path, {.generation_config = false}).generation_defaults().empty());
  GenerateOptions options = {.min_p = 0.25};
  set_defaults(Model(path).generation_defaults(), options);
  CHECK(options.temperature == 0.6);
  CHECK(options.top_k == 20);
  CHECK(options.min_p == 0.25);
  CHECK(generation_defaults_text(Model(path).generation_defaults()) == "temperature 0.6, top_k 20, top_p 0.9");
  const auto defaults_of = [&](const char* config) {
    test::write_file(path / "generation_config.json", config);
    return Model(path).generation_defaults();
  };
  CHECK(defaults_of(R"({"do_sample": false, "temperature": 0.6, "repetition_penalty": 1.1})") ==
        GenerationDefaults{.temperature = 0, .repetition_penalty = 1.1});
  CHECK(defaults_of(R"({"do_sample": true, "min_p": 0.1})") == GenerationDefaults{.temperature = 1, .min_p = 0.1});
  CHECK(defaults_of(R"({"temperature": null, "eos_token_id": 5})").empty());
  CHECK(error_message([&] { defaults_of(R"({"top_p": 1.5})"); }) ==
        Contains("generation_config.json: top_p: is 1.5, must be from"));
  CHECK(error_message([&] { defaults_of("{"); }) == Contains("fix the file or remove it"));
}

TEST_CASE("an encoder throws an error when asked to generate") {
  const test::TemporaryDirectory directory;
  test::TinyModel model = test::read_model(test::golden_model("bert"));
  // As many words as the tokenizer has bytes; the tables' rows beyond those that there were are zeros.
  model.config["vocab_size"] = 262;
  for (const char* name : {"bert.embeddings.word_embeddings.weight", "cls.predictions.bias"}) {
    Tensor& tensor = model.at(name);
    tensor.values.resize(tensor.values.size() / 67 * 262);
    tensor.shape[0] = 262;
  }
  model.tokenizer = test::tiny_tokenizer_json();
  Generator generator{Model(model.write(directory / "bert"))};
  CHECK(error_message([&] { generator.generate("hello", {}); }) ==
        Contains("bert: is an encoder: it does not continue text"));
}

TEST_CASE("answers after one context have the log-probabilities that they have in a text of their own") {
  const test::TemporaryDirectory directory;
  const Model model(test::random_model().write(directory / "model"));
  Generator generator(model);
  const std::vector<int> context = {1, 5, 2};
  for (const std::vector<int>& answer : std::vector<std::vector<int>>{{7, 3}, {7, 4, 1}, {0}, {7, 3}}) {
    std::vector<int> ids = context;
    ids.insert(ids.end(), answer.begin(), answer.end());
    const std::vector<double> alone = model.log_probabilities(ids);
    const std::vector<GeneratedToken> scores = generator.score(ids, context.size(), 1);
    REQUIRE(scores.size() == answer.size());
    for (std::size_t i = 0; i < answer.size(); ++i) {
      CHECK(scores[i].id == answer[i]);
      CHECK(scores[i].logprob == alone[context.size() - 1 + i]);
      REQUIRE(scores[i].top.size() == 1);
      CHECK(scores[i].top[0].logprob >= scores[i].logprob);
    }
  }
}

TEST_CASE("ids that cannot be scored are refused") {
  const test::TemporaryDirectory directory;
  const Model model(test::random_model().write(directory / "model"));
  Generator generator(model);
  const auto size = static_cast<int>(model.spec().vocab_size);
  CHECK(error_message([&] { generator.score(std::vector<int>{1, 2}, 0); }) == Contains("must include one before"));
  CHECK(error_message([&] { generator.score(std::vector<int>{1, 2}, 2); }) == Contains("must include one before"));
  CHECK(error_message([&] { generator.score(std::vector<int>{1, size}, 1); }) == Contains("vocabulary"));
  CHECK(error_message([&] { generator.score(std::vector<int>{1, -1}, 1); }) == Contains("vocabulary"));
  CHECK(error_message([&] { generator.score(std::vector<int>{size, 1}, 1); }) == Contains("vocabulary"));
  std::vector<int> many(model.context_length() + 1, 0);
  CHECK(generator.score(many, 1).size() == model.context_length());  // the last one does not run
  many.push_back(0);
  CHECK(error_message([&] { generator.score(many, 1); }) == Contains("do not fit"));
}

TEST_CASE("a chat's prompt grows with its turns") {
  const Alphabet alphabet;
  // A template of the ChatML family, written out as characters that the tiny tokenizer has.
  test::write_file(alphabet.path() / "tokenizer_config.json",
                   R"({"eos_token": "<|end|>", "chat_template": "{% for message in messages %}{{'<|im_start|>' + )"
                   R"(message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if )"
                   R"(add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"})");
  Generator generator{Model(alphabet.path())};
  // The model continues the newline after "assistant"; what matters here is the prompt's growth.
  GenerateOptions options;
  options.max_tokens = 1;
  std::vector<ChatMessage> messages = {{"user", "a"}};
  const GenerateResult first = generator.chat(messages, options);
  messages.insert(messages.end(), {{"assistant", first.text}, {"user", "b"}});
  CHECK(error_message([&] { generator.chat(messages, options); }) ==
        Contains("leave no room in the model's context of 64"));
  const GenerateResult again = Generator(Model(alphabet.path())).chat(std::span(messages).first(1), options);
  CHECK(again.prompt_tokens == first.prompt_tokens);
  CHECK(again.text == first.text);
}

}  // namespace
}  // namespace ballast
