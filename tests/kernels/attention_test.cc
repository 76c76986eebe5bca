#include "kernels/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "attention_case.h"
#include "kernel_cases.h"

namespace ballast::kernels {
namespace {

/// Returns the largest difference, or NaN if one is among the differences, for which no bound holds.
double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::fabs(static_cast<double>(a[i]) - b[i]);
    if (std::isnan(difference)) return difference;
    largest = std::max(largest, difference);
  }
  return largest;
}

/// Returns the root mean square of the differences.
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
  for (const CacheType type : {CacheType::kF32, CacheType::kF16, CacheType::kInt8}) {
    for (AttentionCase c : kCases) {
      c.type = type;
      for (const float spread : {1.0F, 300.0F}) {  // 300: softmax picks single keys, and scores reach hundreds
        c.spread = spread;
        check_attention(c);
      }
    }
  }
}

/// Cases of latent attention: one key head, whose first channels are the values.
const AttentionCase kJoinedCases[] = {
    {.heads = 16, .head_size = 576, .queries = 1, .length = 140, .value_size = 512},
    {.heads = 3, .head_size = 16, .queries = 40, .length = 40, .value_size = 12},
    {.heads = 2, .head_size = 9, .queries = 7, .length = 131, .value_size = 5},
    {.heads = 100, .head_size = 40, .queries = 2, .length = 300, .value_size = 30},
    {.heads = 4, .head_size = 24, .queries = 3, .length = 17, .value_size = 22},
    {.heads = 1, .head_size = 20, .queries = 1, .length = 1, .value_size = 16},
    {.heads = 6, .kv_heads = 2, .head_size = 20, .queries = 3, .length = 150, .value_size = 12},
};

TEST_CASE("attention whose values are the keys' first channels agrees with the reference on every target") {
  for (const CacheType type : {CacheType::kF32, CacheType::kF16, CacheType::kInt8}) {
    for (const std::size_t fp16_every : {0, 7}) {
      if (fp16_every != 0 && type != CacheType::kInt8) continue;
      for (AttentionCase c : kJoinedCases) {
        c.type = type;
        c.fp16_every = fp16_every;
        c.values_in_keys = true;
        for (const float spread : {1.0F, 300.0F}) {
          c.spread = spread;
          check_attention(c);
        }
      }
      check_attention({.heads = 20,
                       .head_size = 80,
                       .queries = 3,
                       .length = 700,
                       .value_size = 64,
                       .type = type,
                       .fp16_every = fp16_every,
                       .score_cap = 3.0F,
                       .sink_logits = true,
                       .values_in_keys = true});
      check_attention({.heads = 4,
                       .head_size = 24,
                       .queries = 5,
                       .length = 333,
                       .value_size = 16,
                       .type = type,
                       .window = 40,
                       .sinks = 4,
                       .ring = 44,
                       .fp16_every = fp16_every,
                       .values_in_keys = true});
    }
  }
}

TEST_CASE("large other channels of keys do not cost their values digits in INT8") {
  AttentionCase c = {.heads = 4, .head_size = 96, .queries = 8, .length = 200, .value_size = 64};
  c.values_in_keys = true;
  c.others_times = 1000.0F;
  c.spread = 0.001F;
  const AttentionResult exact = AttentionData(c, 11).reference_result();
  c.type = CacheType::kInt8;
  CHECK(relative_error(AttentionData(c, 11).reference_result().out, exact.out) <= 0.05);
  check_attention(c);
}

TEST_CASE("attention without a causal mask sees every position from every query") {
  for (AttentionCase c : kCases) {
    c.causal = false;
    check_attention(c);
    c.queries = c.length;
    check_attention(c);
  }
}

