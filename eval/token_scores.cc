#include "eval/token_scores.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/logits.h"

namespace ballast::eval {
namespace {

// Number of segments of a stream with separate perplexities.
constexpr std::size_t kStreamSegments = 50;

double mean(std::span<const TokenScore> scores, double TokenScore::* field) {
  double sum = 0;
  for (const TokenScore& score : scores) sum += score.*field;
  return sum / static_cast<double>(scores.size());
}

// Returns the standard error of exp(mean) from the values' variance, by the delta method.
double perplexity_error(std::span<const TokenScore> scores) {
  if (scores.size() < 2) return 0;
  const double center = mean(scores, &TokenScore::nll);
  double squares = 0;
  for (const TokenScore& score : scores) squares += (score.nll - center) * (score.nll - center);
  const auto count = static_cast<double>(scores.size());
  return std::exp(center) * std::sqrt(squares / (count - 1) / count);
}

double divergence_quantile(std::span<const TokenScore> scores, double fraction) {
  std::vector<double> values;
  values.reserve(scores.size());
  for (const TokenScore& score : scores) values.push_back(score.kl);
  const auto at = static_cast<std::ptrdiff_t>(fraction * static_cast<double>(values.size() - 1));
  std::ranges::nth_element(values, values.begin() + at);
  return values[static_cast<std::size_t>(at)];
}

}  // namespace

bool score_rows(std::span<const int> targets, const float* logits, const float* reference, std::size_t vocab_size,
                TokenScore* dst) {
  bool finite = true;
#pragma omp parallel for reduction(&& : finite)
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const auto target = static_cast<std::size_t>(targets[i]);
    const float* row = logits + i * vocab_size;
    const double normalizer = kernels::log_sum_exp(row, vocab_size);
    TokenScore score;
    score.nll = normalizer - double{row[target]};
    if (reference != nullptr) {
      const float* expected = reference + i * vocab_size;
      const double reference_normalizer = kernels::log_sum_exp(expected, vocab_size);
      const std::size_t top = kernels::argmax(row, vocab_size);
      const std::size_t reference_top = kernels::argmax(expected, vocab_size);
      score.reference_nll = reference_normalizer - double{expected[target]};
      score.kl = kernels::kl_divergence(expected, row, vocab_size);
      score.top = static_cast<int>(top);
      score.reference_top = static_cast<int>(reference_top);
      score.top_log_probability = double{row[top]} - normalizer;
      score.reference_top_log_probability = double{expected[reference_top]} - reference_normalizer;
    }
    dst[i] = score;
    finite = finite && std::isfinite(score.nll) && std::isfinite(score.reference_nll) && std::isfinite(score.kl);
  }
  return finite;
}

double perplexity(std::span<const TokenScore> scores) {
  return std::exp(mean(scores, &TokenScore::nll));
}

double reference_perplexity(std::span<const TokenScore> scores) {
  return std::exp(mean(scores, &TokenScore::reference_nll));
}

double mean_divergence(std::span<const TokenScore> scores) {
  return mean(scores, &TokenScore::kl);
}

void summarize(std::span<const TokenScore> scores, bool has_reference, Evaluation& evaluation) {
  evaluation.tokens = scores.size();
  evaluation.ppl = perplexity(scores);
  evaluation.ppl_stderr = perplexity_error(scores);
  if (!has_reference) return;
  evaluation.reference_ppl = reference_perplexity(scores);
  evaluation.kl_mean = mean_divergence(scores);
  evaluation.kl_p99 = divergence_quantile(scores, 0.99);
  const auto same =
      std::ranges::count_if(scores, [](const TokenScore& score) { return score.top == score.reference_top; });
  evaluation.top1_agreement = static_cast<double>(same) / static_cast<double>(scores.size());
}

std::vector<StreamSegment> stream_segments(std::span<const TokenScore> scores, bool has_reference) {
  const std::size_t size = (scores.size() + kStreamSegments - 1) / kStreamSegments;
  std::vector<StreamSegment> list;
  for (std::size_t first = 0; first < scores.size(); first += size) {
    const std::span<const TokenScore> part = scores.subspan(first, std::min(size, scores.size() - first));
    StreamSegment segment{.first = first + 1, .tokens = part.size(), .ppl = perplexity(part), .kl_mean = {}};
    if (has_reference) segment.kl_mean = mean_divergence(part);
    list.push_back(segment);
  }
  return list;
}

}  // namespace ballast::eval
