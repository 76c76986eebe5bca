// Attention of every kind in plain F64, for claims about which parts matter. Speed does not matter.
#ifndef BALLAST_TESTS_SUPPORT_REFERENCE_ATTENTION_H_
#define BALLAST_TESTS_SUPPORT_REFERENCE_ATTENTION_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <random>
#include <utility>
#include <vector>

namespace ballast::test {

using Vector = std::vector<double>;
using Tokens = std::vector<Vector>;  ///< one vector per token

struct Matrix {
  std::size_t rows = 0;
  std::size_t cols = 0;
  Vector values;

  double& at(std::size_t r, std::size_t c) { return values[r * cols + c]; }
  double at(std::size_t r, std::size_t c) const { return values[r * cols + c]; }
};

/// Random vectors and matrices, the same on every machine.
class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}

  Vector vector(std::size_t size, double low = -1, double high = 1) {
    Vector result(size);
    for (double& value : result) value = low + (high - low) * static_cast<double>(engine_()) / 4294967295.0;
    return result;
  }
  Matrix matrix(std::size_t rows, std::size_t cols) { return {rows, cols, vector(rows * cols)}; }
  Tokens tokens(std::size_t count, std::size_t size) {
    Tokens result(count);
    for (Vector& token : result) token = vector(size);
    return result;
  }

 private:
  std::mt19937 engine_;
};

inline double dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

inline Vector plus(Vector a, const Vector& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

inline Vector times(Vector a, const Vector& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] *= b[i];
  return a;
}

/// Returns W x + b; an empty b means none.
inline Vector affine(const Matrix& weights, const Vector& x, const Vector& bias = {}) {
  Vector y(weights.rows, 0.0);
  for (std::size_t r = 0; r < weights.rows; ++r) {
    for (std::size_t c = 0; c < weights.cols; ++c) y[r] += weights.at(r, c) * x[c];
    if (!bias.empty()) y[r] += bias[r];
  }
  return y;
}

inline Matrix multiply(const Matrix& a, const Matrix& b) {
  Matrix product{a.rows, b.cols, Vector(a.rows * b.cols, 0.0)};
  for (std::size_t r = 0; r < a.rows; ++r) {
    for (std::size_t i = 0; i < a.cols; ++i) {
      for (std::size_t c = 0; c < b.cols; ++c) product.at(r, c) += a.at(r, i) * b.at(i, c);
    }
  }
  return product;
}

inline Matrix transpose(const Matrix& a) {
  Matrix result{a.cols, a.rows, Vector(a.values.size())};
  for (std::size_t r = 0; r < a.rows; ++r) {
    for (std::size_t c = 0; c < a.cols; ++c) result.at(c, r) = a.at(r, c);
  }
  return result;
}

/// Return W diag(factors) and diag(factors) W.
inline Matrix scaled_columns(Matrix a, const Vector& factors) {
  for (std::size_t i = 0; i < a.values.size(); ++i) a.values[i] *= factors[i % a.cols];
  return a;
}
inline Matrix scaled_rows(Matrix a, const Vector& factors) {
  for (std::size_t i = 0; i < a.values.size(); ++i) a.values[i] *= factors[i / a.cols];
  return a;
}

inline Vector rms_normalized(const Vector& x) {
  const double factor = 1 / std::sqrt(dot(x, x) / static_cast<double>(x.size()) + 1e-6);
  Vector y = x;
  for (double& value : y) value *= factor;
  return y;
}

inline double mean_of(const Vector& x) {
  double sum = 0;
  for (const double value : x) sum += value;
  return sum / static_cast<double>(x.size());
}

inline Vector centered(Vector x) {
  const double mean = mean_of(x);
  for (double& value : x) value -= mean;
  return x;
}

inline Vector layer_normalized(const Vector& x) {
  return rms_normalized(centered(x));
}