TEST_CASE("attention without a causal mask sees as far ahead as back in a window") {
  for (const std::size_t window : {1, 2, 7, 64, 65, 130, 500}) {
    for (AttentionCase c : kCases) {
      c.causal = false;
      c.window = window;
      check_attention(c);
      c.queries = c.length;
      check_attention(c);
    }
    for (const CacheType type : {CacheType::kF32, CacheType::kF16, CacheType::kInt8}) {
      for (const std::size_t length : {1, 63, 64, 150, 1100}) {
        if (length > 1000 && window != 500) continue;  // takes long
        AttentionCase c = {.heads = 4, .kv_heads = 2, .head_size = 24, .queries = length, .length = length};
        c.value_size = 17;
        c.type = type;
        c.causal = false;
        c.window = window;
        check_attention(c);
      }
    }
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

TEST_CASE("sinks are visible before the window begins, at its edge and beyond") {
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
    "a ring that wrapped, with its sinks before it and queries of their own for them, agrees with the reference") {
  for (const CacheType type : {CacheType::kF32, CacheType::kF16, CacheType::kInt8}) {
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

TEST_CASE("INT8 keys and values stay within their rounding of the exact result, and FP16 tokens keep their digits") {
  AttentionCase c = {.heads = 4, .kv_heads = 2, .head_size = 64, .queries = 30, .length = 200};
  c.type = CacheType::kF32;
  const AttentionResult exact = AttentionData(c, 11).reference_result();
  c.type = CacheType::kInt8;
  const AttentionResult rounded = AttentionData(c, 11).reference_result();
  // Values are rounded with an error of 1/254 of their row's maximum (about 3 standard deviations), scores as much,
  // averaged over many.
  CHECK(relative_error(rounded.out, exact.out) <= 0.05);
  c.fp16_every = 1;
  CHECK(relative_error(AttentionData(c, 11).reference_result().out, exact.out) <= 2e-3);
}

TEST_CASE("with equal weights and equal scales, INT8 attention is exact") {
  for (const std::size_t length : {1, 63, 64, 65, 128, 300}) {
    for (const std::size_t head_size : {1, 3, 64, 80}) {
      AttentionCase c = {.heads = 3, .kv_heads = 1, .head_size = head_size, .queries = 1, .length = length};
      c.type = CacheType::kInt8;
      c.spread = 0.0F;  // queries of zeros: every key weighs the same
      AttentionData data(c, 17);
      data.cache.set_value_scales(0.5F);
      const AttentionResult expected = data.reference_result();
      for_every_target([&] {
        CAPTURE(c);
        CHECK(relative_error(data.result().out, expected.out) <= 2e-6);
      });
    }
  }
}

TEST_CASE("attention reads FP16 tokens among INT8 ones from their own rows, on every target") {
  for (const std::size_t fp16_every : {1, 2, 7, 33}) {
    for (AttentionCase c : kCases) {
      c.type = CacheType::kInt8;
      c.fp16_every = fp16_every;
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
                     .fp16_every = fp16_every});
  }
}

TEST_CASE("a bias that INT8 keys lack is added to their scores, across a ring's end and with FP16 tokens") {
  for (const std::size_t fp16_every : {0, 7}) {
    for (const float bias : {0.5F, 30.0F}) {
      for (AttentionCase c : kCases) {
        c.type = CacheType::kInt8;
        c.fp16_every = fp16_every;
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
                       .fp16_every = fp16_every,
                       .key_bias = bias});
    }
  }
}

TEST_CASE(
    "scores are capped, and a head's own logit takes its share, on every target, for every shape and cache type") {
  for (const CacheType type : {CacheType::kF32, CacheType::kF16, CacheType::kInt8}) {
    for (const float score_cap : {0.0F, 0.5F, 30.0F}) {
      for (const bool sink_logits : {false, true}) {
        for (AttentionCase c : kCases) {
          c.type = type;
          c.score_cap = score_cap;
          c.sink_logits = sink_logits;
          c.spread = type == CacheType::kInt8 ? 1.0F : 5.0F;
          check_attention(c);
          c.fp16_every = 7;
          c.key_bias = 0.5F;
          if (type == CacheType::kInt8) check_attention(c);
        }
        check_attention({.heads = 4,
                         .kv_heads = 2,
                         .head_size = 24,
                         .queries = 5,
                         .length = 1500,
                         .type = type,
                         .window = 700,
                         .sinks = 4,
                         .score_cap = score_cap,
                         .sink_logits = sink_logits});
      }
    }
  }
}

/// Checks a float cache of each type with what `set` gives a case, causal and not, in every shape and in a large one
/// with a cap.
template <typename Set>
void check_float_scores(const Set& set) {
  const AttentionCase large = {
      .heads = 4, .kv_heads = 2, .head_size = 24, .queries = 300, .length = 700, .score_cap = 3.0F};
  std::vector<AttentionCase> cases(std::begin(kCases), std::end(kCases));
  cases.push_back(large);
  for (const CacheType type : {CacheType::kF32, CacheType::kF16}) {
    for (const bool causal : {true, false}) {
      for (AttentionCase c : cases) {
        c.type = type;
        c.causal = causal;
        set(c);
        check_attention(c);
      }
    }
  }
}

TEST_CASE("biases by distance are added to scores on every target, for every shape") {
  for (const std::size_t reach : {1, 40, 1000}) check_float_scores([&](AttentionCase& c) { c.bias_reach = reach; });
}

TEST_CASE("scores lose a slope for each position of distance on every target, for every shape") {
  check_float_scores([](AttentionCase& c) { c.slopes = true; });
}

TEST_CASE("a bias of each score is added on every target, for every shape") {
  for (const CacheType type : {CacheType::kF32, CacheType::kF16}) {
    for (AttentionCase c : kCases) {
      c.type = type;
      c.score_bias = true;
      c.causal = false;
      check_attention(c);
    }
    check_attention({.heads = 4,
                     .kv_heads = 2,
                     .head_size = 24,
                     .queries = 300,
                     .length = 700,
                     .type = type,
                     .score_cap = 3.0F,
                     .score_bias = true});
  }
}

TEST_CASE("a head whose sink logit is far above all scores returns almost zero") {
  AttentionData data({.heads = 2, .kv_heads = 1, .head_size = 8, .queries = 3, .length = 10}, 3);
  const std::vector<float> logits = {1e4F, -1e4F};
  const AttentionResult without = data.result();
  data.shape.sink_logits = logits.data();
  for_every_target([&] {
    const AttentionResult with = data.result();
    for (std::size_t row = 0; row < 3; ++row) {
      for (std::size_t c = 0; c < 8; ++c) {
        CHECK(with.out[row * 16 + c] == 0.0F);
        CHECK(with.out[row * 16 + 8 + c] == doctest::Approx(without.out[row * 16 + 8 + c]));
      }
    }
  });
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

TEST_CASE("queries that do not see the first position have a share of 0") {
  const AttentionData data({.heads = 2, .kv_heads = 2, .head_size = 8, .queries = 3, .length = 10, .window = 4}, 1);
  for_every_target([&] {
    for (const double share : data.result().share) CHECK(share == 0.0);
  });
}

}  // namespace
}  // namespace ballast::kernels
