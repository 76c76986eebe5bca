#include "model/cache/key_value_cache.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <span>
#include <vector>

#include "error_message.h"
#include "kernels/attention/attention.h"
#include "kernels/reference/reference.h"
#include "kernels/rope.h"
#include "model/mixer/mixer_kind.h"
#include "random_floats.h"

namespace ballast::model {
namespace {

using test::random_floats;

using kernels::CacheType;
using kernels::kPageTokens;
using kernels::RowKind;

constexpr CacheShape kSmall = {.kv_heads = 2, .key_size = 3, .value_size = 4};

/// Returns one value of a cache of type F32.
float stored(const kernels::KeyValueView& view, RowKind kind, std::size_t head, std::size_t position, std::size_t c) {
  const std::byte* rows = view.page_of(position).data + view.layout->rows_at(kind, head);
  return kernels::reference::read_value(rows, kernels::FloatType::kF32,
                                        position % kPageTokens * view.layout->size(kind) + c);
}

/// Appends tokens with random keys and values, dense, with the sizes of kSmall, and advances.
void feed(KeyValueCache& cache, std::size_t count, unsigned seed, std::span<const std::uint8_t> fp16_tokens = {}) {
  const std::vector<float> rows = random_floats(count * 8, seed);
  cache.append(0, rows.data(), 8, rows.data(), 8, count, fp16_tokens);
  cache.advance(count);
}

TEST_CASE("a cache returns the appended keys and values, per layer and head, across pages") {
  constexpr std::size_t kKeyStride = 10, kValueStride = 11, kTokens = 300;
  KeyValueCache cache({kSmall, kSmall}, {.type = CacheType::kF32, .capacity = kTokens});
  const std::vector<float> keys = random_floats(kTokens * kKeyStride, 1);
  const std::vector<float> values = random_floats(kTokens * kValueStride, 2);
  for (const std::size_t layer : {0, 1}) {
    cache.append(layer, keys.data(), kKeyStride, values.data(), kValueStride, 1);
  }
  cache.advance(1);
  cache.append(1, keys.data() + kKeyStride, kKeyStride, values.data() + kValueStride, kValueStride, kTokens - 1);
  CHECK(cache.length() == 1);
  CHECK(cache.room() == kTokens - 1);
  CHECK(cache.view(0, 0).length == 1);
  const kernels::KeyValueView view = cache.view(1, kTokens - 1);
  CHECK(view.length == kTokens);
  for (std::size_t head = 0; head < 2; ++head) {
    for (std::size_t token = 0; token < kTokens; ++token) {
      for (std::size_t c = 0; c < 3; ++c) {
        REQUIRE(stored(view, RowKind::kKeys, head, token, c) == keys[token * kKeyStride + head * 3 + c]);
      }
      for (std::size_t c = 0; c < 4; ++c) {
        REQUIRE(stored(view, RowKind::kValues, head, token, c) == values[token * kValueStride + head * 4 + c]);
      }
    }
  }
}

TEST_CASE("layers may differ in heads and sizes, and a layer without a cache takes no memory") {
  KeyValueCache cache({{.kv_heads = 1, .key_size = 5, .value_size = 2}, {}, kSmall},
                      {.type = CacheType::kF32, .capacity = 10});
  const std::vector<float> rows = random_floats(std::size_t{2} * 8, 1);
  cache.append(0, rows.data(), 5, rows.data(), 2, 2);
  const std::size_t one = cache.memory_bytes();
  CHECK(one == kPageTokens * (5 + 2) * sizeof(float));
  cache.append(2, rows.data(), 6, rows.data(), 8, 2);
  CHECK(cache.memory_bytes() == one + kPageTokens * 2 * (3 + 4) * sizeof(float));
  cache.advance(2);
  CHECK(cache.bytes_in_use() == sizeof(float) * 2 * (5 + 2 + 2 * (3 + 4)));
  CHECK(stored(cache.view(0, 0), RowKind::kKeys, 0, 1, 4) == rows[9]);
  CHECK(stored(cache.view(2, 0), RowKind::kValues, 1, 1, 3) == rows[15]);
}

TEST_CASE("a cache counts the bytes of the tokens that attention reads") {
  KeyValueCache cache(std::vector(7, kSmall), {.type = CacheType::kF16, .capacity = 100});
  CHECK(cache.bytes_in_use() == 0);
  cache.advance(10);
  CHECK(cache.bytes_in_use() == 7 * 2 * 10 * (3 + 4) * 2);
  cache.truncate(1);
  CHECK(cache.length() == 1);
  CHECK(cache.bytes_in_use() == 7 * 2 * 1 * (3 + 4) * 2);
  KeyValueCache rolling(std::vector(7, kSmall),
                        {.type = CacheType::kInt8, .window = 20, .sinks = 4, .largest_append = 8});
  rolling.advance(1000);
  CHECK(rolling.bytes_in_use() == 7 * 2 * (20 * (4 + 16 + 8) + 4 * (3 + 4) * 2));  // codes in whole vectors

  CacheShape windowed = kSmall;
  windowed.window = 8;
  KeyValueCache mixed({kSmall, windowed}, {.type = CacheType::kF16, .capacity = 100});
  mixed.advance(5);
  CHECK(mixed.bytes_in_use() == 2 * (5 + 5) * (3 + 4) * 2);
  mixed.advance(45);
  CHECK(mixed.bytes_in_use() == 2 * (50 + 8) * (3 + 4) * 2);
}

TEST_CASE("a token of DeepSeek-V2-Lite takes 31.1 kB of a cache in F16, latent vectors and the rotated part of keys") {
  const LatentAttentionSpec latent = {.attention = {.heads = 16,
                                                    .kv_heads = 16,
                                                    .head_size = 192,
                                                    .value_size = 128,
                                                    .rope = RopeSpec{.rotary_size = 64}},
                                      .query_rank = 0,
                                      .key_value_rank = 512};
  const std::vector<CacheShape> layers(27, cache_shape({.mixer = latent, .mlp = {}}));
  KeyValueCache cache(layers, {.type = CacheType::kF16, .capacity = 10});
  cache.advance(1);
  CHECK(cache.bytes_in_use() == 31104);
  CHECK(cache.page_bytes() == 31104 * kPageTokens);
  KeyValueCache int8(layers, {.type = CacheType::kInt8, .capacity = 10});
  int8.advance(1);
  CHECK(int8.bytes_in_use() == 27 * (512 + 64 + 2 * sizeof(float)));
}

TEST_CASE("memory grows with a cache's length, page by page, and shrinks with it") {
  for (const CacheType type : {CacheType::kF32, CacheType::kF16, CacheType::kInt8}) {
    KeyValueCache cache({kSmall}, {.type = type, .capacity = 1000000});
    CHECK(cache.memory_bytes() == 0);
    feed(cache, 1, 1);
    const std::size_t page = cache.memory_bytes();
    CHECK(page == kernels::PageLayout(type, 2, 3, 4).bytes());
    feed(cache, kPageTokens - 1, 2);
    CHECK(cache.memory_bytes() == page);
    feed(cache, kPageTokens + 1, 3);
    CHECK(cache.memory_bytes() == 3 * page);
    cache.truncate(kPageTokens);
    CHECK(cache.memory_bytes() == page);
  }
}

TEST_CASE("a rolling cache keeps its memory for inputs of any length") {
  for (const CacheType type : {CacheType::kF32, CacheType::kF16, CacheType::kInt8}) {
    KeyValueCache cache({kSmall}, {.type = type, .window = 20, .sinks = 4, .largest_append = 8});
    const std::vector<std::uint8_t> fp16 = {1, 0, 0, 0, 0, 1, 0, 0};
    std::size_t once_full = 0;
    for (unsigned i = 0; i < 200; ++i) {
      feed(cache, 8, i, fp16);
      if (cache.length() == 2 * kPageTokens) once_full = cache.memory_bytes();  // a page of the sinks, one of the ring
    }
    CHECK(cache.length() == 1600);
    CHECK(cache.room() == kPageTokens - 20);
    CHECK(cache.memory_bytes() == once_full);
    CHECK(cache.slot(3) == 3);
    CHECK(cache.slot(799) == 23);
  }
}

TEST_CASE("a rolling cache can be truncated until a token that would be visible is overwritten") {
  KeyValueCache cache({kSmall}, {.type = CacheType::kInt8, .window = 20, .sinks = 4, .largest_append = 8});
  for (unsigned i = 0; i < 4; ++i) feed(cache, 64, i);  // the page of the sinks and the ring's only one
  for (std::size_t length = 0; length <= 256; ++length) CHECK(cache.can_truncate_to(length));
  CHECK(!cache.can_truncate_to(257));
  feed(cache, 1, 4);                   // over position 128
  CHECK(!cache.can_truncate_to(147));  // it sees 128 .. 146
  CHECK(cache.can_truncate_to(148));   // it sees 129 .. 147
  CHECK(!cache.can_truncate_to(129));
  CHECK(cache.can_truncate_to(128));  // it sees the page of the sinks
  cache.truncate(148);
  CHECK(cache.can_truncate_to(148));
  CHECK(!cache.can_truncate_to(147));  // position 128 is lost
}

TEST_CASE("FP16 tokens release their memory when they are overwritten") {
  KeyValueCache cache({kSmall}, {.type = CacheType::kInt8, .window = 4, .sinks = 1, .largest_append = 2});
  const auto feed_page = [&](std::size_t fp16) {
    std::vector<std::uint8_t> flags(kPageTokens / 2, 0);
    std::fill_n(flags.begin(), fp16, std::uint8_t{1});
    feed(cache, flags.size(), 1, flags);
    feed(cache, flags.size(), 2);
  };
  feed_page(2);  // includes the sink
  CHECK(cache.fp16_tokens(0) == 2);
  feed_page(9);
  CHECK(cache.fp16_tokens(0) == 11);
  const std::size_t memory = cache.memory_bytes();
  feed_page(0);  // overwrites the last tokens
  CHECK(cache.fp16_tokens(0) == 2);
  feed_page(7);
  CHECK(cache.fp16_tokens(0) == 9);
  CHECK(cache.memory_bytes() == memory);
  cache.truncate(cache.length() - kPageTokens + 3);
  CHECK(cache.fp16_tokens(0) == 5);
}

TEST_CASE("an INT8 cache keeps sinks in F16 by default") {
  KeyValueCache cache({kSmall}, {.type = CacheType::kInt8, .window = 4, .sinks = 3, .largest_append = 2});
  feed(cache, 2, 1);
  CHECK(cache.fp16_tokens(0) == 2);
  feed(cache, 9, 2);
  CHECK(cache.fp16_tokens(0) == 3);
}

TEST_CASE("an INT8 cache reads an FP16 token's own digits") {
  KeyValueCache cache({kSmall}, {.type = CacheType::kInt8, .capacity = 4});
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

TEST_CASE("tokens that do not fit are refused, and change nothing") {
  const std::vector<float> rows = random_floats(std::size_t{200} * 8, 1);
  for (const CacheType type : {CacheType::kF32, CacheType::kF16, CacheType::kInt8}) {
    const auto append = [&](KeyValueCache& cache, std::size_t count) {
      cache.append(0, rows.data(), 8, rows.data(), 8, count);
    };
    KeyValueCache cache({kSmall}, {.type = type, .capacity = 5});
    CHECK(test::error_message([&] { append(cache, 6); }) == test::Contains("6 tokens at once do not fit after 0 of 5"));
    CHECK(cache.memory_bytes() == 0);
    append(cache, 5);
    cache.advance(5);
    CHECK(test::error_message([&] { append(cache, 1); }) == test::Contains("1 tokens at once do not fit after 5 of 5"));

    KeyValueCache rolling({kSmall}, {.type = type, .window = 20, .largest_append = 8});
    CHECK(rolling.room() == 108);
    CHECK(test::error_message([&] { append(rolling, 109); }) == test::Contains("a rolling cache that takes 108"));
    append(rolling, 108);
  }
}

/// One layer of attention over a rolling cache: unrotated queries, keys and values of a long text, and the rotation.
struct Streaming {
  static constexpr std::size_t kTokens = 400, kHeads = 4, kSize = 16, kValueSize = 8;
  static constexpr CacheShape kShape = {.kv_heads = 2, .key_size = kSize, .value_size = kValueSize};
  std::size_t window;
  std::size_t sinks;
  std::vector<float> q = random_floats(kTokens * kHeads * kSize, 1);
  std::vector<float> keys = random_floats(kTokens * kShape.kv_heads * kSize, 2);
  std::vector<float> values = random_floats(kTokens * kShape.kv_heads * kValueSize, 3);

  kernels::AttentionShape shape() const {
    return {.heads = kHeads, .kv_heads = kShape.kv_heads, .head_size = kSize, .scale = 0.25F, .value_size = kValueSize};
  }

  /// Returns a token's heads, rotated for `position`.
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

  /// Returns the outputs of all tokens, which are appended in batches.
  std::vector<float> run(CacheType type, std::size_t batch) const {
    KeyValueCache cache({kShape}, {.type = type, .window = window, .sinks = sinks, .largest_append = batch});
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
                                                   .window = window,
                                                   .sinks = sinks,
                                                   .sink_q = batch_sink_q.data(),
                                                   .sink_q_stride = kHeads * kSize};
      kernels::attention(shape(), {&sequence, 1});
      cache.advance(count);
      add(all, out);
    }
    return all;
  }

