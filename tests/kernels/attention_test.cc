#include "kernels/attention/attention.h"

#include <algorithm>
#include <cmath>

#include "attention_case.h"
#include "kernel_cases.h"

namespace ballast::kernels {
namespace {

/// NaN if one is among the differences; no bound holds for it.
double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::fabs(static_cast<double>(a[i]) - b[i]);
    if (std::isnan(difference)) return difference;
    largest = std::max(largest, difference);
  }
  return largest;
}

/// Root of the mean square.
double typical_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double squares = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) squares += std::pow(static_cast<double>(a[i]) - b[i], 2);
  return std::sqrt(squares / static_cast<double>(a.size()));
}

/// Runs a case on every target and compares with the reference.
void check_attention(const AttentionCase& c) {
  const AttentionData data(c, 11);
  const AttentionResult expected = data.reference_result();
  for_every_target([&] {
    CAPTURE(c);
    const AttentionResult actual = data.result();
    // A score's rounding, about 2^-24 of it times sqrt(head_size), becomes the weight's relative error.
    double budget = 2e-6 + 2e-6 * c.spread;
    if (c.type == CacheType::kInt8) {
      // Weights are rounded by up to 1/510 of the largest in a block, up and down; values have a deviation of 1.
      CHECK(largest_difference(actual.out, expected.out) <= 0.016);
      CHECK(typical_difference(actual.out, expected.out) <= 0.003);
      budget += 1e-4;
    } else {
      CHECK(relative_error(actual.out, expected.out) <= budget);
    }
    for (std::size_t h = 0; h < c.heads; ++h) {
      CHECK(std::fabs(actual.share[h] - expected.share[h]) <= budget * static_cast<double>(c.queries));
    }
  });
}

const AttentionCase kCases[] = {
    {.heads = 1, .kv_heads = 1, .head_size = 1, .queries = 1, .length = 1},
    {.heads = 1, .kv_heads = 1, .head_size = 2, .queries = 3, .length = 3},
    {.heads = 3, .kv_heads = 1, .head_size = 64, .queries = 1, .length = 300},
    {.heads = 9, .kv_heads = 3, .head_size = 64, .queries = 40, .length = 40},
    {.heads = 4, .kv_heads = 2, .head_size = 65, .queries = 7, .length = 131},
    {.heads = 2, .kv_heads = 2, .head_size = 31, .queries = 130, .length = 257},
    {.heads = 6, .kv_heads = 3, .head_size = 33, .queries = 33, .length = 128},
    {.heads = 8, .kv_heads = 1, .head_size = 16, .queries = 20, .length = 150},
    {.heads = 100, .kv_heads = 1, .head_size = 8, .queries = 2, .length = 5},
    {.heads = 4, .kv_heads = 4, .head_size = 128, .queries = 5, .length = 129},
    {.heads = 4, .kv_heads = 4, .head_size = 192, .queries = 35, .length = 131, .value_size = 128},
    {.heads = 4, .kv_heads = 2, .head_size = 24, .queries = 3, .length = 17, .value_size = 40},
    {.heads = 2, .kv_heads = 1, .head_size = 5, .queries = 9, .length = 140, .value_size = 1},
};

TEST_CASE("attention agrees with the reference on every target, for every shape and cache type") {
  for (const CacheType type : {CacheType::kF32, CacheType::kF16, CacheType::kBF16, CacheType::kInt8}) {
    for (AttentionCase c : kCases) {
      c.type = type;
      for (const float spread : {1.0F, 300.0F}) {  // 300: softmax picks single keys, and scores reach hundreds
        c.spread = spread;
        check_attention(c);
      }
    }
  }
}

TEST_CASE("attention without a causal mask sees every position from every query") {
  for (AttentionCase c : kCases) {
    c.causal = false;
    check_attention(c);
    c.queries = c.length;
    check_attention(c);
  }
}

TEST_CASE("attention agrees with the reference for every window, number of sinks, head size and group") {
  for (const std::size_t window : {1, 2, 7, 64, 130, 500}) {
    for (const std::size_t sinks : {0, 1, 4}) {
      for (const std::size_t head_size : {8, 16, 24, 64}) {
        for (const std::size_t group : {1, 2, 4}) {
          for (const std::size_t queries : {1, 45}) {
            check_attention({.heads = 2 * group,
                             .kv_heads = 2,
                             .head_size = head_size,
                             .queries = queries,
                             .length = 150,
                             .value_size = head_size == 24 ? std::size_t{17} : 0,
                             .window = window,
                             .sinks = sinks});
          }
        }
      }
    }
  }
}

TEST_CASE("sinks are seen before the window begins, at its edge and beyond") {
  for (std::size_t length = 1; length <= 12; ++length) {
    for (std::size_t queries = 1; queries <= length; ++queries) {
      for (const std::size_t sinks : {0, 1, 4}) {
        check_attention({.heads = 2,
                         .kv_heads = 1,
                         .head_size = 8,
                         .queries = queries,
                         .length = length,
                         .window = 3,
                         .sinks = sinks});
      }
    }
  }
}

TEST_CASE(
    "a ring that wrapped, with its sinks beside it and queries of their own for them, agrees with the reference") {
  for (const CacheType type : {CacheType::kF32, CacheType::kF16, CacheType::kBF16, CacheType::kInt8}) {
    for (const std::size_t sinks : {0, 1, 4}) {
      for (const std::size_t window : {1, 5, 130}) {
        for (const std::size_t queries : {1, 20, 140}) {
          for (const std::size_t length : {150, 1999}) {
            check_attention({.heads = 4,
                             .kv_heads = 2,
                             .head_size = 24,
                             .queries = queries,
                             .length = length,
                             .value_size = 16,
                             .type = type,
                             .window = window,
                             .sinks = sinks,
                             .ring = window + queries - 1});
          }
        }
      }
    }
  }
}

