#include "engine/draft_counts.h"

#include <algorithm>
#include <functional>

namespace ballast::engine {

void DraftChooser::choose(std::span<DraftOffer> offers, std::size_t rows, const StepTimes& times) {
  constexpr double kLeastGain = 0.1;  // of a draft token for each text; smaller gains are within the error of estimates
  tokens_.clear();
  for (std::size_t i = 0; i < offers.size(); ++i) {
    offers[i].count = 0;
    double reached = 1;
    for (const double acceptance : offers[i].acceptance) tokens_.push_back({reached *= acceptance, i});
  }
  // The likeliest first. No token is likelier than those before it in its draft, so the first tokens of this list are
  // the beginning of each draft.
  std::ranges::sort(tokens_, std::greater(), &Token::reached);
  const double plain = times.seconds(rows);
  const auto texts = static_cast<double>(offers.size());
  std::size_t best = 0;
  double best_gain = 0;
  double expected = texts;  // tokens of the step
  double drafting = 0;
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    expected += tokens_[i].reached;
    drafting += offers[tokens_[i].offer].seconds;
    const double gain = expected / texts * plain / (times.seconds(rows + i + 1) + drafting) - 1;
    const double least = kLeastGain * std::min(1.0, static_cast<double>(i + 1) / texts);
    if (gain <= std::max(best_gain, least)) continue;
    best = i + 1;
    best_gain = gain;
  }
  for (std::size_t i = 0; i < best; ++i) ++offers[tokens_[i].offer].count;
}

}  // namespace ballast::engine
