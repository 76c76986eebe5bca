// Every claim of docs/folds.md about norms, the residual stream, MLPs and encoders, in both directions.
#include <doctest/doctest.h>

#include <cmath>
#include <numbers>

#include "fold_claims.h"

namespace ballast::test {
namespace {

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
      // Post-norm: the norm's output is also added to the linear's output.
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
    // With a tied head, centring changes the logits unless the final norm has equal gains.
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
      // The rotation is applied to the outputs that are added to the stream, and its transpose to the inputs that read
      // it.
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

TEST_CASE("before BatchNorm a bias is redundant, and before LayerNorm only its mean is") {
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

TEST_CASE("a bias before a latent vector's norm stays") {
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
