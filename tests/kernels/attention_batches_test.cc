// Checks that attention for a query depends neither on other queries and sequences nor on the threads.
#include <algorithm>
#include <cstddef>
#include <random>
#include <span>
#include <vector>

#include "attention_case.h"
#include "kernel_cases.h"
#include "kernels/attention/attention.h"

namespace ballast::kernels {
namespace {

/// Divides `total` into runs of random lengths, about as many short as long ones.
std::vector<std::size_t> random_runs(std::size_t total, std::mt19937& random) {
  std::vector<std::size_t> runs;
  while (total > 0) {
    const std::size_t most = std::min<std::size_t>(total, std::size_t{1} << (random() % 10));
    runs.push_back(1 + random() % most);
    total -= runs.back();
  }
  return runs;
}

/// Runs all queries of some sequences, cut into random pieces that are batched randomly; each sequence's pieces are in
/// order.
std::vector<std::vector<float>> in_random_batches(const std::vector<AttentionData>& sequences, std::mt19937& random) {
  struct Piece {
    std::size_t sequence;
    std::size_t first;
    std::size_t count;
  };
  std::vector<std::vector<float>> outputs(sequences.size());
  std::vector<Piece> pieces;
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    outputs[s].resize(sequences[s].c.queries * sequences[s].c.heads * sequences[s].shape.output_size());
    std::size_t first = 0;
    for (const std::size_t count : random_runs(sequences[s].c.queries, random)) {
      pieces.push_back({s, first, count});
      first += count;
    }
  }
  std::shuffle(pieces.begin(), pieces.end(), random);
  std::span<const Piece> rest = pieces;
  while (!rest.empty()) {
    const std::span<const Piece> batch = rest.first(std::min<std::size_t>(rest.size(), 1 + random() % 8));
    rest = rest.subspan(batch.size());
    std::vector<std::vector<float>> out(batch.size());
    std::vector<AttentionSequence> entries;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      entries.push_back(sequences[batch[i].sequence].piece(batch[i].first, batch[i].count, out[i]));
    }
    attention(sequences.front().shape, entries);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const std::size_t row = out[i].size() / batch[i].count;
      std::ranges::copy(out[i], outputs[batch[i].sequence].begin() + static_cast<std::ptrdiff_t>(batch[i].first * row));
    }
  }
  return outputs;
}

/// Returns sequences that one call may hold: they differ in cache type, length, window and sinks.
std::vector<AttentionData> mixed_sequences(const AttentionCase& shape) {
  std::vector<AttentionData> sequences;
  unsigned seed = 40;
  for (const CacheType type : {CacheType::kF32, CacheType::kF16, CacheType::kInt8}) {
    for (const std::size_t length : {3, 700, 1300}) {
      for (const std::size_t window : {0, 100, 600}) {
        AttentionCase c = shape;
        c.type = type;
        c.length = length;
        c.queries = std::min<std::size_t>(length, 650);
        c.window = window;
        c.sinks = window == 0 ? 0 : length % 7;
        c.fp16_every = window == 100 ? 3 : 50;
        c.key_bias = length == 700 ? 5.0F : 0.0F;
        sequences.emplace_back(c, seed += 10);
      }
    }
  }
  return sequences;
}

TEST_CASE(
    "a query's output is the same bits alone, in any batch of sequences of any cache type, length and window, in a "
    "piece of any length, and for any number of threads") {
  const AttentionCase shapes[] = {{.heads = 6, .kv_heads = 2, .head_size = 24, .value_size = 40},
                                  {.heads = 2, .kv_heads = 1, .head_size = 5, .value_size = 1},
                                  {.heads = 4, .kv_heads = 2, .head_size = 16, .score_cap = 2.0F, .sink_logits = true},
                                  {.heads = 7, .kv_heads = 1, .head_size = 64},
                                  {.heads = 5, .head_size = 28, .value_size = 20, .values_in_keys = true},
                                  {.heads = 16, .head_size = 40, .value_size = 32, .values_in_keys = true}};
  std::mt19937 random(1);
  for (const AttentionCase& shape : shapes) {
    const std::vector<AttentionData> sequences = mixed_sequences(shape);
    for_every_target([&] {
      std::vector<std::vector<float>> alone;
      for (const AttentionData& data : sequences) alone.push_back(with_threads(1, [&] { return data.result().out; }));
      for (const int threads : {1, 2, 5}) {
        const auto batched = with_threads(threads, [&] { return in_random_batches(sequences, random); });
        for (std::size_t s = 0; s < sequences.size(); ++s) {
          CAPTURE(sequences[s].c);
          CHECK(same_bits(batched[s], alone[s]));
        }
      }
    });
  }
}

/// Checks one query, or two, with the parts of a long cache in separate tasks or in one.
void check_parts(AttentionCase c) {
  c.fp16_every = 100;
  const AttentionData data(c, 5);
  for_every_target([&] {
    CAPTURE(c);
    const AttentionResult one = with_threads(1, [&] { return data.result(); });
    for (const int threads : {2, 16}) {
      const AttentionResult more = with_threads(threads, [&] { return data.result(); });
      CHECK(same_bits(more.out, one.out));
      CHECK(more.share == one.share);
    }
  });
}

TEST_CASE("one query over a long cache has the same bits whether or not its parts are separate tasks") {
  for (const CacheType type : {CacheType::kF32, CacheType::kF16, CacheType::kInt8}) {
    for (const std::size_t window : {0, 1500}) {
      AttentionCase c = {.heads = 4, .kv_heads = 2, .head_size = 32, .queries = 2, .length = 3000, .type = type};
      c.window = window;
      c.sinks = window == 0 ? 0 : 4;
      c.key_bias = 3.0F;
      check_parts(c);
    }
    check_parts({.heads = 20,
                 .head_size = 36,
                 .queries = 1,
                 .length = 3000,
                 .value_size = 32,
                 .type = type,
                 .values_in_keys = true});
  }
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
