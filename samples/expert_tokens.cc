#include "samples/expert_tokens.h"

#include <algorithm>
#include <functional>
#include <limits>

namespace ballast::samples {

namespace {

// The number of candidate tokens relative to the number of columns.
constexpr std::size_t kPool = 2;

constexpr float kNever = -std::numeric_limits<float>::infinity();

std::size_t divided_up(std::size_t count, std::size_t by) {
  return (count + by - 1) / by;
}

}  // namespace

ExpertTokens::ExpertTokens(const Shape& shape)
    : shape_(shape),
      kept_(std::min(shape.length, divided_up(kPool * shape.experts.size, shape.samples))),
      counts_(shape.experts.count),
      rows_(shape.own.size() * kept_ * shape.hidden_size),
      margins_(shape.own.size() * kept_ * shape.experts.count),
      marks_(shape.own.size() * kept_) {}

ExpertTokens::ExpertTokens(const ModelSpec& spec, std::size_t layer, std::size_t length, const SampleSharing& sharing)
    : ExpertTokens(Shape{.experts = *spec.layers[layer].mlp.experts,
                         .hidden_size = spec.hidden_size,
                         .samples = sharing.samples,
                         .length = length,
                         .own = sharing.own()}) {}

void ExpertTokens::add(const model::RoutedTokens& routing, std::size_t first, std::span<const float> marks) {
  const std::size_t experts = shape_.experts.count;
  std::vector<float> lowest(routing.tokens, std::numeric_limits<float>::infinity());
  for (std::size_t e = 0; e < experts; ++e) {
    counts_[e] += routing.of_expert[e].size();
    for (const std::size_t token : routing.of_expert[e]) {
      lowest[token] = std::min(lowest[token], routing.logits[token * experts + e]);
    }
  }
  for (std::size_t sample = 0; sample * shape_.length < routing.tokens; ++sample) {
    for (std::size_t i = 0; i < kept_; ++i) {
      const std::size_t token = sample * shape_.length + i * shape_.length / kept_;
      const std::size_t place = (first + sample - shape_.own.begin) * kept_ + i;
      const float* row = routing.rows + token * shape_.hidden_size;
      std::copy_n(row, shape_.hidden_size, rows_.begin() + static_cast<std::ptrdiff_t>(place * shape_.hidden_size));
      marks_[place] = marks[token];
      for (std::size_t e = 0; e < experts; ++e) {
        margins_[place * experts + e] = routing.logits[token * experts + e] - lowest[token];
      }
    }
  }
  // A correction may choose an expert whose logit is not among the highest, so experts that have the token are
  // excluded.
  for (std::size_t e = 0; e < experts; ++e) {
    for (const std::size_t token : routing.of_expert[e]) {
      const std::size_t sample = token / shape_.length;
      const std::size_t i = divided_up(token % shape_.length * kept_, shape_.length);
      if (i >= kept_ || i * shape_.length / kept_ != token % shape_.length) continue;
      margins_[((first + sample - shape_.own.begin) * kept_ + i) * experts + e] = kNever;
    }
  }
}

void ExpertTokens::finish(Ranks& ranks) {
  ranks.sum(std::span(counts_));
}

std::vector<std::size_t> ExpertTokens::chosen(std::size_t expert, std::size_t sample) const {
  if (!is_starved(expert)) return {};
  const std::size_t missing = shape_.experts.size - counts_[expert];
  const std::size_t first = (sample - shape_.own.begin) * kept_;
  const auto margin = [&](std::size_t place) { return margins_[place * shape_.experts.count + expert]; };
  std::vector<std::size_t> places;
  for (std::size_t place = first; place < first + kept_; ++place) {
    if (margin(place) != kNever) places.push_back(place);
  }
  std::ranges::stable_sort(places, std::greater<float>{}, margin);
  places.resize(std::min(places.size(), divided_up(missing, shape_.samples)));
  return places;
}

void ExpertTokens::visit(std::size_t expert, std::size_t sample, const Visit& visit) const {
  const std::vector<std::size_t> places = chosen(expert, sample);
  if (places.empty()) return;
  std::vector<float> rows;
  std::vector<float> marks;
  for (const std::size_t place : places) {
    const auto row = rows_.begin() + static_cast<std::ptrdiff_t>(place * shape_.hidden_size);
    rows.insert(rows.end(), row, row + static_cast<std::ptrdiff_t>(shape_.hidden_size));
    marks.push_back(marks_[place]);
  }
  visit(rows.data(), places.size(), marks);
}

void run_stand_ins(const ExpertTokens& tokens, std::size_t expert, const model::LoneExpert& weights,
                   const SampleSharing& sharing, model::BlockActivations& scratch, const StandInVisitor& visitor) {
  for_each_shard(sharing, [&](std::size_t shard, jobs::IndexRange samples) {
    for (std::size_t s = samples.begin; s < samples.end; ++s) {
      tokens.visit(expert, s, [&](const float* rows, std::size_t count, std::span<const float> marks) {
        visitor.add(weights.down_rows(rows, count, scratch), count, marks);
      });
    }
    visitor.end_shard(shard);
  });
}

}  // namespace ballast::samples
