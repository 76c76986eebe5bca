#include "model/mixer/distance_scores.h"

#include <algorithm>
#include <cstdint>

#include "kernels/parallel.h"

namespace ballast::model {

namespace {

constexpr std::size_t kOperationsOfAScore = 8;

/// Returns the rows after a projection, as one matrix for each head.
kernels::HeadMatrices project_rows(const AttentionSpec& spec, std::span<const float> rows, const Linear& linear) {
  const std::size_t count = spec.disentangled->rows();
  const std::size_t size = linear.rows();
  std::vector<float> projected(count * size);
  const LinearOutput output[] = {{&linear, projected.data(), size}};
  LinearScratch scratch;
  apply(output, LinearRows(rows.data(), rows.size() / count), StepRows::outside(count), scratch);
  const auto decode = [&](std::size_t row, float* dst) {
    const float* begin = projected.data() + row % count * size + row / count * spec.head_size;
    std::copy_n(begin, spec.head_size, dst);
  };
  return {{.heads = spec.heads, .inputs = spec.head_size, .outputs = count}, {}, decode};
}

/// Returns the table's row for each distance of query and key within `tokens` tokens, from -(tokens - 1) on.
std::vector<std::size_t> rows_by_distance(const DisentangledSpec& spec, std::size_t tokens) {
  const auto most = static_cast<std::int64_t>(tokens) - 1;
  std::vector<std::size_t> rows;
  for (std::int64_t distance = -most; distance <= most; ++distance) rows.push_back(spec.row(distance));
  return rows;
}

}  // namespace

DistanceScores::DistanceScores(const AttentionSpec& spec, std::span<const float> rows, const Linear& query,
                               const Linear& key)
    : spec_(spec) {
  if (spec.disentangled->keys_by_distance) keys_ = project_rows(spec, rows, key);
  if (spec.disentangled->queries_by_distance) queries_ = project_rows(spec, rows, query);
}

const float* DistanceScores::compute(const Rows& rows, std::span<const BatchSequence> batch,
                                     BlockActivations& activations) const {
  const std::size_t width = spec_.disentangled->rows();
  const std::size_t row_size = spec_.heads * width;
  std::size_t tokens = 0;
  std::size_t scores = 0;
  for (const BatchSequence& sequence : batch) {
    tokens += sequence.tokens;
    scores += spec_.heads * sequence.tokens * sequence.tokens;
  }
  BlockActivations::Buffer& of_queries = activations.query_distances;
  BlockActivations::Buffer& of_keys = activations.key_distances;
  const auto multiply = [&](const std::optional<kernels::HeadMatrices>& matrices, const float* src,
                            BlockActivations::Buffer& dst) {
    if (!matrices) return;
    dst.grow(tokens * row_size);
    matrices->multiply({src, rows.stride, spec_.head_size}, tokens, nullptr, {dst.data(), row_size, width});
  };
  multiply(keys_, rows.queries, of_queries);
  multiply(queries_, rows.keys, of_keys);
  activations.distance_scores.grow(scores);
  float* dst = activations.distance_scores.data();
  const auto scale = static_cast<float>(spec_.scale);
  std::size_t first = 0;
  for (const BatchSequence& sequence : batch) {
    const std::size_t count = sequence.tokens;
    const std::vector<std::size_t> by_distance = rows_by_distance(*spec_.disentangled, count);
    const auto fill = [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        const std::size_t head = i / count;
        const std::size_t query = i % count;
        float* row = dst + i * count;
        const float* met = keys_ ? of_queries.data() + (first + query) * row_size + head * width : nullptr;
        const float* meeting = queries_ ? of_keys.data() + first * row_size + head * width : nullptr;
        for (std::size_t key = 0; key < count; ++key) {
          const std::size_t place = by_distance[query + count - 1 - key];
          const float sum =
              (met != nullptr ? met[place] : 0.0F) + (meeting != nullptr ? meeting[key * row_size + place] : 0.0F);
          row[key] = scale * sum;
        }
      }
    };
    const std::size_t values = spec_.heads * count;
    kernels::parallel_ranges(values, kernels::threads_for(values * count * kOperationsOfAScore), fill);
    dst += values * count;
    first += count;
  }
  return activations.distance_scores.data();
}

}  // namespace ballast::model
