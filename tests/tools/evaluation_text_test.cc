#include "tools/commands/evaluation_text.h"

#include <doctest/doctest.h>

#include <string>

#include "ballast/evaluate.h"

namespace ballast::tools {
namespace {

Evaluation with_divergence() {
  Evaluation evaluation;
  evaluation.chunks = 2;
  evaluation.tokens = 6;
  evaluation.ppl = 12.5;
  evaluation.kl_mean = 0.25;
  return evaluation;
}

TEST_CASE("positions are shown as ranges, with the reference if there is one") {
  Evaluation evaluation = with_divergence();
  evaluation.positions = {{.first = 0, .last = 0, .tokens = 2, .ppl = 40, .reference_ppl = 30, .kl_mean = 0.5},
                          {.first = 2, .last = 3, .tokens = 4, .ppl = 10, .reference_ppl = 9, .kl_mean = 0.125}};
  const std::string text = evaluation_sheet(evaluation);
  CHECK(text.contains("position  tokens  perplexity  reference's     KL\n"));
  CHECK(text.contains("       0       2       40.00        30.00    0.5\n"));
  CHECK(text.contains("     2–3       4       10.00         9.00  0.125\n"));

  evaluation.kl_mean.reset();
  for (PositionRange& range : evaluation.positions) range.reference_ppl = range.kl_mean = std::nullopt;
  CHECK(evaluation_sheet(evaluation).contains("position  tokens  perplexity\n       0       2       40.00\n"));
}

TEST_CASE("the worst predictions are one line each for tokens with any characters") {
  Evaluation evaluation = with_divergence();
  DivergentToken token;
  token.chunk = 1;
  token.position = 7;
  token.context = "\x81\xAC one line\nand another that does not fit, 東京";  // begins within a character
  token.next = {.id = 1, .text = " \xE6", .probability = 0.125};
  token.reference_probability = 0.5;
  token.top = {.id = 2, .text = "\n\n", .probability = 0.25};
  token.reference_top = {.id = 3, .text = "", .probability = 1};
  token.kl = 1.5;
  evaluation.worst = {token};
  const std::string text = evaluation_sheet(evaluation);
  const std::string row = text.substr(text.find("\n1.5 ") + 1);
  CHECK(row.contains("…her that does not fit, 東京  ␣\\xe6 50.0 % → 12.5 %"));
  CHECK(row.contains("(empty) 100.0 %"));
  CHECK(row.ends_with("\\n\\n 25.0 %\n"));
  CHECK(row.find('\n') == row.size() - 1);
}

TEST_CASE("a choice test without a reference shows none") {
  ChoiceEvaluation evaluation;
  evaluation.questions = 4;
  evaluation.model = {.acc = 0.75, .acc_stderr = 0.25, .acc_norm = 0.5, .acc_norm_stderr = 0.2887, .answers = {}};
  const std::string text = choice_sheet(evaluation);
  CHECK(text.starts_with("right answers  75.00 % ± 25.00\nby characters  50.00 % ± 28.87\nquestions      4\n"));
}

}  // namespace
}  // namespace ballast::tools