/// Returns the softmax of scores. With `sink` the denominator has another term, exp(0): gpt-oss's sinks, or softmax off
/// by one.
inline Vector softmax(const Vector& scores, bool sink = false) {
  double largest = *std::ranges::max_element(scores);
  if (sink) largest = std::max(largest, 0.0);
  Vector weights(scores.size());
  double sum = sink ? std::exp(-largest) : 0;
  for (std::size_t i = 0; i < scores.size(); ++i) sum += weights[i] = std::exp(scores[i] - largest);
  for (double& weight : weights) weight /= sum;
  return weights;
}

/// Rotates the pairs (i, i + rotated/2) of a head's first `rotated` channels by position times 10000^(-2i/rotated).
inline void rotate_positions(double* head, std::size_t rotated, std::size_t position) {
  for (std::size_t i = 0; i < rotated / 2; ++i) {
    const double angle =
        static_cast<double>(position) * std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(rotated));
    const double a = head[i];
    const double b = head[i + rotated / 2];
    head[i] = a * std::cos(angle) - b * std::sin(angle);
    head[i + rotated / 2] = b * std::cos(angle) + a * std::sin(angle);
  }
}

enum class Mask { kNone, kCausal, kWindow };

/// Multi-head attention with grouped heads and its projections. Empty biases mean none.
struct Attention {
  std::size_t heads = 4;
  std::size_t kv_heads = 2;
  std::size_t head_size = 8;
  std::size_t rotary_size = 0;
  Mask mask = Mask::kCausal;
  bool query_key_norm = false;
  bool norm_after_rotation = false;
  double query_growth = 0;  ///< a query is multiplied by 1 + this times its position
  bool sink = false;
  double distance_penalty = 0;  ///< ALiBi: subtracted from a score per token of distance
  double score_cap = 0;         ///< a score x becomes cap tanh(x / cap); 0: no cap
  bool value_norm = false;      ///< a norm of each head of the values, without a gain
  bool gated = false;           ///< a sigmoid multiplies the mixed values by element
  bool head_gates = false;      ///< gated: one for all elements of a head
  Matrix query{}, key{}, value{}, output{}, gate_weights{};
  Vector query_bias{}, key_bias{}, value_bias{}, output_bias{}, gate_bias{};
  Vector query_gain{}, key_gain{};  ///< of query_key_norm [head_size]
};

inline Attention random_attention(Random& random, std::size_t hidden, Attention attention = {}) {
  const std::size_t queries = attention.heads * attention.head_size;
  const std::size_t keys = attention.kv_heads * attention.head_size;
  attention.query = random.matrix(queries, hidden);
  attention.key = random.matrix(keys, hidden);
  attention.value = random.matrix(keys, hidden);
  attention.output = random.matrix(hidden, queries);
  attention.gate_weights = random.matrix(attention.head_gates ? attention.heads : queries, hidden);
  attention.query_bias = random.vector(queries);
  attention.key_bias = random.vector(keys);
  attention.value_bias = random.vector(keys);
  attention.output_bias = random.vector(hidden);
  attention.query_gain = random.vector(attention.head_size, 0.5, 2);
  attention.key_gain = random.vector(attention.head_size, 0.5, 2);
  return attention;
}

/// Normalizes and rotates each head of one token's queries or keys.
inline void norm_and_rotate_heads(const Attention& attention, const Vector& gain, std::size_t position, Vector& heads) {
  for (std::size_t at = 0; at < heads.size(); at += attention.head_size) {
    const auto normalize = [&] {
      const auto begin = heads.begin() + static_cast<std::ptrdiff_t>(at);
      const Vector head(begin, begin + static_cast<std::ptrdiff_t>(attention.head_size));
      std::ranges::copy(times(rms_normalized(head), gain), begin);
    };
    if (attention.query_key_norm && !attention.norm_after_rotation) normalize();
    rotate_positions(heads.data() + at, attention.rotary_size, position);
    if (attention.query_key_norm && attention.norm_after_rotation) normalize();
  }
}

inline bool sees(Mask mask, std::size_t query, std::size_t key) {
  constexpr std::size_t kWindow = 3;
  return mask == Mask::kNone || (key <= query && (mask == Mask::kCausal || query - key < kWindow));
}

