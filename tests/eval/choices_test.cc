#include "ballast/choices.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "error_message.h"
#include "eval/questions.h"
#include "kernels/logits.h"
#include "model/model.h"
#include "model_runs.h"
#include "temporary_directory.h"
#include "tiny_model.h"
#include "tiny_tokenizer.h"

namespace ballast {
namespace {

using test::Contains;
using test::error_message;
using test::TemporaryDirectory;

/// A model and questions about it.
struct ChoiceCase {
  TemporaryDirectory directory;
  std::filesystem::path model;
  ChoiceOptions options;

  ChoiceCase(test::TinyModel tiny, const std::string& lines) {
    tiny.tokenizer = test::tiny_tokenizer_json();
    model = tiny.write(directory / "model");
    options.questions_file = test::write_file(directory / "questions.jsonl", lines);
  }
};

std::string line(const std::string& question, const std::vector<std::string>& choices, int answer) {
  return nlohmann::json{{"question", question}, {"choices", choices}, {"answer", answer}}.dump() + "\n";
}

/// Returns the log-likelihood of the last `scored` of `ids` in one run over all of them.
double direct_log_likelihood(const std::filesystem::path& path, const std::vector<int>& ids, std::size_t scored) {
  model::Model model(path);
  const std::size_t vocab_size = model.spec().vocab_size;
  const std::size_t count = ids.size() - 1;
  model::SequenceState state = model.make_exact_state(count);
  const std::vector<float> logits = test::run_tokens(model, std::span(ids).first(count), state);
  double sum = 0;
  for (std::size_t i = ids.size() - scored; i < ids.size(); ++i) {
    const float* row = logits.data() + (i - 1) * vocab_size;
    double total = 0;
    for (std::size_t v = 0; v < vocab_size; ++v) total += std::exp(double{row[v]});
    sum += double{row[ids[i]]} - std::log(total);
  }
  return sum;
}

TEST_CASE("log-likelihoods and shares equal values computed by hand") {
  ChoiceCase example(test::alphabet_model(4), line("abc", {"x", "d"}, 1) + "\n" + line("abc", {"dex", "d"}, 0) +
                                                  line("abc", {"defx", "x"}, 0) + line("mn", {"o", "\xC3\xA9"}, 1));
  example.options.delimiter = "";
  const ChoiceEvaluation result = evaluate_choices(example.model, example.options);
  CHECK(result.questions == 4);
  const double wrong = -std::log(std::exp(4.0) + 263);
  const double right = 4 + wrong;
  const std::vector<ChoiceAnswer>& answers = result.model.answers;
  CHECK(answers[0].log_likelihoods[0] == doctest::Approx(wrong).epsilon(1e-5));
  CHECK(answers[0].log_likelihoods[1] == doctest::Approx(right).epsilon(1e-5));
  CHECK(answers[1].log_likelihoods[0] == doctest::Approx(2 * right + wrong).epsilon(1e-5));
  CHECK(answers[2].log_likelihoods[0] == doctest::Approx(3 * right + wrong).epsilon(1e-5));
  // The choice is two bytes, one character: the second byte, and the text after it, is unlikely.
  CHECK(answers[3].log_likelihoods[1] == doctest::Approx(2 * wrong).epsilon(1e-5));
  CHECK(answers[0].pick == 1);
  CHECK(answers[1].pick == 1);
  CHECK(answers[2].pick == 1);       // as a sum, "x" is more likely,
  CHECK(answers[2].pick_norm == 0);  // but per character it is not
  CHECK(result.model.acc == 0.25);
  CHECK(result.model.acc_norm == 0.5);
  CHECK(result.model.acc_stderr == doctest::Approx(std::sqrt(0.25 * 0.75 / 3)));
  CHECK(result.model.acc_norm_stderr == doctest::Approx(std::sqrt(0.5 * 0.5 / 3)));
  CHECK(!result.reference.has_value());
}

/// Returns a hybrid of a delta net and attention, with as many tokens as the tiny tokenizer has: some texts have two
/// ids.
test::TinyModel hybrid_model() {
  constexpr std::int64_t kVocab = 264;
  test::TinyModel model = test::read_model(test::golden_model("qwen3_next"));
  for (const char* name : {"model.embed_tokens.weight", "lm_head.weight"}) {
    Tensor& table = model.at(name);
    const std::size_t size = table.values.size();
    for (std::size_t i = 0; table.values.size() < static_cast<std::size_t>(kVocab * table.shape[1]); ++i) {
      table.values.push_back(table.values[i % size]);
    }
    table.shape[0] = kVocab;
  }
  model.config["vocab_size"] = kVocab;
  return model;
}

TEST_CASE("choices that continue the cached question score as if each ran alone") {
  const std::vector<std::string> choices = {"hello there", "x", "to be or not to be", "hell"};
  const std::string question = "what do they say";
  for (const test::TinyModel& model : {test::random_model(), hybrid_model()}) {
    const ChoiceCase example(model, line(question, choices, 0) + line(question + " ", choices, 1));
    const ChoiceEvaluation result = evaluate_choices(example.model, example.options);
    const auto tokenizer = test::make_tiny_tokenizer();
    const std::size_t context = tokenizer->encode(question).size();
    for (std::size_t i = 0; i < choices.size(); ++i) {
      for (std::size_t spaces = 1; spaces <= 2; ++spaces) {
        const std::vector<int> ids = tokenizer->encode(question + std::string(spaces, ' ') + choices[i]);
        const double expected = direct_log_likelihood(example.model, ids, ids.size() - context);
        CHECK(result.model.answers[spaces - 1].log_likelihoods[i] == doctest::Approx(expected).epsilon(1e-5));
      }
    }
  }
}

TEST_CASE("a question that does not fit the model is cut at its beginning") {
  const ChoiceCase example(test::random_model(), line(std::string(100, 'a') + "bcdefg", {"xy", "uvwxyz"}, 0));
  const ChoiceEvaluation result = evaluate_choices(example.model, example.options);
  const auto tokenizer = test::make_tiny_tokenizer();
  for (const auto& [choice, i] : {std::pair(" xy", 0U), std::pair(" uvwxyz", 1U)}) {
    std::vector<int> ids = tokenizer->encode(std::string(100, 'a') + "bcdefg" + choice);
    ids.erase(ids.begin(), ids.end() - 65);  // the model reads 64 and predicts one more
    const double expected = direct_log_likelihood(example.model, ids, std::string(choice).size());
    CHECK(result.model.answers[0].log_likelihoods[i] == doctest::Approx(expected).epsilon(1e-5));
  }
}

TEST_CASE("the white space at a question's end is scored with the choice") {
  const auto tokenizer = test::make_tiny_tokenizer();
  const auto ids = eval::encode_continuation(*tokenizer, "ab \n ", "hello", "place");
  CHECK(ids.context == tokenizer->encode("ab"));
  std::vector<int> both = ids.context;
  both.insert(both.end(), ids.continuation.begin(), ids.continuation.end());
  CHECK(both == tokenizer->encode("ab \n hello"));
  CHECK(eval::encode_continuation(*tokenizer, "ab ", "hello", "place").continuation == std::vector<int>{260});
}

TEST_CASE("an empty question is the start token") {
  const auto end_only = test::make_tiny_tokenizer(test::tiny_tokenizer_json(), {{"eos_token", "<|end|>"}});
  const auto ids = eval::encode_continuation(*end_only, " ", "hello", "place");
  CHECK(ids.context == std::vector<int>{261});
  CHECK(ids.continuation == std::vector<int>{260});
  const auto with_bos =
      test::make_tiny_tokenizer(test::tiny_tokenizer_json(), {{"bos_token", "<|end|>"}, {"add_bos_token", true}});
  CHECK(eval::encode_continuation(*with_bos, "", "hello", "place").context == std::vector<int>{261});
  CHECK(eval::encode_continuation(*with_bos, "he", "y", "place").context == std::vector<int>{261, 256});
  const auto neither = test::make_tiny_tokenizer();
  CHECK(error_message([&] { eval::encode_continuation(*neither, "", "hello", "place"); }) ==
        "place: the question is empty, and the model has no token that begins a text");
}

TEST_CASE("a reference is evaluated too, and the agreement is reported") {
  ChoiceCase example(test::alphabet_model(4),
                     line("abc", {"x", "d"}, 1) + line("mn", {"o", "q"}, 1) + line("t", {"u", "v"}, 0));
  example.options.delimiter = "";
  ChoiceCase other(test::alphabet_model(-4), "");  // finds what follows the least likely
  example.options.reference = other.model;
  const ChoiceEvaluation result = evaluate_choices(example.model, example.options);
  CHECK(result.model.acc == doctest::Approx(2.0 / 3));
  CHECK(result.reference->acc == doctest::Approx(1.0 / 3));
  CHECK(*result.agreement == 0);
  const auto json = nlohmann::json::parse(choice_evaluation_json(result));
  CHECK(json["reference_acc"] == result.reference->acc);
  CHECK(json["agreement_norm"] == 0);
  CHECK(json["answers"][1]["pick"] == 0);
  CHECK(json["reference_answers"][1]["log_likelihoods"].size() == 2);

  example.options.reference = example.model;
  const ChoiceEvaluation same = evaluate_choices(example.model, example.options);
  CHECK(*same.agreement == 1);
  CHECK(same.reference->acc == same.model.acc);
}

TEST_CASE("questions that cannot be read are refused by file and line") {
  const TemporaryDirectory directory;
  const auto refusal = [&](const std::string& lines) {
    const auto file = test::write_file(directory / "q.jsonl", lines);
    return error_message([&] { eval::read_questions(file); });
  };
  const std::string good = line("a", {"b", "c"}, 0);
  CHECK(refusal(good + "{\"question\": \"a\",\n") == Contains("q.jsonl:2: byte "));
  CHECK(refusal(good + "\n[1]\n") == Contains("q.jsonl:3: must be an object, is [1]"));
  CHECK(refusal(R"({"choices": ["b", "c"], "answer": 0})") == Contains("q.jsonl:1: question: missing"));
  CHECK(refusal(R"({"question": 5, "choices": ["b", "c"], "answer": 0})") ==
        Contains("q.jsonl:1: question: must be a string, is"));
  CHECK(refusal(line("a", {"b"}, 0)) == Contains("q.jsonl:1: choices: must be at least two"));
  CHECK(refusal(line("a", {"b", ""}, 0)) == Contains("q.jsonl:1: choices[1]: is empty"));
  CHECK(refusal(good + line("a", {"b", "c"}, 2)) == Contains("q.jsonl:2: answer: is 2, but must be from 0 to 1"));
  CHECK(refusal(line("a", {"b", "c"}, -1)) == Contains("q.jsonl:1: answer: is -1, but must be from 0 to 1"));
  CHECK(refusal(R"({"question": "a", "choices": ["b", "c"], "answer": "B"})") ==
        Contains("q.jsonl:1: answer: must be a whole number, is"));
  CHECK(refusal(R"({"question": "a", "choices": ["b", "c"], "answer": 0, "answer": 1})") == Contains("q.jsonl:1: "));
  CHECK(refusal("{\"question\": \"\xff\", \"choices\": [\"b\", \"c\"], \"answer\": 0}") == Contains("q.jsonl:1: "));
  CHECK(refusal(" \n\n") == Contains("q.jsonl: holds no questions"));
}

TEST_CASE("choices and models that cannot be scored are refused") {
  ChoiceCase example(test::random_model(), line("a", {"b", "c"}, 0) + line("hel", {"p", "lo"}, 0));
  const auto refusal = [&] { return error_message([&] { evaluate_choices(example.model, example.options); }); };
  CHECK(refusal() == "no error");
  example.options.delimiter = "";
  // "hel" is two tokens, "hello" is one: no token is left to score, which lm-evaluation-harness counts as probability
  // 1.
  CHECK(refusal() == Contains("questions.jsonl:2: the choice \"lo\" adds no token to the question"));
  test::write_file(example.options.questions_file, line("a", {"b", std::string(70, 'x')}, 0));
  CHECK(refusal() == Contains("questions.jsonl:1: a choice of 70 tokens does not fit the model's 64"));
  example.options.cache.window = 8;
  CHECK(refusal() == "window: only rolls along a stream, not over questions");
  example.options.cache.window = 0;
  example.options.reference = test::golden_model("llama");
  CHECK(refusal() == Contains("llama: has another vocabulary"));
  CHECK(error_message([&] { evaluate_choices(test::golden_model("bert"), example.options); }) ==
        Contains("bert: is an encoder"));
}

}  // namespace
}  // namespace ballast
