// Every claim of docs/folds.md in both directions, on random tensors in F64: what is said to be redundant changes
// nothing, what is said to stay changes the result.
#include <doctest/doctest.h>

#include <cmath>
#include <numbers>

#include "reference_attention.h"

namespace ballast::test {
namespace {

constexpr std::size_t kHidden = 12;
constexpr std::size_t kTokens = 7;

void check_same(const Tokens& a, const Tokens& b) {
  CHECK(relative_change(a, b) <= 1e-12);
}

void check_different(const Tokens& a, const Tokens& b) {
  CHECK(relative_change(a, b) >= 1e-3);
}

template <typename Claim>
void for_random_tensors(const Claim& claim) {
  for (unsigned seed = 1; seed <= 6; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    claim(random);
  }
}

Attention without_key_bias(Attention attention) {
  attention.key_bias.clear();
  return attention;
}

Attention without_query_bias(Attention attention) {
  attention.query_bias.clear();
  return attention;
}

/// The value's bias into the output's.
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

/// One factor per value channel, taken back behind the attention; `scale` has one per channel of the value heads.
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

/// A block diagonal of an orthogonal matrix (a Householder reflection) for each of `heads`.
Matrix orthogonal_heads(Random& random, std::size_t heads, std::size_t size) {
  const Vector normal = random.vector(size);
  Matrix result{heads * size, heads * size, Vector(heads * size * heads * size, 0.0)};
  for (std::size_t head = 0; head < heads; ++head) {
    for (std::size_t r = 0; r < size; ++r) {
      for (std::size_t c = 0; c < size; ++c) {
        result.at(head * size + r, head * size + c) =
            (r == c ? 1.0 : 0.0) - 2 * normal[r] * normal[c] / dot(normal, normal);
      }
    }
  }
  return result;
}

Attention with_rotated_values(Attention attention, unsigned seed) {
  Random of_values(seed);
  Random of_heads(seed);  // the same matrix for every head
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

TEST_CASE("under RoPE the key's bias stays, but for the channels that are not rotated") {
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

TEST_CASE("behind a key norm the key's bias stays, with and without rotation") {
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

TEST_CASE("the value's bias folds into the output's, whatever stands in the scores") {
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

TEST_CASE("an output gate keeps the value's bias where it is, and leaves the key's redundant") {
  for_random_tensors([&](Random& random) {
    const Attention attention = random_attention(random, kHidden, {.gated = true});
    const Tokens tokens = random.tokens(kTokens, kHidden);
    check_different(attend(attention, tokens), attend(with_folded_value_bias(attention), tokens));
    check_same(attend(attention, tokens), attend(without_key_bias(attention), tokens));
  });
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
  for (const bool gated : {false, true}) {
    for_random_tensors([&](Random& random) {
      const Attention attention = random_attention(random, kHidden, {.rotary_size = 8, .gated = gated});
      const Tokens tokens = random.tokens(kTokens, kHidden);
      const Attention scaled = with_scaled_values(attention, random.vector(attention.value.rows, 0.25, 4));
      check_same(attend(attention, tokens), attend(scaled, tokens));
      Attention forgotten = scaled;
      forgotten.value_bias = attention.value_bias;
      check_different(attend(attention, tokens), attend(forgotten, tokens));
    });
  }
}

TEST_CASE("a head's values rotate with their bias unless they are gated") {
  for (const bool gated : {false, true}) {
    for_random_tensors([&](Random& random) {
      const Attention attention = random_attention(random, kHidden, {.rotary_size = 8, .gated = gated});
      const Tokens tokens = random.tokens(kTokens, kHidden);
      const Attention rotated = with_rotated_values(attention, 17);
      if (gated) {
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

TEST_CASE("additive scores keep the bias inside tanh, of which one is enough, and drop the one behind it") {
  for_random_tensors([](Random& random) {
    const Tokens queries = random.tokens(4, kHidden);
    const Tokens keys = random.tokens(kTokens, kHidden);
    const Tokens values = random.tokens(kTokens, 5);
    const Matrix of_query = random.matrix(6, kHidden);
    const Matrix of_key = random.matrix(6, kHidden);
    const Vector mix = random.vector(6);
    const Vector none(6, 0.0);
    const auto result = [&](const Vector& query_bias, const Vector& key_bias, double behind) {
      return attend_by(
          [&](const Vector& query, const Vector& key) {
            Vector hidden = plus(affine(of_query, query, query_bias), affine(of_key, key, key_bias));
            for (double& value : hidden) value = std::tanh(value);
            return dot(mix, hidden) + behind;
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
    const auto result = [&](const Vector& bias, double behind) {
      return attend_by(
          [&](const Vector& query, const Vector& key) {
            Vector joined = query;
            joined.insert(joined.end(), key.begin(), key.end());
            Vector hidden = affine(both, joined, bias);
            for (double& value : hidden) value = std::tanh(value);
            return dot(mix, hidden) + behind;
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

TEST_CASE("a constant part of all values comes out of every score's attention unchanged") {
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

TEST_CASE("a norm's gain and bias fold into a linear, and not into a residual stream") {
  for_random_tensors([](Random& random) {
    const Tokens tokens = random.tokens(kTokens, kHidden);
    const Matrix weights = random.matrix(5, kHidden);
    const Vector gain = random.vector(kHidden, 0.2, 3);
    const Vector beta = random.vector(kHidden);
    const Vector bias = random.vector(5);
    const Matrix folded = scaled_columns(weights, gain);
    const Vector folded_bias = affine(weights, beta, bias);
    Tokens expected;
    Tokens got;
    Tokens post_expected;
    Tokens post_got;
    for (const Vector& token : tokens) {
      const Vector normalized = layer_normalized(token);
      const Vector full = plus(times(normalized, gain), beta);
      expected.push_back(affine(weights, full, bias));
      got.push_back(affine(folded, normalized, folded_bias));
      // Post-norm: what the norm writes is also added to what the linear writes.
      post_expected.push_back(plus(full, Vector(kHidden, affine(weights, full, bias).front())));
      post_got.push_back(plus(normalized, Vector(kHidden, affine(folded, normalized, folded_bias).front())));
    }
    check_same(expected, got);
    check_different(post_expected, post_got);
  });
}

TEST_CASE("the final norm's gain folds into an untied head and not into one that is the embedding") {
  for_random_tensors([](Random& random) {
    const Matrix embedding = random.matrix(9, kHidden);
    const Matrix block = random.matrix(kHidden, kHidden);
    const Vector gain = random.vector(kHidden, 0.2, 3);
    const auto logits = [&](const Matrix& table, const Matrix& head, const Vector& final_gain) {
      Tokens result;
      for (std::size_t token = 0; token < table.rows; ++token) {
        const auto begin = table.values.begin() + static_cast<std::ptrdiff_t>(token * kHidden);
        Vector x(begin, begin + static_cast<std::ptrdiff_t>(kHidden));
        x = plus(x, affine(block, rms_normalized(x)));
        result.push_back(affine(head, times(rms_normalized(x), final_gain)));
      }
      return result;
    };
    const Vector ones(kHidden, 1.0);
    const Matrix folded = scaled_columns(embedding, gain);
    const Tokens expected = logits(embedding, embedding, gain);
    check_same(expected, logits(embedding, folded, ones));
    check_different(expected, logits(folded, folded, ones));
  });
}

TEST_CASE("LayerNorm is RMSNorm of a centred stream, and pre-norm streams can be centred") {
  for_random_tensors([](Random& random) {
    const Tokens embeddings = random.tokens(kTokens, kHidden);
    const Matrix into = random.matrix(8, kHidden);
    Matrix back = random.matrix(kHidden, 8);
    Vector bias = random.vector(kHidden);
    const Matrix head = random.matrix(5, kHidden);
    const Vector gain = random.vector(kHidden, 0.2, 3);
    const auto run = [&](bool center, bool rms) {
      Matrix writes = back;
      Vector offset = bias;
      if (center) {
        writes = transpose(writes);
        for (std::size_t r = 0; r < writes.rows; ++r) {
          const auto begin = writes.values.begin() + static_cast<std::ptrdiff_t>(r * kHidden);
          const Vector column = centered(Vector(begin, begin + static_cast<std::ptrdiff_t>(kHidden)));
          std::ranges::copy(column, begin);
        }
        writes = transpose(writes);
        offset = centered(offset);
      }
      const auto norm = [&](const Vector& x) { return times(rms ? rms_normalized(x) : layer_normalized(x), gain); };
      Tokens result;
      for (const Vector& embedding : embeddings) {
        Vector x = center ? centered(embedding) : embedding;
        Vector hidden = affine(into, norm(x));
        for (double& value : hidden) value = std::tanh(value);
        x = plus(x, affine(writes, hidden, offset));
        result.push_back(affine(head, norm(x)));
      }
      return result;
    };
    check_same(run(false, false), run(true, true));
    check_different(run(false, false), run(false, true));
    // The head that is the embedding: centring it changes the logits, unless the final norm has equal gains.
    Vector normalized = times(layer_normalized(embeddings[0]), gain);
    check_different({Vector{dot(embeddings[1], normalized)}}, {Vector{dot(centered(embeddings[1]), normalized)}});
    normalized = layer_normalized(embeddings[0]);
    CHECK(dot(embeddings[1], normalized) == doctest::Approx(dot(centered(embeddings[1]), normalized)).epsilon(1e-12));
  });
}

TEST_CASE("the residual stream rotates between RMSNorms without gain, and not through a gain or a LayerNorm") {
  for_random_tensors([](Random& random) {
    const Tokens embeddings = random.tokens(kTokens, kHidden);
    const Matrix into = random.matrix(8, kHidden);
    const Matrix back = random.matrix(kHidden, 8);
    const Vector bias = random.vector(kHidden);
    const Matrix head = random.matrix(5, kHidden);
    const Vector gain = random.vector(kHidden, 0.2, 3);
    const Matrix rotation = orthogonal_heads(random, 1, kHidden);
    const auto run = [&](bool rotated, const auto& norm) {
      // The rotation is applied to what writes the stream, its transpose to what reads it.
      const auto write = [&](const Vector& x) { return rotated ? affine(rotation, x) : x; };
      const Matrix reads = rotated ? multiply(into, transpose(rotation)) : into;
      const Matrix last = rotated ? multiply(head, transpose(rotation)) : head;
      Tokens result;
      for (const Vector& embedding : embeddings) {
        Vector x = write(embedding);
        Vector hidden = affine(reads, norm(x));
        for (double& value : hidden) value = std::tanh(value);
        x = plus(x, write(affine(back, hidden, bias)));
        result.push_back(affine(last, norm(x)));
      }
      return result;
    };
    const auto rms = [](const Vector& x) { return rms_normalized(x); };
    const auto rms_with_gain = [&](const Vector& x) { return times(rms_normalized(x), gain); };
    const auto layer = [](const Vector& x) { return layer_normalized(x); };
    check_same(run(false, rms), run(true, rms));
    check_different(run(false, rms_with_gain), run(true, rms_with_gain));
    check_different(run(false, layer), run(true, layer));
  });
}

TEST_CASE("up scales against down with a gate or a ReLU, and not through another activation or a negative factor") {
  enum class Kind { kGated, kRelu, kGelu };
  for (const Kind kind : {Kind::kGated, Kind::kRelu, Kind::kGelu}) {
    for_random_tensors([&](Random& random) {
      const Tokens tokens = random.tokens(kTokens, kHidden);
      const Matrix gate = random.matrix(10, kHidden);
      const Matrix up = random.matrix(10, kHidden);
      const Matrix down = random.matrix(kHidden, 10);
      const Vector up_bias = random.vector(10);
      const auto gelu = [](double x) { return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2)); };
      const auto mlp = [&](const Vector& scale, const Vector& bias_scale) {
        Vector inverse = scale;
        for (double& value : inverse) value = 1 / value;
        Tokens result;
        for (const Vector& token : tokens) {
          Vector hidden = affine(scaled_rows(up, scale), token, times(up_bias, bias_scale));
          const Vector factor = affine(gate, token);
          for (std::size_t i = 0; i < hidden.size(); ++i) {
            if (kind == Kind::kGated) hidden[i] *= gelu(factor[i]);
            if (kind == Kind::kRelu) hidden[i] = std::max(0.0, hidden[i]);
            if (kind == Kind::kGelu) hidden[i] = gelu(hidden[i]);
          }
          result.push_back(affine(scaled_columns(down, inverse), hidden));
        }
        return result;
      };
      const Vector ones(10, 1.0);
      const Tokens expected = mlp(ones, ones);
      const Vector scale = random.vector(10, 0.25, 4);
      Vector negative = scale;
      for (double& value : negative) value = -value;
      if (kind == Kind::kGelu) {
        check_different(expected, mlp(scale, scale));
        return;
      }
      check_same(expected, mlp(scale, scale));
      check_different(expected, mlp(scale, ones));
      if (kind == Kind::kGated) check_same(expected, mlp(negative, negative));
      if (kind == Kind::kRelu) check_different(expected, mlp(negative, negative));
    });
  }
}

TEST_CASE("in front of BatchNorm a bias is redundant; in front of LayerNorm its mean alone is") {
  for_random_tensors([](Random& random) {
    const Tokens tokens = random.tokens(kTokens, kHidden);
    const Matrix weights = random.matrix(6, kHidden);
    const Vector bias = random.vector(6);
    const auto batch = [&](const Vector& added, bool per_token) {
      Tokens outputs;
      for (const Vector& token : tokens) outputs.push_back(affine(weights, token, added));
      if (per_token) {
        for (Vector& output : outputs) output = layer_normalized(output);
        return outputs;
      }
      for (std::size_t c = 0; c < 6; ++c) {
        Vector channel;
        for (const Vector& output : outputs) channel.push_back(output[c]);
        channel = layer_normalized(channel);  // over the batch instead of over channels
        for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i][c] = channel[i];
      }
      return outputs;
    };
    check_same(batch(bias, false), batch({}, false));
    check_same(batch(bias, true), batch(centered(bias), true));
    check_different(batch(bias, true), batch({}, true));
  });
}

TEST_CASE("a bias in front of a latent vector's norm stays") {
  for_random_tensors([](Random& random) {
    const Tokens tokens = random.tokens(kTokens, kHidden);
    const Matrix down = random.matrix(4, kHidden);
    const Matrix up = random.matrix(6, 4);
    const Vector bias = random.vector(4);
    const auto keys = [&](const Vector& added) {
      Tokens result;
      for (const Vector& token : tokens) result.push_back(affine(up, rms_normalized(affine(down, token, added))));
      return result;
    };
    const Tokens queries = random.tokens(4, 6);
    const auto score = [](const Vector& query, const Vector& key) { return dot(query, key); };
    check_different(attend_by(score, queries, keys(bias), tokens), attend_by(score, queries, keys({}), tokens));
  });
}

}  // namespace
}  // namespace ballast::test