TEST_CASE("INT8 keys and values stay within their rounding of the exact result, and flagged tokens keep their digits") {
  AttentionCase c = {.heads = 4, .kv_heads = 2, .head_size = 64, .queries = 30, .length = 200};
  c.type = CacheType::kF32;
  const AttentionResult exact = AttentionData(c, 11).reference_result();
  c.type = CacheType::kInt8;
  const AttentionResult rounded = AttentionData(c, 11).reference_result();
  // Values round by 1/254 of their row's maximum (about 3 of a deviation of 1), scores by as much, averaged over many.
  CHECK(relative_error(rounded.out, exact.out) <= 0.05);
  c.flag_every = 1;
  CHECK(relative_error(AttentionData(c, 11).reference_result().out, exact.out) <= 2e-3);
}

TEST_CASE("equal weights of equal scales lose nothing in INT8: integer products are exact") {
  for (const std::size_t length : {1, 63, 64, 65, 128, 300}) {
    for (const std::size_t head_size : {1, 3, 64, 80}) {
      AttentionCase c = {.heads = 3, .kv_heads = 1, .head_size = head_size, .queries = 1, .length = length};
      c.type = CacheType::kInt8;
      c.spread = 0.0F;  // queries of zeros: every key weighs the same
      AttentionData data(c, 17);
      data.values.set_scales(0.5F);
      const AttentionResult expected = data.reference_result();
      for_every_target([&] {
        CAPTURE(c);
        CHECK(relative_error(data.result().out, expected.out) <= 2e-6);
      });
    }
  }
}

TEST_CASE("attention reads flagged INT8 tokens from where they are kept, on every target") {
  for (const std::size_t flag_every : {1, 2, 7, 33}) {
    for (AttentionCase c : kCases) {
      c.type = CacheType::kInt8;
      c.flag_every = flag_every;
      check_attention(c);
    }
    check_attention({.heads = 4,
                     .kv_heads = 2,
                     .head_size = 24,
                     .queries = 5,
                     .length = 333,
                     .value_size = 16,
                     .type = CacheType::kInt8,
                     .window = 40,
                     .sinks = 4,
                     .ring = 44,
                     .flag_every = flag_every});
  }
}

TEST_CASE("a bias that INT8 keys lack is added to their scores, around a ring and beside flagged tokens") {
  for (const std::size_t flag_every : {0, 7}) {
    for (const float bias : {0.5F, 30.0F}) {
      for (AttentionCase c : kCases) {
        c.type = CacheType::kInt8;
        c.flag_every = flag_every;
        c.key_bias = bias;
        check_attention(c);
      }
      check_attention({.heads = 4,
                       .kv_heads = 2,
                       .head_size = 24,
                       .queries = 5,
                       .length = 1999,
                       .value_size = 16,
                       .type = CacheType::kInt8,
                       .window = 300,
                       .sinks = 4,
                       .ring = 304,
                       .flag_every = flag_every,
                       .key_bias = bias});
    }
  }
}

TEST_CASE("long caches are split among tasks and merged, for every type") {
  for (const CacheType type : {CacheType::kF32, CacheType::kF16, CacheType::kInt8}) {
    for (const std::size_t window : {0, 700}) {
      for (const std::size_t queries : {1, 3, 40}) {
        check_attention({.heads = 6,
                         .kv_heads = 2,
                         .head_size = 40,
                         .queries = queries,
                         .length = 1500,
                         .value_size = 24,
                         .type = type,
                         .window = window,
                         .sinks = window == 0 ? std::size_t{0} : 4});
      }
    }
  }
}

TEST_CASE("queries that do not see the first position have no share of it") {
  const AttentionData data({.heads = 2, .kv_heads = 2, .head_size = 8, .queries = 3, .length = 10, .window = 4}, 1);
  for_every_target([&] {
    for (const double share : data.result().share) CHECK(share == 0.0);
  });
}

TEST_CASE("several sequences of different lengths are independent of each other and of the number of threads") {
  for (const std::size_t window : {0, 33}) {
    for (const CacheType type : {CacheType::kF16, CacheType::kInt8}) {
      AttentionCase c = {.heads = 9, .kv_heads = 3, .head_size = 64, .queries = 70, .length = 70, .type = type};
      c.window = window;
      c.sinks = window == 0 ? 0 : 4;
      const AttentionData a(c, 21);
      c.queries = 1;
      c.length = 900;
      const AttentionData b(c, 31);
      for_every_target([&] {
        const auto run = [&] {
          AttentionResult result_a, result_b;
          const AttentionSequence sequences[] = {a.sequence(result_a), b.sequence(result_b)};
          attention(a.shape, sequences);
          std::vector<float> all = result_a.out;
          all.insert(all.end(), result_b.out.begin(), result_b.out.end());
          for (const double share : result_a.share) all.push_back(static_cast<float>(share));
          return all;
        };
        const std::vector<float> one = with_threads(1, run);
        CHECK(one == with_threads(2, run));
        CHECK(one == with_threads(5, run));
        const std::vector<float> alone = a.result().out;
        CHECK(std::equal(alone.begin(), alone.end(), one.begin()));
      });
    }
  }
}

}  // namespace
}  // namespace ballast::kernels
