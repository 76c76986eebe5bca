// Measures attention over caches of several depths with the shapes of real models.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "bench/limits.h"
#include "bench/random_data.h"
#include "kernels/attention/attention.h"
#include "model/cache/page_pool.h"

namespace ballast::bench {
namespace {

using kernels::CacheType;
using kernels::RowKind;

/// Numbers of query and key heads, and channels of a key and of a value.
struct Heads {
  std::size_t queries, keys, key_size, value_size;
  bool values_in_keys = false;
};

/// Keys and values of one layer.
class CachedLayer {
 public:
  CachedLayer(CacheType type, const Heads& heads, std::size_t length, model::PagePool& pool)
      : layout_(type, heads.keys, heads.key_size, heads.value_size, heads.values_in_keys) {
    const std::vector<float> rows = random_floats(length * heads.keys * heads.key_size);
    std::vector<std::byte*> writable;
    for (std::size_t first = 0; first < length; first += kernels::kPageTokens) {
      writable.push_back(memory_.emplace_back(pool.take(layout_.bytes())).data());
      pages_.push_back({.data = writable.back(), .fp16_rows = nullptr});
    }
    for (const RowKind kind : {RowKind::kKeys, RowKind::kValues}) {
      if (kind == RowKind::kValues && heads.values_in_keys) continue;
      kernels::store_rows(rows.data(), heads.keys * heads.key_size, length, layout_, kind, writable, 0);
    }
  }

  kernels::KeyValueView view(std::size_t length) const {
    return {.layout = &layout_, .pages = pages_, .order = {}, .key_bias = {}, .length = length};
  }
  std::size_t bytes() const { return pages_.size() * layout_.bytes(); }

 private:
  kernels::PageLayout layout_;
  std::vector<model::PageRef> memory_;
  std::vector<kernels::CachePage> pages_;
};

/// Measures attention of the last `queries` of depth + queries tokens. With a single query, the benchmark goes through
/// several layers in turn, so that their caches have left the processor's.
void attend(benchmark::State& state, CacheType type, const Heads& heads, std::size_t queries, std::size_t depth) {
  const std::size_t length = depth + queries;
  const std::shared_ptr<model::PagePool> pool = model::PagePool::make();
  std::list<CachedLayer> layers;
  std::size_t bytes = 0;
  do {
    bytes = layers.emplace_back(type, heads, length, *pool).bytes();
  } while (queries == 1 && layers.size() < copies_beyond_caches(bytes));
  const std::size_t row = heads.queries * heads.key_size;
  const std::vector<float> q = random_floats(queries * row);
  std::vector<float> out(queries * heads.queries * heads.value_size);
  const kernels::AttentionShape shape = {.heads = heads.queries,
                                         .kv_heads = heads.keys,
                                         .head_size = heads.key_size,
                                         .scale = 0.1F,
                                         .value_size = heads.value_size};
  auto layer = layers.begin();
  for (auto _ : state) {
    const kernels::AttentionSequence sequence = {
        .q = q.data(), .q_stride = row, .queries = queries, .kv = layer->view(length), .out = out.data()};
    kernels::attention(shape, {&sequence, 1});
    if (++layer == layers.end()) layer = layers.begin();
  }
  const double seen = static_cast<double>(length) - static_cast<double>(queries - 1) / 2;
  const std::size_t products = heads.queries * (heads.key_size + heads.value_size) * queries;
  report(state, {.operations = 2.0 * static_cast<double>(products) * seen,
                 .bytes = static_cast<double>(bytes),
                 .peak_gops = type == CacheType::kInt8 ? limits().int8_gops : limits().f32_gflops});
}

void cached_attention(benchmark::State& state, CacheType type) {
  const auto argument = [&](int i) { return static_cast<std::size_t>(state.range(i)); };
  const std::size_t size = argument(2);
  attend(state, type, {.queries = argument(0), .keys = argument(1), .key_size = size, .value_size = size}, argument(3),
         argument(4));
}

/// Measures DeepSeek-V2-Lite's attention over latent vectors, or over the expanded keys and values.
void latent_attention(benchmark::State& state, CacheType type, bool expanded) {
  const Heads latent = {.queries = 16, .keys = 1, .key_size = 576, .value_size = 512, .values_in_keys = true};
  const Heads heads = {.queries = 16, .keys = 16, .key_size = 192, .value_size = 128};
  attend(state, type, expanded ? heads : latent, static_cast<std::size_t>(state.range(0)),
         static_cast<std::size_t>(state.range(1)));
}

void shapes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"heads", "kv_heads", "size", "queries", "depth"});
  const std::int64_t models[][3] = {{9, 3, 64}, {12, 2, 128}, {28, 4, 128}};  // SmolLM2-135M, Qwen2.5-1.5B and 7B
  for (const auto& model : models) {
    for (const std::int64_t queries : {1, 512}) {
      for (const std::int64_t depth : {512, 4096, 32768}) bench->Args({model[0], model[1], model[2], queries, depth});
    }
  }
  bench->UseRealTime()->Unit(benchmark::kMicrosecond);
}

BENCHMARK_CAPTURE(cached_attention, int8, CacheType::kInt8)->Apply(shapes);
BENCHMARK_CAPTURE(cached_attention, f16, CacheType::kF16)->Apply(shapes);

void latent_shapes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"queries", "depth"});
  for (const std::int64_t queries : {1, 512}) {
    for (const std::int64_t depth : {512, 4096}) bench->Args({queries, depth});
  }
  bench->UseRealTime()->Unit(benchmark::kMicrosecond);
}

BENCHMARK_CAPTURE(latent_attention, int8, CacheType::kInt8, false)->Apply(latent_shapes);
BENCHMARK_CAPTURE(latent_attention, f16, CacheType::kF16, false)->Apply(latent_shapes);
BENCHMARK_CAPTURE(latent_attention, int8_expanded, CacheType::kInt8, true)->Apply(latent_shapes);
BENCHMARK_CAPTURE(latent_attention, f16_expanded, CacheType::kF16, true)->Apply(latent_shapes);

}  // namespace
}  // namespace ballast::bench
