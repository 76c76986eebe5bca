// Attention over caches of several depths at the shapes of real models.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "bench/limits.h"
#include "bench/random_data.h"
#include "kernels/attention/attention.h"

namespace ballast::bench {
namespace {

using kernels::CacheType;
using kernels::RowKind;

/// Keys or values of one layer.
class CacheRows {
 public:
  CacheRows(CacheType type, RowKind kind, std::size_t heads, std::size_t length, std::size_t size)
      : rows_{.type = type, .kind = kind, .heads = heads, .capacity = length, .size = size},
        data_(heads * kernels::stored_slots(type, length) * kernels::stored_row_bytes(type, kind, size)),
        scales_(type == CacheType::kInt8 ? heads * kernels::stored_slots(type, length) : 0) {
    rows_.data = data_.data();
    rows_.scales = scales_.data();
    kernels::store_rows(random_floats(length * heads * size).data(), heads * size, length, 0, rows_);
  }

  kernels::CachedRows view() const {
    return {.data = data_.data(),
            .type = rows_.type,
            .kind = rows_.kind,
            .capacity = rows_.capacity,
            .scales = scales_.data(),
            .exact_rows = nullptr,
            .exact = nullptr};
  }
  std::size_t bytes() const { return data_.size() + scales_.size() * sizeof(float); }

 private:
  kernels::WritableRows rows_;
  std::vector<char> data_;
  std::vector<float> scales_;
};

/// The last `queries` of depth + queries tokens. One query walks through as many layers as leave the caches.
void cached_attention(benchmark::State& state, CacheType type) {
  const auto argument = [&](int i) { return static_cast<std::size_t>(state.range(i)); };
  const std::size_t heads = argument(0), kv_heads = argument(1), size = argument(2);
  const std::size_t queries = argument(3), length = argument(4) + queries;
  std::vector<std::pair<CacheRows, CacheRows>> layers;
  std::size_t bytes = 0;
  do {
    layers.emplace_back(CacheRows(type, RowKind::kKeys, kv_heads, length, size),
                        CacheRows(type, RowKind::kValues, kv_heads, length, size));
    bytes = layers.back().first.bytes() + layers.back().second.bytes();
  } while (queries == 1 && layers.size() < copies_beyond_caches(bytes));
  const std::vector<float> q = random_floats(queries * heads * size);
  std::vector<float> out(q.size());
  const kernels::AttentionShape shape = {.heads = heads, .kv_heads = kv_heads, .head_size = size, .scale = 0.1F};
  std::size_t turn = 0;
  for (auto _ : state) {
    const auto& [keys, values] = layers[turn++ % layers.size()];
    const kernels::AttentionSequence sequence = {.q = q.data(),
                                                 .q_stride = heads * size,
                                                 .queries = queries,
                                                 .kv = {.keys = keys.view(), .values = values.view(), .length = length},
                                                 .out = out.data()};
    kernels::attention(shape, {&sequence, 1});
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
