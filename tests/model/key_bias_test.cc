#include <doctest/doctest.h>

#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/attention/key_bias.h"
#include "kernels/rope.h"
#include "model/cache/key_value_cache.h"
#include "model_runs.h"
#include "random_floats.h"
#include "tiny_model.h"

namespace ballast::model {
namespace {

using test::random_floats;

using kernels::CacheType;

/// Returns the root mean square of the difference, divided by the spread of the expected values.
double typical_error(const std::vector<float>& got, const std::vector<float>& expected) {
  double difference = 0.0, squares = 0.0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    difference += std::pow(double{got[i]} - double{expected[i]}, 2);
    squares += std::pow(double{expected[i]}, 2);
  }
  return std::sqrt(difference / squares);
}

TEST_CASE("with key biases a hundred times larger, the logits of an INT8 cache stay within 2 % of a 16-bit cache's") {
  test::TinyModel tiny = test::read_model(test::golden_model("qwen2"));
  std::size_t biases = 0;
  for (auto& [name, tensor] : tiny.tensors) {
    if (!name.ends_with("k_proj.bias")) continue;
    for (float& value : tensor.values) value *= 100.0F;
    ++biases;
  }
  REQUIRE(biases > 0);
  const test::TemporaryDirectory directory;
  Model model(tiny.write(directory / "model"));
  std::vector<int> ids(model.spec().context_length < 96 ? model.spec().context_length : 96);
  std::mt19937 random(3);
  for (int& id : ids) id = static_cast<int>(random() % model.spec().vocab_size);
  for (const std::size_t piece : {ids.size(), std::size_t{1}}) {
    CAPTURE(piece);
    const std::vector<float> expected = test::run_in_pieces(model, ids, piece, CacheOptions::Type::kF16);
    CHECK(typical_error(test::run_in_pieces(model, ids, piece, CacheOptions::Type::kInt8), expected) <= 0.02);
  }
}

/// One layer of attention whose keys have a very large bias.
struct BiasedKeys {
  static constexpr std::size_t kTokens = 150, kHeads = 4, kSize = 32;
  static constexpr CacheShape kShape = {.kv_heads = 2, .key_size = kSize, .value_size = kSize};
  kernels::KeyRotation rotation;
  std::vector<float> cos, sin, q, bias, keys, values;

  explicit BiasedKeys(float spread)
      : q(random_floats(kTokens * kHeads * kSize, 1, 0.3F)),
        bias(random_floats(kShape.kv_heads * kSize, 2, spread)),
        keys(random_floats(kTokens * kShape.kv_heads * kSize, 3, 1.0F)),
        values(random_floats(kTokens * kShape.kv_heads * kSize, 4, 1.0F)) {
    std::vector<double> frequencies;
    for (std::size_t j = 0; j < kSize / 2; ++j) {
      frequencies.push_back(std::pow(1e-4, 2.0 * static_cast<double>(j) / kSize));
    }
    rotation = kernels::KeyRotation(frequencies, 1.0, 0);
    for (std::size_t i = 0; i < kTokens; ++i) {
      for (const double frequency : frequencies) {
        cos.push_back(static_cast<float>(std::cos(static_cast<double>(i) * frequency)));
        sin.push_back(static_cast<float>(std::sin(static_cast<double>(i) * frequency)));
      }
    }
    for (std::size_t i = 0; i < keys.size(); ++i) keys[i] += bias[i % bias.size()];
    kernels::rope(keys.data(), kTokens, kShape.kv_heads, kSize, kSize, bias.size(), cos.data(), sin.data());
    kernels::rope(q.data(), kTokens, kHeads, kSize, kSize, kHeads * kSize, cos.data(), sin.data());
  }

  std::vector<float> outputs(CacheType type, bool bias_apart, const KeyValueCacheOptions& options) const {
    KeyValueCacheOptions own = options;
    own.type = type;
    KeyValueCache cache({kShape}, own);
    const kernels::KeyBias apart = {bias_apart ? bias.data() : nullptr, &rotation};
    std::vector<std::uint8_t> flags(kTokens, 0);
    flags[7] = 1;
    std::vector<float> out(kTokens * kHeads * kSize);
    for (std::size_t first = 0; first < kTokens; first += 50) {
      const std::size_t width = kShape.kv_heads * kSize;
      cache.append(0, keys.data() + first * width, width, values.data() + first * width, width, 50,
                   std::span(flags).subspan(first, 50),
                   {apart, cos.data() + first * kSize / 2, sin.data() + first * kSize / 2});
      kernels::AttentionSequence sequence = {.q = q.data() + first * kHeads * kSize,
                                             .q_stride = kHeads * kSize,
                                             .queries = 50,
                                             .kv = cache.view(0, 50),
                                             .out = out.data() + first * kHeads * kSize,
                                             .window = options.window,
                                             .sinks = options.sinks};
      sequence.kv.key_bias = apart;
      kernels::attention({.heads = kHeads, .kv_heads = kShape.kv_heads, .head_size = kSize, .scale = 0.2F},
                         {&sequence, 1});
      cache.advance(50);
    }
    return out;
  }
};

TEST_CASE("a large key bias ruins a plain INT8 cache, but not one that stores keys without it, rolling or not") {
  const BiasedKeys layer(100.0F);
  const KeyValueCacheOptions kinds[] = {{.capacity = BiasedKeys::kTokens},
                                        {.window = 60, .sinks = 4, .largest_append = 50}};
  for (const KeyValueCacheOptions& options : kinds) {
    CAPTURE(options.window);
    const std::vector<float> expected = layer.outputs(CacheType::kF32, false, options);
    CHECK(test::relative_error(layer.outputs(CacheType::kInt8, true, options), expected) <= 0.2);
    CHECK(test::relative_error(layer.outputs(CacheType::kInt8, false, options), expected) > 0.5);
  }
}

}  // namespace
}  // namespace ballast::model
