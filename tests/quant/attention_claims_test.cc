// Every claim of docs/folds.md about attention, in both directions.
#include <doctest/doctest.h>

#include <cmath>

#include "fold_claims.h"

namespace ballast::test {
namespace {

Attention without_key_bias(Attention attention) {
  attention.key_bias.clear();
  return attention;
}

Attention without_query_bias(Attention attention) {
  attention.query_bias.clear();
  return attention;
}

/// Whether there is an output gate, and whether it has one value per head.
constexpr std::pair<bool, bool> kGates[] = {{false, false}, {true, false}, {true, true}};

/// Folds the value's bias into the output's.
Attention with_folded_value_bias(Attention attention) {
  const std::size_t size = attention.head_size;
  Vector repeated;
  for (std::size_t i = 0; i < attention.heads * size; ++i) {
    const std::size_t value_head = i / size / (attention.heads / attention.kv_heads);
    repeated.push_back(attention.value_bias[value_head * size + i % size]);
  }
  attention.output_bias = affine(attention.output, repeated, attention.output_bias);
  attention.value_bias.clear();
  return attention;
}

/// One factor per value channel, taken back after the attention; `scale` has one per channel of the value heads.
Attention with_scaled_values(Attention attention, const Vector& scale) {
  attention.value = scaled_rows(attention.value, scale);
  attention.value_bias = times(attention.value_bias, scale);
  const std::size_t size = attention.head_size;
  Vector inverse;
  for (std::size_t i = 0; i < attention.heads * size; ++i) {
    const std::size_t value_head = i / size / (attention.heads / attention.kv_heads);
    inverse.push_back(1 / scale[value_head * size + i % size]);
  }
  attention.output = scaled_columns(attention.output, inverse);
  return attention;
}

Attention with_rotated_values(Attention attention, unsigned seed) {
  Random of_values(seed);
  Random of_heads(seed);  // gives the same matrix for every head
  const Matrix values = orthogonal_heads(of_values, attention.kv_heads, attention.head_size);
  const Matrix heads = orthogonal_heads(of_heads, attention.heads, attention.head_size);
  attention.value = multiply(values, attention.value);
  attention.value_bias = affine(values, attention.value_bias);
  attention.output = multiply(attention.output, transpose(heads));
  return attention;
}

TEST_CASE("scaled dot product without positions: the key's bias is redundant, for every mask and grouping") {
  for (const Mask mask : {Mask::kNone, Mask::kCausal, Mask::kWindow}) {
    for (const std::size_t kv_heads : {1, 2, 4}) {
      for_random_tensors([&](Random& random) {
        const Attention attention = random_attention(random, kHidden, {.kv_heads = kv_heads, .mask = mask});
        const Tokens tokens = random.tokens(kTokens, kHidden);
        check_same(attend(attention, tokens), attend(without_key_bias(attention), tokens));
        check_different(attend(attention, tokens), attend(without_query_bias(attention), tokens));
      });
    }
  }
}

TEST_CASE("a term that is added to the scores by distance leaves the key's bias redundant") {
  for_random_tensors([](Random& random) {
    const Attention attention = random_attention(random, kHidden, {.distance_penalty = 0.3});
    const Tokens tokens = random.tokens(kTokens, kHidden);
    check_same(attend(attention, tokens), attend(without_key_bias(attention), tokens));
  });
}

TEST_CASE("under RoPE the key's bias stays, except for channels that are not rotated") {
  for_random_tensors([](Random& random) {
    const Tokens tokens = random.tokens(kTokens, kHidden);
    const Attention full = random_attention(random, kHidden, {.rotary_size = 8});
    check_different(attend(full, tokens), attend(without_key_bias(full), tokens));
    check_different(attend(full, tokens), attend(without_query_bias(full), tokens));

    const Attention partial = random_attention(random, kHidden, {.rotary_size = 4});
    Attention unrotated_dropped = partial;
    Attention rotated_dropped = partial;
    for (std::size_t i = 0; i < partial.key_bias.size(); ++i) {
      (i % partial.head_size < 4 ? rotated_dropped : unrotated_dropped).key_bias[i] = 0;
    }
    check_same(attend(partial, tokens), attend(unrotated_dropped, tokens));
    check_different(attend(partial, tokens), attend(rotated_dropped, tokens));
  });
}

TEST_CASE("after a key norm the key's bias stays, with and without rotation") {
  for (const std::size_t rotary_size : {0, 8}) {
    for_random_tensors([&](Random& random) {
      const Attention attention =
          random_attention(random, kHidden, {.rotary_size = rotary_size, .query_key_norm = true});
      const Tokens tokens = random.tokens(kTokens, kHidden);
      check_different(attend(attention, tokens), attend(without_key_bias(attention), tokens));
      check_different(attend(attention, tokens), attend(without_query_bias(attention), tokens));
    });
  }
}

TEST_CASE("under a cap on the scores the key's bias stays, and the value's folds") {
  for_random_tensors([](Random& random) {
    const Attention attention = random_attention(random, kHidden, {.score_cap = 0.7});
    const Tokens tokens = random.tokens(kTokens, kHidden);
    check_different(attend(attention, tokens), attend(without_key_bias(attention), tokens));
    check_same(attend(attention, tokens), attend(with_folded_value_bias(attention), tokens));
  });
}

TEST_CASE("before a norm of the values their bias stays, and the key's is redundant as before") {
  for_random_tensors([](Random& random) {
    const Attention attention = random_attention(random, kHidden, {.value_norm = true});
    const Tokens tokens = random.tokens(kTokens, kHidden);
    check_different(attend(attention, tokens), attend(with_folded_value_bias(attention), tokens));
    check_same(attend(attention, tokens), attend(without_key_bias(attention), tokens));
  });
}

TEST_CASE("a key norm's gain goes into the query norm's without rotation, and under RoPE only when equal in pairs") {
  const auto moved = [](Attention attention) {
    attention.query_gain = times(attention.query_gain, attention.key_gain);
    attention.key_gain.assign(attention.key_gain.size(), 1.0);
    return attention;
  };
  for_random_tensors([&](Random& random) {
    const Tokens tokens = random.tokens(kTokens, kHidden);
    const Attention plain = random_attention(random, kHidden, {.query_key_norm = true});
    check_same(attend(plain, tokens), attend(moved(plain), tokens));
    Attention rotated = random_attention(random, kHidden, {.rotary_size = 8, .query_key_norm = true});
    check_different(attend(rotated, tokens), attend(moved(rotated), tokens));
    for (std::size_t i = 0; i < 4; ++i) rotated.key_gain[i + 4] = rotated.key_gain[i];
    check_same(attend(rotated, tokens), attend(moved(rotated), tokens));
  });
}

TEST_CASE("a key norm after the rotation keeps the key's bias, and its gain goes into the query norm's") {
  for_random_tensors([&](Random& random) {
    const Attention attention =
        random_attention(random, kHidden, {.rotary_size = 8, .query_key_norm = true, .norm_after_rotation = true});
    const Tokens tokens = random.tokens(kTokens, kHidden);
    check_different(attend(attention, tokens), attend(without_key_bias(attention), tokens));
    Attention moved = attention;
    moved.query_gain = times(moved.query_gain, moved.key_gain);
    moved.key_gain.assign(moved.key_gain.size(), 1.0);
    check_same(attend(attention, tokens), attend(moved, tokens));
    check_same(attend(attention, tokens), attend(with_folded_value_bias(attention), tokens));
  });
}

TEST_CASE("queries that grow with their position change no claim: a key's bias is redundant, a value's folds") {
  for_random_tensors([&](Random& random) {
    const Attention attention = random_attention(random, kHidden, {.query_growth = 0.3});
    const Tokens tokens = random.tokens(kTokens, kHidden);
    check_same(attend(attention, tokens), attend(without_key_bias(attention), tokens));
    check_different(attend(attention, tokens), attend(without_query_bias(attention), tokens));
    check_same(attend(attention, tokens), attend(with_folded_value_bias(attention), tokens));
  });
}

TEST_CASE("the value's bias folds into the output's for all kinds of scores") {
  for (const std::size_t rotary_size : {0, 4, 8}) {
    for (const bool norm : {false, true}) {
      for (const std::size_t kv_heads : {1, 2, 4}) {
        for_random_tensors([&](Random& random) {
          const Attention attention = random_attention(
              random, kHidden, {.kv_heads = kv_heads, .rotary_size = rotary_size, .query_key_norm = norm});
          const Tokens tokens = random.tokens(kTokens, kHidden);
          check_same(attend(attention, tokens), attend(with_folded_value_bias(attention), tokens));
          Attention dropped = attention;
          dropped.value_bias.clear();
          check_different(attend(attention, tokens), attend(dropped, tokens));
        });
      }
    }
  }
}

TEST_CASE("an output gate, by element or by head, keeps the value's bias, and leaves the key's redundant") {
  for (const bool head_gates : {false, true}) {
    for_random_tensors([&](Random& random) {
      const Attention attention = random_attention(random, kHidden, {.gated = true, .head_gates = head_gates});
      const Tokens tokens = random.tokens(kTokens, kHidden);
      check_different(attend(attention, tokens), attend(with_folded_value_bias(attention), tokens));
      check_same(attend(attention, tokens), attend(without_key_bias(attention), tokens));
    });
  }
}

TEST_CASE("a sink in softmax keeps the biases of keys and values") {
  for_random_tensors([](Random& random) {
    const Attention attention = random_attention(random, kHidden, {.sink = true});
    const Tokens tokens = random.tokens(kTokens, kHidden);
    check_different(attend(attention, tokens), attend(with_folded_value_bias(attention), tokens));
    check_different(attend(attention, tokens), attend(without_key_bias(attention), tokens));
  });
}

TEST_CASE("value channels scale against the output projection, gated or not") {
  for (const auto& [gated, head_gates] : kGates) {
    for_random_tensors([&, gated, head_gates](Random& random) {
      const Attention attention =
          random_attention(random, kHidden, {.rotary_size = 8, .gated = gated, .head_gates = head_gates});
      const Tokens tokens = random.tokens(kTokens, kHidden);
      const Attention scaled = with_scaled_values(attention, random.vector(attention.value.rows, 0.25, 4));
      check_same(attend(attention, tokens), attend(scaled, tokens));
      Attention forgotten = scaled;
      forgotten.value_bias = attention.value_bias;
      check_different(attend(attention, tokens), attend(forgotten, tokens));
    });
  }
}

TEST_CASE("a head's values rotate with their bias unless they are gated by element") {
  for (const auto& [gated, head_gates] : kGates) {
    for_random_tensors([&, gated, head_gates](Random& random) {
      const Attention attention =
          random_attention(random, kHidden, {.rotary_size = 8, .gated = gated, .head_gates = head_gates});
      const Tokens tokens = random.tokens(kTokens, kHidden);
      const Attention rotated = with_rotated_values(attention, 17);
      if (gated && !head_gates) {
        check_different(attend(attention, tokens), attend(rotated, tokens));
        return;
      }
      check_same(attend(attention, tokens), attend(rotated, tokens));
      Attention forgotten = rotated;
      forgotten.value_bias = attention.value_bias;
      check_different(attend(attention, tokens), attend(forgotten, tokens));
    });
  }
}

TEST_CASE("additive scores keep one bias inside tanh and drop the one after it") {
  for_random_tensors([](Random& random) {
    const Tokens queries = random.tokens(4, kHidden);
    const Tokens keys = random.tokens(kTokens, kHidden);
    const Tokens values = random.tokens(kTokens, 5);
    const Matrix of_query = random.matrix(6, kHidden);
    const Matrix of_key = random.matrix(6, kHidden);
    const Vector mix = random.vector(6);
    const Vector none(6, 0.0);
    const auto result = [&](const Vector& query_bias, const Vector& key_bias, double after) {
      return attend_by(
          [&](const Vector& query, const Vector& key) {
            Vector hidden = plus(affine(of_query, query, query_bias), affine(of_key, key, key_bias));
            for (double& value : hidden) value = std::tanh(value);
            return dot(mix, hidden) + after;
          },
          queries, keys, values);
    };
    const Vector query_bias = random.vector(6);
    const Vector key_bias = random.vector(6);
    const Tokens expected = result(query_bias, key_bias, 0.7);
    check_same(expected, result(query_bias, key_bias, 0));
    check_same(expected, result(none, plus(query_bias, key_bias), 0.7));
    check_different(expected, result(query_bias, none, 0.7));
    check_different(expected, result(none, key_bias, 0.7));
  });
}

TEST_CASE("concat scores are additive ones: the bias inside tanh stays") {
  for_random_tensors([](Random& random) {
    const Tokens queries = random.tokens(4, kHidden);
    const Tokens keys = random.tokens(kTokens, kHidden);
    const Tokens values = random.tokens(kTokens, 5);
    const Matrix both = random.matrix(6, 2 * kHidden);
    const Vector mix = random.vector(6);
    const auto result = [&](const Vector& bias, double after) {
      return attend_by(
          [&](const Vector& query, const Vector& key) {
            Vector joined = query;
            joined.insert(joined.end(), key.begin(), key.end());
            Vector hidden = affine(both, joined, bias);
            for (double& value : hidden) value = std::tanh(value);
            return dot(mix, hidden) + after;
          },
          queries, keys, values);
    };
    const Vector bias = random.vector(6);
    check_same(result(bias, 0.7), result(bias, 0));
    check_different(result(bias, 0), result({}, 0));
  });
}

TEST_CASE("dot and general scores drop what is added to keys and keep what is added to queries") {
  for_random_tensors([](Random& random) {
    const Tokens queries = random.tokens(4, kHidden);
    const Tokens keys = random.tokens(kTokens, kHidden);
    const Tokens values = random.tokens(kTokens, 5);
    const Matrix weights = random.matrix(kHidden, kHidden);
    const Vector none(kHidden, 0.0);
    const auto by_dot = [&](const Vector& query_bias, const Vector& key_bias) {
      return attend_by(
          [&](const Vector& query, const Vector& key) { return dot(plus(query, query_bias), plus(key, key_bias)); },
          queries, keys, values);
    };
    // "general": q.W k, the bias with W k (as of a linear on keys) or with q W (as of one on queries).
    const auto by_general = [&](const Vector& query_bias, const Vector& key_bias) {
      return attend_by(
          [&](const Vector& query, const Vector& key) {
            return dot(query, affine(weights, key, key_bias)) + dot(query_bias, key);
          },
          queries, keys, values);
    };
    const Vector query_bias = random.vector(kHidden);
    const Vector key_bias = random.vector(kHidden);
    check_same(by_dot(query_bias, key_bias), by_dot(query_bias, none));
    check_different(by_dot(query_bias, key_bias), by_dot(none, key_bias));
    check_same(by_general(query_bias, key_bias), by_general(query_bias, none));
    check_different(by_general(query_bias, key_bias), by_general(none, key_bias));
  });
}

TEST_CASE("attention with any kind of score passes a constant part of all values unchanged") {
  for_random_tensors([](Random& random) {
    const Tokens queries = random.tokens(4, kHidden);
    const Tokens keys = random.tokens(kTokens, kHidden);
    const Tokens values = random.tokens(kTokens, 5);
    const Vector bias = random.vector(5);
    Tokens shifted = values;
    for (Vector& value : shifted) value = plus(value, bias);
    const auto score = [](const Vector& query, const Vector& key) { return std::sin(dot(query, key)); };
    Tokens expected = attend_by(score, queries, keys, values);
    for (Vector& output : expected) output = plus(output, bias);
    check_same(expected, attend_by(score, queries, keys, shifted));
  });
}

}  // namespace
}  // namespace ballast::test
