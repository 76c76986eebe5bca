// Attention over real caches gives a sequence the same bits alone and in any batch, with shared pages or not.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "every_target.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/key_bias.h"
#include "kernels/rope.h"
#include "model/cache/key_value_cache.h"
#include "random_floats.h"
#include "with_threads.h"

namespace ballast::model {
namespace {

using test::random_floats;

using kernels::CacheType;

constexpr std::size_t kHeads = 4, kKvHeads = 2, kSize = 24, kValueSize = 20;
constexpr CacheShape kShape = {.kv_heads = kKvHeads, .key_size = kSize, .value_size = kValueSize};
constexpr kernels::AttentionShape kAttention = {
    .heads = kHeads, .kv_heads = kKvHeads, .head_size = kSize, .scale = 0.3F, .value_size = kValueSize};

const kernels::KeyRotation& rotation() {
  static const kernels::KeyRotation instance = [] {
    std::vector<double> frequencies;
    for (std::size_t j = 0; j < kSize / 2; ++j) {
      frequencies.push_back(std::pow(1e-3, 2.0 * static_cast<double>(j) / kSize));
    }
    return kernels::KeyRotation(frequencies, 1.0, 0);
  }();
  return instance;
}

/// The queries, keys and values of a text in one layer, and the options of its cache.
struct Text {
  KeyValueCacheOptions options;
  std::size_t length;
  std::vector<float> q, sink_q, keys, values, bias, cos, sin;
  std::vector<std::uint8_t> fp16_tokens;

  Text(const KeyValueCacheOptions& cache, std::size_t tokens, bool with_bias, unsigned seed)
      : options(cache),
        length(tokens),
        q(random_floats(tokens * kHeads * kSize, seed)),
        sink_q(random_floats(tokens * kHeads * kSize, seed + 1)),
        keys(random_floats(tokens * kKvHeads * kSize, seed + 2)),
        values(random_floats(tokens * kKvHeads * kValueSize, seed + 3)) {
    if (with_bias) bias = random_floats(kKvHeads * kSize, seed + 4);
    std::mt19937 random(seed);
    for (std::size_t i = 0; i < tokens; ++i) {
      fp16_tokens.push_back(random() % 20 == 0 ? 1 : 0);
      std::vector<double> angles(kSize);
      rotation().at(static_cast<double>(i), angles.data());
      cos.insert(cos.end(), angles.begin(), angles.begin() + kSize / 2);
      sin.insert(sin.end(), angles.begin() + kSize / 2, angles.end());
    }
  }

  KeyValueCache cache() const { return {{kShape}, options}; }

  /// Appends the next `count` tokens, and returns the sequence of their queries, which writes to `out`.
  kernels::AttentionSequence append(KeyValueCache& cache, std::size_t count, std::vector<float>& out) const {
    const std::size_t first = cache.length();
    const kernels::KeyBias key_bias = {bias.empty() ? nullptr : bias.data(), &rotation()};
    cache.append(0, keys.data() + first * kKvHeads * kSize, kKvHeads * kSize,
                 values.data() + first * kKvHeads * kValueSize, kKvHeads * kValueSize, count,
                 std::span(fp16_tokens).subspan(first, count),
                 {key_bias, cos.data() + first * kSize / 2, sin.data() + first * kSize / 2});
    out.assign(count * kHeads * kValueSize, 0.0F);
    kernels::AttentionSequence sequence = {.q = q.data() + first * kHeads * kSize,
                                           .q_stride = kHeads * kSize,
                                           .queries = count,
                                           .kv = cache.view(0, count),
                                           .out = out.data(),
                                           .window = options.window,
                                           .sinks = options.sinks};
    sequence.kv.key_bias = key_bias;
    if (options.sinks != 0) {
      sequence.sink_q = sink_q.data() + first * kHeads * kSize;
      sequence.sink_q_stride = kHeads * kSize;
    }
    return sequence;
  }

