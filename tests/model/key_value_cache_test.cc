#include "model/forward/key_value_cache.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/reference/reference.h"
#include "kernels/rope.h"

namespace ballast::model {
namespace {

using kernels::CacheType;

constexpr CacheShape kSmall = {.kv_heads = 2, .key_size = 3, .value_size = 4};

std::vector<float> random_floats(std::size_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(engine);
  return values;
}

TEST_CASE("a cache gives back what was appended, per layer and head") {
  constexpr std::size_t kCapacity = 5, kKeyStride = 10, kValueStride = 11;
  KeyValueCache cache(kSmall, {.layers = 2, .type = CacheType::kF32, .capacity = kCapacity});
  const std::vector<float> keys = random_floats(4 * kKeyStride, 1);
  const std::vector<float> values = random_floats(4 * kValueStride, 2);
  for (const std::size_t layer : {0, 1}) {
    cache.append(layer, keys.data(), kKeyStride, values.data(), kValueStride, 1);
  }
  cache.advance(1);
  cache.append(1, keys.data() + kKeyStride, kKeyStride, values.data() + kValueStride, kValueStride, 3);
  CHECK(cache.length() == 1);
  CHECK(cache.room() == 4);
  CHECK(cache.view(0, 0).length == 1);
  const kernels::KeyValueView view = cache.view(1, 3);
  CHECK(view.length == 4);
  CHECK(view.keys.capacity == kCapacity);
  CHECK(view.sink_keys.data == nullptr);
  const auto* stored_keys = static_cast<const float*>(view.keys.data);
  const auto* stored_values = static_cast<const float*>(view.values.data);
  for (std::size_t head = 0; head < 2; ++head) {
    for (std::size_t token = 0; token < 4; ++token) {
      for (std::size_t c = 0; c < 3; ++c) {
        CHECK(stored_keys[(head * kCapacity + token) * 3 + c] == keys[token * kKeyStride + head * 3 + c]);
      }
      for (std::size_t c = 0; c < 4; ++c) {
        CHECK(stored_values[(head * kCapacity + token) * 4 + c] == values[token * kValueStride + head * 4 + c]);
      }
    }
  }
}

TEST_CASE("a cache counts the bytes of the tokens that attention reads") {
  KeyValueCache cache(kSmall, {.layers = 7, .type = CacheType::kF16, .capacity = 100});
  CHECK(cache.bytes_in_use() == 0);
  cache.advance(10);
  CHECK(cache.bytes_in_use() == 7 * 2 * 10 * (3 + 4) * 2);
  cache.truncate(1);
  CHECK(cache.length() == 1);
  CHECK(cache.bytes_in_use() == 7 * 2 * 1 * (3 + 4) * 2);
  KeyValueCache rolling(kSmall, {.layers = 7, .type = CacheType::kInt8, .window = 20, .sinks = 4, .largest_append = 8});
  rolling.advance(1000);
  CHECK(rolling.bytes_in_use() == 7 * 2 * (20 * (4 + 16 + 8) + 4 * (3 + 4) * 2));  // codes in whole vectors
}

TEST_CASE("a rolling cache keeps its memory, whatever it is fed") {
  for (const CacheType type : {CacheType::kF32, CacheType::kF16, CacheType::kBF16, CacheType::kInt8}) {
    KeyValueCache cache(kSmall, {.layers = 1, .type = type, .window = 20, .sinks = 4, .largest_append = 8});
    std::size_t once_full = cache.memory_bytes();
    const std::vector<float> rows = random_floats(64, 1);
    const std::vector<std::uint8_t> flags = {1, 0, 0, 0, 0, 1, 0, 0};
    for (int i = 0; i < 100; ++i) {
      cache.append(0, rows.data(), 8, rows.data(), 8, 8, flags);
      cache.advance(8);
      // Tokens that are kept in 16 bits take places of their own until the ring is full.
      if (i == 4 && type == CacheType::kInt8) once_full = cache.memory_bytes();
    }
    CHECK(cache.length() == 800);
    CHECK(cache.room() == 8);
    CHECK(cache.memory_bytes() == once_full);
    CHECK(cache.slot(3) == 3);
    CHECK(cache.slot(799) == 23);
  }
}

TEST_CASE("a rolling cache can go back until something that would be seen is overwritten") {
  KeyValueCache cache(kSmall, {.type = CacheType::kInt8, .window = 20, .sinks = 4, .largest_append = 8});
  const std::vector<float> rows = random_floats(64, 1);
  const auto feed = [&](std::size_t count) {
    cache.append(0, rows.data(), 8, rows.data(), 8, count);
    cache.advance(count);
  };
  for (int i = 0; i < 4; ++i) feed(8);  // 32 tokens: 4 sinks and the 28 of the ring
  for (std::size_t length = 0; length <= 32; ++length) CHECK(cache.can_truncate_to(length));
  CHECK(!cache.can_truncate_to(33));
  feed(1);                            // over position 4
  CHECK(!cache.can_truncate_to(23));  // sees 4 .. 22
  CHECK(cache.can_truncate_to(24));   // sees 5 .. 23
  CHECK(cache.can_truncate_to(4));    // sees the sinks alone
  cache.truncate(24);
  CHECK(cache.can_truncate_to(24));
  CHECK(!cache.can_truncate_to(23));  // position 4 stays lost
}

TEST_CASE("flagged tokens are kept in 16 bits, and give their place back when they are overwritten") {
  KeyValueCache cache(kSmall, {.type = CacheType::kInt8, .window = 4, .sinks = 1, .largest_append = 2});
  const std::vector<float> rows = random_floats(16, 1);
  const auto feed = [&](std::uint8_t first, std::uint8_t second) {
    const std::uint8_t flags[] = {first, second};
    cache.append(0, rows.data(), 8, rows.data(), 8, 2, flags);
    cache.advance(2);
  };
  feed(1, 1);  // a sink, which has a place of its own, and position 1
  CHECK(cache.flagged_tokens(0) == 1);
  feed(1, 1);
  CHECK(cache.flagged_tokens(0) == 3);
  feed(0, 0);
  const std::size_t memory = cache.memory_bytes();
  feed(0, 0);  // positions 6 and 7 lie over 0 and 1
  CHECK(cache.flagged_tokens(0) == 2);
  feed(1, 0);  // positions 8 and 9 over 2 and 3
  CHECK(cache.flagged_tokens(0) == 1);
  CHECK(cache.memory_bytes() == memory);  // in a place that was left
  cache.truncate(8);
  CHECK(cache.flagged_tokens(0) == 0);
}

TEST_CASE("an INT8 cache reads a flagged token's own digits") {
  KeyValueCache cache(kSmall, {.type = CacheType::kInt8, .capacity = 4});
  std::vector<float> rows(16, 0.25F);
  rows[8] = 1000.0F;  // of token 1, head 0: its other values would round to 0
  const std::uint8_t flags[] = {0, 1};
  cache.append(0, rows.data(), 8, rows.data(), 8, 2, flags);
  const kernels::KeyValueView view = cache.view(0, 2);
  const std::vector<float> q(6, 0.0F);
  std::vector<float> out(8);
  const kernels::AttentionSequence sequence = {
      .q = q.data(), .q_stride = 6, .queries = 1, .kv = view, .out = out.data()};
  kernels::attention({.heads = 2, .kv_heads = 2, .head_size = 3, .value_size = 4}, {&sequence, 1});
  CHECK(out[0] == doctest::Approx(500.125F));
  for (std::size_t i = 1; i < 8; ++i) CHECK(out[i] == doctest::Approx(0.25F));
}

/// One layer of attention over a rolling cache: raw queries, keys and values of a long text, and how positions rotate.
struct Streaming {
  static constexpr std::size_t kTokens = 150, kHeads = 4, kSize = 16, kValueSize = 8;
  static constexpr CacheShape kShape = {.kv_heads = 2, .key_size = kSize, .value_size = kValueSize};
  std::size_t window;
  std::size_t sinks;
  std::vector<float> q = random_floats(kTokens * kHeads * kSize, 1);
  std::vector<float> keys = random_floats(kTokens * kShape.kv_heads * kSize, 2);
  std::vector<float> values = random_floats(kTokens * kShape.kv_heads * kValueSize, 3);

