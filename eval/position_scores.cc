#include "eval/position_scores.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ballast::eval {
namespace {

constexpr std::size_t kMostRanges = 16;

// Tokens shown before a prediction.
constexpr std::size_t kContextTokens = 8;

}  // namespace

std::vector<PositionRange> position_ranges(const TextChunks& chunks, std::span<const TokenScore> scores,
                                           bool has_reference) {
  std::vector<PositionRange> ranges;
  for (std::size_t first = 0; first < chunks.end(); first = ranges.back().last + 1) {
    const bool last = ranges.size() + 1 == kMostRanges;
    PositionRange range;
    range.first = first;
    range.last = last ? chunks.end() - 1 : std::min(chunks.end(), std::max<std::size_t>(1, first * 2)) - 1;
    std::vector<TokenScore> part;
    for (std::size_t chunk = 0; chunk < chunks.count(); ++chunk) {
      const auto begin = scores.begin() + static_cast<std::ptrdiff_t>(chunk * chunks.positions());
      part.insert(part.end(), begin + static_cast<std::ptrdiff_t>(range.first),
                  begin + static_cast<std::ptrdiff_t>(range.last + 1));
    }
    range.tokens = part.size();
    range.ppl = perplexity(part);
    if (has_reference) {
      range.reference_ppl = reference_perplexity(part);
      range.kl_mean = mean_divergence(part);
    }
    ranges.push_back(range);
  }
  return ranges;
}

std::vector<DivergentToken> most_divergent(const TextChunks& chunks, std::span<const TokenScore> scores,
                                           std::size_t count, const text::Tokenizer& tokenizer) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  count = std::min(count, order.size());
  const auto worse = [&](std::size_t a, std::size_t b) {
    return scores[a].kl != scores[b].kl ? scores[a].kl > scores[b].kl : a < b;
  };
  std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(count), worse);
  order.resize(count);

  std::vector<DivergentToken> list;
  for (const std::size_t i : order) {
    const TokenScore& score = scores[i];
    const auto prediction = [&](int id, double log_probability) {
      return Prediction{.id = id, .text = tokenizer.token_bytes(id), .probability = std::exp(log_probability)};
    };
    DivergentToken token;
    token.chunk = i / chunks.positions();
    token.position = chunks.first + i % chunks.positions();
    const std::span<const int> ids = chunks.chunk(token.chunk);
    const std::size_t end = token.position + 1;
    for (const int id : ids.first(end).last(std::min(end, kContextTokens))) token.context += tokenizer.token_bytes(id);
    token.next = prediction(ids[end], -score.nll);
    token.reference_probability = std::exp(-score.reference_nll);
    token.top = prediction(score.top, score.top_log_probability);
    token.reference_top = prediction(score.reference_top, score.reference_top_log_probability);
    token.kl = score.kl;
    list.push_back(std::move(token));
  }
  return list;
}

}  // namespace ballast::eval