  /// Returns the outputs of the tokens that follow those of a cache, from separate calls of at most `piece` tokens.
  std::vector<float> alone(KeyValueCache& cache, std::size_t piece) const {
    std::vector<float> all, out;
    while (cache.length() < length) {
      const std::size_t count = std::min(piece, length - cache.length());
      const kernels::AttentionSequence sequence = append(cache, count, out);
      kernels::attention(kAttention, {&sequence, 1});
      cache.advance(count);
      all.insert(all.end(), out.begin(), out.end());
    }
    return all;
  }
};

/// Returns 16 texts of 1 to 700 tokens in caches of all kinds.
std::vector<Text> random_texts(std::mt19937& random) {
  std::vector<Text> texts;
  for (unsigned i = 0; i < 16; ++i) {
    KeyValueCacheOptions options = {.type = std::array{CacheType::kF32, CacheType::kF16, CacheType::kInt8}[i % 3],
                                    .capacity = 700};
    if (i % 2 == 1) {
      options.window = 1 + random() % 300;
      options.sinks = random() % 5;
      options.largest_append = 1 + random() % 100;
    }
    texts.emplace_back(options, i == 0 ? 700 : 1 + random() % 700, i % 4 == 2, 100 * i);
  }
  return texts;
}

/// Returns the outputs of all texts from random batches and pieces.
std::vector<std::vector<float>> in_company(const std::vector<Text>& texts, std::mt19937& random) {
  std::vector<KeyValueCache> caches;
  for (const Text& text : texts) caches.push_back(text.cache());
  std::vector<std::vector<float>> outputs(texts.size()), parts(texts.size());
  for (;;) {
    std::vector<kernels::AttentionSequence> batch;
    std::vector<std::size_t> members;
    bool left = false;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const std::size_t rest = texts[i].length - caches[i].length();
      left |= rest > 0;
      if (rest == 0 || random() % 3 == 0) continue;
      const std::size_t most = random() % 2 == 0 ? 1 : std::min(rest, caches[i].room());
      batch.push_back(texts[i].append(caches[i], 1 + random() % most, parts[i]));
      members.push_back(i);
    }
    if (!left) return outputs;
    kernels::attention(kAttention, batch);
    for (std::size_t k = 0; k < batch.size(); ++k) {
      caches[members[k]].advance(batch[k].queries);
      outputs[members[k]].insert(outputs[members[k]].end(), parts[members[k]].begin(), parts[members[k]].end());
    }
  }
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

TEST_CASE(
    "16 sequences of 1 to 700 tokens in caches of every type, rolling and not, get the same bits in random batches and "
    "pieces, with any number of threads, as each alone") {
  std::mt19937 random(1);
  const std::vector<Text> texts = random_texts(random);
  test::for_every_target([&] {
    std::vector<std::vector<float>> alone;
    for (const Text& text : texts) {
      KeyValueCache cache = text.cache();
      alone.push_back(test::with_threads(1, [&] { return text.alone(cache, cache.room()); }));
    }
    for (const int threads : {1, 3}) {
      const auto outputs = test::with_threads(threads, [&] { return in_company(texts, random); });
      for (std::size_t i = 0; i < texts.size(); ++i) {
        CAPTURE(i);
        CHECK(same_bits(outputs[i], alone[i]));
      }
    }
  });
}

TEST_CASE("forks of a sequence share its pages, continue with the same bits, and do not affect each other") {
  std::mt19937 random(2);
  for (const CacheType type : {CacheType::kF32, CacheType::kF16, CacheType::kInt8}) {
    for (const bool rolling : {false, true}) {
      CAPTURE(static_cast<int>(type));
      CAPTURE(rolling);
      KeyValueCacheOptions options = {.type = type, .capacity = 700, .pool = PagePool::make()};
      if (rolling) options.window = 200, options.sinks = 3, options.largest_append = 150;
      const Text text(options, 600, type == CacheType::kInt8, 7);
      KeyValueCache whole = text.cache();
      const std::vector<float> expected = text.alone(whole, 100);

      // Another text has the same beginning of `common` tokens.
      for (const std::size_t common : {100, 128, 200, 383}) {
        CAPTURE(common);
        Text start = text;
        start.length = 400;
        KeyValueCache first = text.cache();
        start.alone(first, 80);
        const std::size_t before = options.pool->bytes_in_use();
        if (!first.can_truncate_to(common)) continue;
        KeyValueCache second = first.fork(common);
        KeyValueCache third = second.fork(common);
        CHECK(options.pool->bytes_in_use() == before);
        CHECK(second.length() == common);
        Text other = text;
        const Text different(options, 600, false, 1000);
        const auto replace_tail = [&](std::vector<float>& rows, const std::vector<float>& with) {
          const auto kept = static_cast<std::ptrdiff_t>(common * rows.size() / text.length);
          std::copy(with.begin() + kept, with.end(), rows.begin() + kept);
        };
        replace_tail(other.q, different.q);
        replace_tail(other.keys, different.keys);
        replace_tail(other.values, different.values);
        KeyValueCache fresh = text.cache();
        const std::vector<float> other_expected = other.alone(fresh, 64);
        const auto from = [](const std::vector<float>& outputs, std::size_t token) {
          return std::span(outputs).subspan(token * kHeads * kValueSize);
        };
        CHECK(same_bits(other.alone(second, 90), from(other_expected, common)));
        CHECK(same_bits(text.alone(first, 50), from(expected, 400)));
        CHECK(same_bits(text.alone(third, 7), from(expected, common)));
      }
    }
  }
}

TEST_CASE("a fork copies what it writes to, and nothing else") {
  for (const CacheType type : {CacheType::kF16, CacheType::kInt8}) {
    const std::shared_ptr<PagePool> pool = PagePool::make();
    const std::size_t page = kernels::PageLayout(type, kKvHeads, kSize, kValueSize).bytes();
    Text text({.type = type, .capacity = 700, .pool = pool}, 300, false, 1);
    std::ranges::fill(text.fp16_tokens, std::uint8_t{0});
    std::vector<float> out;
    KeyValueCache cache = text.cache();
    const auto feed = [&](KeyValueCache& to, std::size_t count) {
      text.append(to, count, out);
      to.advance(count);
    };
    feed(cache, 200);
    CHECK(pool->bytes_in_use() == 2 * page);
    KeyValueCache fork = cache.fork(200);
    KeyValueCache full_pages = cache.fork(128);
    feed(fork, 1);  // gets its own copy of the second page
    CHECK(pool->bytes_in_use() == 3 * page);
    feed(cache, 1);  // the first cache is now the only owner of its page
    CHECK(pool->bytes_in_use() == 3 * page);
    feed(full_pages, 1);
    CHECK(pool->bytes_in_use() == 4 * page);
    fork.truncate(0);
    CHECK(pool->bytes_in_use() == 3 * page);
    cache = full_pages;
    CHECK(pool->bytes_in_use() == 2 * page);
  }
}

}  // namespace
}  // namespace ballast::model
