#include "eval/vector_agreement.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace ballast::eval {

namespace {

constexpr std::size_t kNearest = 10;
constexpr double kLowestShare = 0.01;

/// Returns the vectors scaled to length 1, so that a cosine is a dot product.
std::vector<double> directions(std::span<const float> vectors, std::size_t size) {
  std::vector<double> directions(vectors.begin(), vectors.end());
  for (std::size_t begin = 0; begin < directions.size(); begin += size) {
    const std::span<double> vector = std::span(directions).subspan(begin, size);
    const double length = std::sqrt(std::transform_reduce(vector.begin(), vector.end(), vector.begin(), 0.0));
    for (double& value : vector) value /= length;
  }
  return directions;
}

double product(std::span<const double> a, std::span<const double> b) {
  return std::transform_reduce(a.begin(), a.end(), b.begin(), 0.0);
}

std::vector<double> ranks(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return values[i]; });
  std::vector<double> ranks(values.size());
  for (std::size_t first = 0; first < order.size();) {
    std::size_t end = first + 1;
    while (end < order.size() && values[order[end]] == values[order[first]]) ++end;
    for (std::size_t i = first; i < end; ++i) ranks[order[i]] = static_cast<double>(first + end - 1) / 2;
    first = end;
  }
  return ranks;
}

/// Returns the indices of the `count` largest values in descending order.
std::vector<std::size_t> largest(std::span<const double> values, std::size_t count) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto end = order.begin() + static_cast<std::ptrdiff_t>(count);
  std::ranges::partial_sort(
      order, end, [&](std::size_t a, std::size_t b) { return values[a] != values[b] ? values[a] > values[b] : a < b; });
  order.erase(end, order.end());
  return order;
}

struct TextAgreement {
  double correlation = 0;
  bool same_nearest = false;
  double same_top = 0;
};

/// Compares the similarities of one text to all others in both models.
TextAgreement agreement(std::span<const double> similarities, std::span<const double> expected) {
  const std::size_t count = std::min(kNearest, similarities.size());
  const std::vector<std::size_t> nearest = largest(similarities, count);
  const std::vector<std::size_t> expected_nearest = largest(expected, count);
  const auto same = std::ranges::count_if(
      nearest, [&](std::size_t i) { return std::ranges::find(expected_nearest, i) != expected_nearest.end(); });
  return {.correlation = rank_correlation(similarities, expected),
          .same_nearest = nearest.front() == expected_nearest.front(),
          .same_top = static_cast<double>(same) / static_cast<double>(count)};
}

void compare_ranks(std::span<const double> vectors, std::span<const double> expected, std::size_t size,
                   VectorComparison& result) {
  const std::size_t texts = result.ranked_texts;
  std::vector<TextAgreement> agreements(texts);
#pragma omp parallel for schedule(dynamic)
  for (std::size_t i = 0; i < texts; ++i) {
    std::vector<double> similarities;
    std::vector<double> expected_similarities;
    for (std::size_t j = 0; j < texts; ++j) {
      if (j == i) continue;
      similarities.push_back(product(vectors.subspan(i * size, size), vectors.subspan(j * size, size)));
      expected_similarities.push_back(product(expected.subspan(i * size, size), expected.subspan(j * size, size)));
    }
    agreements[i] = agreement(similarities, expected_similarities);
  }
  for (const TextAgreement& of_text : agreements) {
    result.rank_correlation += of_text.correlation / static_cast<double>(texts);
    result.nearest_agreement += (of_text.same_nearest ? 1.0 : 0.0) / static_cast<double>(texts);
    result.top10_agreement += of_text.same_top / static_cast<double>(texts);
  }
}

}  // namespace

double rank_correlation(std::span<const double> a, std::span<const double> b) {
  const std::vector<double> ranks_a = ranks(a);
  const std::vector<double> ranks_b = ranks(b);
  const double mean = static_cast<double>(a.size() - 1) / 2;
  double both = 0;
  double squares_a = 0;
  double squares_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    both += (ranks_a[i] - mean) * (ranks_b[i] - mean);
    squares_a += (ranks_a[i] - mean) * (ranks_a[i] - mean);
    squares_b += (ranks_b[i] - mean) * (ranks_b[i] - mean);
  }
  if (squares_a == 0 || squares_b == 0) return squares_a == squares_b ? 1 : 0;
  return both / std::sqrt(squares_a * squares_b);
}

void compare_vectors(std::span<const float> vectors, std::span<const float> expected, std::size_t size,
                     VectorComparison& result) {
  const std::vector<double> ours = directions(vectors, size);
  const std::vector<double> theirs = directions(expected, size);
  std::vector<double> cosines;
  for (std::size_t begin = 0; begin < ours.size(); begin += size) {
    cosines.push_back(product(std::span(ours).subspan(begin, size), std::span(theirs).subspan(begin, size)));
  }
  result.texts = cosines.size();
  result.cosine_mean = std::accumulate(cosines.begin(), cosines.end(), 0.0) / static_cast<double>(cosines.size());
  std::ranges::sort(cosines);
  result.cosine_min = cosines.front();
  result.cosine_p1 = cosines[static_cast<std::size_t>(kLowestShare * static_cast<double>(cosines.size()))];
  result.ranked_texts = std::min(cosines.size(), VectorComparison::kRankedTexts);
  compare_ranks(ours, theirs, size, result);
}

}  // namespace ballast::eval
