// The same products with oneDNN's matmul: what our own kernels are weighed against before oneDNN would replace one.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <oneapi/dnnl/dnnl.hpp>

namespace {

using dnnl::memory;

/// src [m][cols] times wei [cols][rows], weights reordered once to the layout that oneDNN likes best.
void onednn_matmul(benchmark::State& state, memory::data_type src_type, memory::data_type wei_type,
                   memory::data_type dst_type) {
  const memory::dim rows = state.range(0), cols = state.range(1), m = state.range(2);
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const memory::desc src_desc({m, cols}, src_type, memory::format_tag::ab);
  const memory::desc wei_desc({cols, rows}, wei_type, memory::format_tag::any);
  const memory::desc dst_desc({m, rows}, dst_type, memory::format_tag::ab);
  const dnnl::matmul::primitive_desc description(engine, src_desc, wei_desc, dst_desc);
  const dnnl::matmul product(description);
  memory plain({{cols, rows}, wei_type, memory::format_tag::ba}, engine);
  memory src(src_desc, engine), wei(description.weights_desc(), engine), dst(dst_desc, engine);
  dnnl::reorder(plain, wei).execute(stream, plain, wei);
  for (auto _ : state) {
    product.execute(stream, {{DNNL_ARG_SRC, src}, {DNNL_ARG_WEIGHTS, wei}, {DNNL_ARG_DST, dst}});
    stream.wait();
  }
  const double operations = 2.0 * static_cast<double>(m) * static_cast<double>(rows) * static_cast<double>(cols);
  state.counters["GOP/s"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * operations * 1e-9, benchmark::Counter::kIsRate);
}

void shapes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"rows", "cols", "m"})->UseRealTime()->Unit(benchmark::kMicrosecond);
  const std::int64_t layers[][2] = {{576, 576}, {192, 576}, {1536, 576}, {576, 1536}, {49152, 576}};
  for (const auto& layer : layers) {
    for (const std::int64_t m : {32, 128, 512}) bench->Args({layer[0], layer[1], m});
  }
}

BENCHMARK_CAPTURE(onednn_matmul, f32, memory::data_type::f32, memory::data_type::f32, memory::data_type::f32)
    ->Apply(shapes);
BENCHMARK_CAPTURE(onednn_matmul, u8s8s32, memory::data_type::u8, memory::data_type::s8, memory::data_type::s32)
    ->Apply(shapes);

}  // namespace
