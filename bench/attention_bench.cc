// Attention over caches of several depths at the shapes of real models.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "bench/limits.h"
#include "bench/random_data.h"
#include "kernels/attention/attention.h"
#include "model/forward/page_pool.h"

namespace ballast::bench {
namespace {

using kernels::CacheType;
using kernels::RowKind;

/// Keys and values of one layer.
class CachedLayer {
 public:
  CachedLayer(CacheType type, std::size_t heads, std::size_t length, std::size_t size, model::PagePool& pool)
      : layout_(type, heads, size, size) {
    const std::vector<float> rows = random_floats(length * heads * size);
    std::vector<std::byte*> writable;
    for (std::size_t first = 0; first < length; first += kernels::kPageTokens) {
      writable.push_back(memory_.emplace_back(pool.take(layout_.bytes())).data());
      pages_.push_back({.data = writable.back(), .fp16_rows = nullptr});
    }
    for (const RowKind kind : {RowKind::kKeys, RowKind::kValues}) {
      kernels::store_rows(rows.data(), heads * size, length, layout_, kind, writable, 0);
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

/// The last `queries` of depth + queries tokens. One query walks through as many layers as leave the caches.
void cached_attention(benchmark::State& state, CacheType type) {
  const auto argument = [&](int i) { return static_cast<std::size_t>(state.range(i)); };
  const std::size_t heads = argument(0), kv_heads = argument(1), size = argument(2);
  const std::size_t queries = argument(3), length = argument(4) + queries;
  const std::shared_ptr<model::PagePool> pool = model::PagePool::make();
  std::list<CachedLayer> layers;
  std::size_t bytes = 0;
  do {
    bytes = layers.emplace_back(type, kv_heads, length, size, *pool).bytes();
  } while (queries == 1 && layers.size() < copies_beyond_caches(bytes));
  const std::vector<float> q = random_floats(queries * heads * size);
  std::vector<float> out(q.size());
  const kernels::AttentionShape shape = {.heads = heads, .kv_heads = kv_heads, .head_size = size, .scale = 0.1F};
  auto layer = layers.begin();
  for (auto _ : state) {
    const kernels::AttentionSequence sequence = {
        .q = q.data(), .q_stride = heads * size, .queries = queries, .kv = layer->view(length), .out = out.data()};
    kernels::attention(shape, {&sequence, 1});
    if (++layer == layers.end()) layer = layers.begin();
  }
  const double seen = static_cast<double>(length) - static_cast<double>(queries - 1) / 2;
  report(state, {.operations = 4.0 * static_cast<double>(heads * size * queries) * seen,
                 .bytes = static_cast<double>(bytes),
                 .peak_gops = type == CacheType::kInt8 ? limits().int8_gops : limits().f32_gflops});
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

}  // namespace
}  // namespace ballast::bench
