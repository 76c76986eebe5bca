#include "quant/search/logit_rows.h"

#include <algorithm>
#include <cmath>

#include "kernels/logits.h"
#include "quant/block/runnable_block.h"

namespace ballast::quant {

namespace {

// Positions whose logits are compared together.
constexpr std::size_t kPositions = 64;

model::BlockParts joint_parts(const WorkingBlock& front, const WorkingBlock& back, const ModelSpec& spec) {
  const auto has = [](const auto& list, const auto& key, auto field) {
    return std::ranges::find(list, key, field) != list.end();
  };
  const model::BlockParts before = runnable_parts(front, spec, run_with_int16);
  const model::BlockParts after = runnable_parts(back, spec, run_with_int16);
  return {.linear =
              [&front, has, before, after](model::Part part) {
                return has(front.linears, part, &WorkingLinear::part) ? before.linear(part) : after.linear(part);
              },
          .norm =
              [&front, has, before, after](model::Role role) {
                return has(front.norms, role, &WorkingNorm::role) ? before.norm(role) : after.norm(role);
              },
          .vector = after.vector};
}

void add_divergences(std::span<const float> expected, std::span<const float> got, std::size_t vocab, double& sum) {
  std::vector<double> rows(expected.size() / vocab);
#pragma omp parallel for
  for (std::size_t r = 0; r < rows.size(); ++r) {
    rows[r] = kernels::kl_divergence(expected.data() + r * vocab, got.data() + r * vocab, vocab);
  }
  for (const double row : rows) sum += row;
}

}  // namespace

std::shared_ptr<const model::EmbeddingAndHead> outer_weights(const ModelSpec& spec, const WorkingBlock& front,
                                                             const WorkingBlock& back) {
  return std::make_shared<const model::EmbeddingAndHead>(spec, joint_parts(front, back, spec));
}

std::span<const float> LogitRows::compute(std::size_t first, std::size_t count, Scratch& scratch) const {
  scratch.prepared.resize(count * spec_->embedding_channels());
  scratch.logits.resize(count * spec_->vocab_size);
  outer_->preparation().prepare(hidden_.data() + first * spec_->hidden_size, count, scratch.prepared.data(),
                                scratch.activations);
  outer_->head(scratch.prepared.data(), model::StepRows::outside(count), scratch.logits.data(), scratch.activations);
  return scratch.logits;
}

void TokenWeights::add(std::span<const float> logits) {
  const std::size_t vocab = sums_.size();
  const std::size_t count = logits.size() / vocab;
  std::vector<float> largest(count);
  std::vector<double> totals(count);
#pragma omp parallel for
  for (std::size_t i = 0; i < count; ++i) {
    const std::span<const float> row = logits.subspan(i * vocab, vocab);
    largest[i] = *std::ranges::max_element(row);
    for (const float logit : row) totals[i] += double{std::exp(logit - largest[i])};
  }
  constexpr std::size_t kTokens = 4096;  // at once: their sums stay in the cache
#pragma omp parallel for
  for (std::size_t begin = 0; begin < vocab; begin += kTokens) {
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t token = begin; token < std::min(vocab, begin + kTokens); ++token) {
        const double p = double{std::exp(logits[i * vocab + token] - largest[i])} / totals[i];
        sums_[token] += p * (1 - p);
      }
    }
  }
}

std::vector<double> TokenWeights::finish() const {
  constexpr double kEqualPart = 0.2;
  double sum = 0;
  for (const double value : sums_) sum += value;
  std::vector<double> weights(sums_.size(), 1.0);
  if (!(sum > 0)) return weights;
  const double factor = (1 - kEqualPart) * static_cast<double>(sums_.size()) / sum;
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = kEqualPart + factor * sums_[i];
  return weights;
}

std::vector<double> mean_divergences(const ModelSpec& spec, const LogitRows& base, std::span<const LogitRows> changed,
                                     const samples::SampleTokens& tokens, std::size_t samples, TokenWeights& weights) {
  std::vector<double> divergences(changed.size());
  LogitRows::Scratch base_scratch;
  LogitRows::Scratch scratch;
  std::size_t scored = 0;
  for (std::size_t sample = 0; sample < samples; ++sample) {
    for (std::size_t position = tokens.first_compared(); position < tokens.length; position += kPositions) {
      const std::size_t count = std::min(kPositions, tokens.length - position);
      const std::size_t first = sample * tokens.length + position;
      const std::span<const float> expected = base.compute(first, count, base_scratch);
      weights.add(expected);
      for (std::size_t i = 0; i < changed.size(); ++i) {
        add_divergences(expected, changed[i].compute(first, count, scratch), spec.vocab_size, divergences[i]);
      }
      scored += count;
    }
  }
  for (double& divergence : divergences) divergence /= static_cast<double>(scored);
  return divergences;
}

}  // namespace ballast::quant