  /// Computes each token's output without a rolling cache: the tokens that the cache holds for it are put in slots 0,
  /// 1, ... and rotated there.
  std::vector<float> from_scratch() const {
    std::vector<float> all;
    for (std::size_t token = 0; token < kTokens; ++token) {
      std::vector<std::size_t> held;
      for (std::size_t i = 0; i <= token; ++i) {
        if (i < sinks || i + window > token) held.push_back(i);
      }
      KeyValueCache plain({kShape}, {.type = CacheType::kF32, .capacity = held.size()});
      for (std::size_t slot = 0; slot < held.size(); ++slot) {
        plain.append(0, rotated(keys, held[slot], kShape.kv_heads, slot).data(), kShape.kv_heads * kSize,
                     values.data() + held[slot] * kShape.kv_heads * kValueSize, kShape.kv_heads * kValueSize, 1);
        plain.advance(1);
      }
      const std::vector<float> token_q = rotated(q, token, kHeads, held.size() - 1);
      std::vector<float> out(kHeads * kValueSize);
      kernels::reference::attention(
          shape(),
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
  for (const std::size_t window : {1, 9, 140}) {
    for (const std::size_t sinks : {0, 1, 4}) {
      CAPTURE(window);
      CAPTURE(sinks);
      Streaming streaming = {.window = window, .sinks = sinks};
      const std::vector<float> expected = streaming.from_scratch();
      for (const std::size_t batch : {1, 7, 40, 150, 400}) {
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