  kernels::AttentionShape shape() const {
    return {.heads = kHeads,
            .kv_heads = kShape.kv_heads,
            .head_size = kSize,
            .scale = 0.25F,
            .value_size = kValueSize,
            .window = window,
            .sinks = sinks};
  }

  /// A token's heads, rotated as at `position`.
  static std::vector<float> rotated(const std::vector<float>& rows, std::size_t token, std::size_t heads,
                                    std::size_t position) {
    std::vector<float> row(rows.begin() + static_cast<std::ptrdiff_t>(token * heads * kSize),
                           rows.begin() + static_cast<std::ptrdiff_t>((token + 1) * heads * kSize));
    std::vector<float> cos, sin;
    for (std::size_t j = 0; j < kSize / 2; ++j) {
      const double angle = static_cast<double>(position) * std::pow(1000.0, -2.0 * static_cast<double>(j) / kSize);
      cos.push_back(static_cast<float>(std::cos(angle)));
      sin.push_back(static_cast<float>(std::sin(angle)));
    }
    kernels::reference::rope(row.data(), 1, heads, kSize, kSize, row.size(), cos.data(), sin.data());
    return row;
  }

  /// Outputs of all tokens, fed in batches.
  std::vector<float> run(CacheType type, std::size_t batch) const {
    KeyValueCache cache(kShape, {.type = type, .window = window, .sinks = sinks, .largest_append = batch});
    std::vector<float> all;
    for (std::size_t first = 0; first < kTokens; first += batch) {
      const std::size_t count = std::min(batch, kTokens - first);
      std::vector<float> batch_q, batch_sink_q, batch_keys;
      const auto add = [](std::vector<float>& to, const std::vector<float>& row) {
        to.insert(to.end(), row.begin(), row.end());
      };
      for (std::size_t token = first; token < first + count; ++token) {
        add(batch_q, rotated(q, token, kHeads, token));
        add(batch_sink_q, rotated(q, token, kHeads, cache.slot(token)));
        add(batch_keys, rotated(keys, token, kShape.kv_heads, token));
      }
      cache.append(0, batch_keys.data(), kShape.kv_heads * kSize, values.data() + first * kShape.kv_heads * kValueSize,
                   kShape.kv_heads * kValueSize, count);
      std::vector<float> out(count * kHeads * kValueSize);
      const kernels::AttentionSequence sequence = {.q = batch_q.data(),
                                                   .q_stride = kHeads * kSize,
                                                   .queries = count,
                                                   .kv = cache.view(0, count),
                                                   .out = out.data(),
                                                   .sink_q = batch_sink_q.data(),
                                                   .sink_q_stride = kHeads * kSize};
      kernels::attention(shape(), {&sequence, 1});
      cache.advance(count);
      add(all, out);
    }
    return all;
  }