/// Returns the input of the output projection: the heads' mixed values, gated.
inline Tokens mix(const Attention& attention, const Tokens& tokens) {
  const std::size_t size = attention.head_size;
  Tokens queries;
  Tokens keys;
  Tokens values;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    queries.push_back(affine(attention.query, tokens[i], attention.query_bias));
    keys.push_back(affine(attention.key, tokens[i], attention.key_bias));
    values.push_back(affine(attention.value, tokens[i], attention.value_bias));
    norm_and_rotate_heads(attention, attention.query_gain, i, queries[i]);
    norm_and_rotate_heads(attention, attention.key_gain, i, keys[i]);
    for (std::size_t at = 0; attention.value_norm && at < values[i].size(); at += size) {
      const auto begin = values[i].begin() + static_cast<std::ptrdiff_t>(at);
      std::ranges::copy(rms_normalized(Vector(begin, begin + static_cast<std::ptrdiff_t>(size))), begin);
    }
    for (double& value : queries[i]) value *= 1 + attention.query_growth * static_cast<double>(i);
  }
  Tokens results;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    Vector mixed(attention.heads * size, 0.0);
    Vector gate = affine(attention.gate_weights, tokens[i], attention.gate_bias);
    for (double& value : gate) value = 1 / (1 + std::exp(-value));
    for (std::size_t head = 0; head < attention.heads; ++head) {
      const std::size_t from = head / (attention.heads / attention.kv_heads) * size;
      std::vector<std::size_t> seen;
      Vector scores;
      for (std::size_t j = 0; j < tokens.size(); ++j) {
        if (!sees(attention.mask, i, j)) continue;
        double score = 0;
        for (std::size_t c = 0; c < size; ++c) score += queries[i][head * size + c] * keys[j][from + c];
        const double distance = std::abs(static_cast<double>(i) - static_cast<double>(j));
        seen.push_back(j);
        scores.push_back(score / std::sqrt(static_cast<double>(size)) - attention.distance_penalty * distance);
        const double cap = attention.score_cap;
        if (cap > 0) scores.back() = cap * std::tanh(scores.back() / cap);
      }
      const Vector weights = softmax(scores, attention.sink);
      for (std::size_t c = 0; c < size; ++c) {
        double& sum = mixed[head * size + c];
        for (std::size_t j = 0; j < seen.size(); ++j) sum += weights[j] * values[seen[j]][from + c];
        if (attention.gated) sum *= gate[attention.head_gates ? head : head * size + c];
      }
    }
    results.push_back(std::move(mixed));
  }
  return results;
}

inline Tokens attend(const Attention& attention, const Tokens& tokens) {
  Tokens outputs = mix(attention, tokens);
  for (Vector& output : outputs) output = affine(attention.output, output, attention.output_bias);
  return outputs;
}

/// The score of a query and a key.
using Score = std::function<double(const Vector& query, const Vector& key)>;
inline Tokens attend_by(const Score& score, const Tokens& queries, const Tokens& keys, const Tokens& values) {
  Tokens outputs;
  for (const Vector& query : queries) {
    Vector scores;
    for (const Vector& key : keys) scores.push_back(score(query, key));
    const Vector weights = softmax(scores);
    Vector output(values.front().size(), 0.0);
    for (std::size_t j = 0; j < values.size(); ++j) {
      for (std::size_t c = 0; c < output.size(); ++c) output[c] += weights[j] * values[j][c];
    }
    outputs.push_back(output);
  }
  return outputs;
}

/// Returns max |a - b| / max |a|.
inline double relative_change(const Tokens& a, const Tokens& b) {
  double largest = 0;
  double change = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t c = 0; c < a[i].size(); ++c) {
      largest = std::max(largest, std::abs(a[i][c]));
      change = std::max(change, std::abs(a[i][c] - b[i][c]));
    }
  }
  return change / largest;
}

}  // namespace ballast::test

#endif  // BALLAST_TESTS_SUPPORT_REFERENCE_ATTENTION_H_