  /// Each token's output from scratch: what the cache holds for it, lined up in slots 0, 1, ... and rotated there.
  std::vector<float> from_scratch() const {
    std::vector<float> all;
    for (std::size_t token = 0; token < kTokens; ++token) {
      std::vector<std::size_t> held;
      for (std::size_t i = 0; i <= token; ++i) {
        if (i < sinks || i + window > token) held.push_back(i);
      }
      KeyValueCache plain(kShape, {.type = CacheType::kF32, .capacity = held.size()});
      for (std::size_t slot = 0; slot < held.size(); ++slot) {
        plain.append(0, rotated(keys, held[slot], kShape.kv_heads, slot).data(), kShape.kv_heads * kSize,
                     values.data() + held[slot] * kShape.kv_heads * kValueSize, kShape.kv_heads * kValueSize, 1);
        plain.advance(1);
      }
      const std::vector<float> token_q = rotated(q, token, kHeads, held.size() - 1);
      std::vector<float> out(kHeads * kValueSize);
      kernels::AttentionShape everything = shape();
      everything.window = everything.sinks = 0;
      kernels::reference::attention(
          everything,
          {.q = token_q.data(), .q_stride = kHeads * kSize, .queries = 1, .kv = plain.view(0, 0), .out = out.data()});
      all.insert(all.end(), out.begin(), out.end());
    }
    return all;
  }
};

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double difference = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) difference = std::max(difference, std::fabs(double{a[i]} - double{b[i]}));
  return difference;
}

TEST_CASE(
    "a rolling cache equals attention from scratch over sinks and window at the positions of their slots, however "
    "many tokens it is fed at once") {
  for (const std::size_t window : {1, 9, 40}) {
    for (const std::size_t sinks : {0, 1, 4}) {
      CAPTURE(window);
      CAPTURE(sinks);
      Streaming streaming = {.window = window, .sinks = sinks};
      const std::vector<float> expected = streaming.from_scratch();
      for (const std::size_t batch : {1, 2, 3, 7, 40, 150}) {
        CAPTURE(batch);
        CHECK(largest_difference(streaming.run(CacheType::kF32, batch), expected) <= 2e-5);
        CHECK(largest_difference(streaming.run(CacheType::kF16, batch), expected) <= 5e-3);
        CHECK(largest_difference(streaming.run(CacheType::kInt8, batch), expected) <= 0.1);
      }
    }
  }
}

}  // namespace
}  // namespace ballast::model
