// Measures the same products with oneDNN's matmul, to decide whether oneDNN should replace one of our kernels.
#include <benchmark/benchmark.h>

#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <vector>

#include "bench/limits.h"
#include "bench/shapes.h"

namespace ballast::bench {
namespace {

using dnnl::memory;

struct Types {
  const char* name = "";
  memory::data_type src{}, wei{}, dst{};
  bool integer = false;
};

constexpr Types kTypes[] = {
    {"f32", memory::data_type::f32, memory::data_type::f32, memory::data_type::f32, false},
    {"u8s8s32", memory::data_type::u8, memory::data_type::s8, memory::data_type::s32, true},
};

/// Measures src [m][cols] times wei [cols][rows]. The weights are reordered once to the layout that oneDNN prefers.
void onednn_matmul(benchmark::State& state, const LinearShape& shape, std::size_t tokens, const Types& types) {
  const auto rows = static_cast<memory::dim>(shape.rows), cols = static_cast<memory::dim>(shape.cols);
  const auto m = static_cast<memory::dim>(tokens);
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const memory::desc src_desc({m, cols}, types.src, memory::format_tag::ab);
  const memory::desc wei_desc({cols, rows}, types.wei, memory::format_tag::any);
  const memory::desc dst_desc({m, rows}, types.dst, memory::format_tag::ab);
  const dnnl::matmul::primitive_desc description(engine, src_desc, wei_desc, dst_desc);
  const dnnl::matmul product(description);
  memory plain({{cols, rows}, types.wei, memory::format_tag::ba}, engine);
  memory src(src_desc, engine), dst(dst_desc, engine);
  std::vector<memory> copies;
  const std::size_t bytes = description.weights_desc().get_size();
  while (copies.size() < copies_beyond_caches(bytes)) {
    copies.emplace_back(description.weights_desc(), engine);
    dnnl::reorder(plain, copies.back()).execute(stream, plain, copies.back());
  }
  stream.wait();
  std::size_t turn = 0;
  for (auto _ : state) {
    const memory& wei = copies[turn++ % copies.size()];
    product.execute(stream, {{DNNL_ARG_SRC, src}, {DNNL_ARG_WEIGHTS, wei}, {DNNL_ARG_DST, dst}});
    stream.wait();
  }
  const double peak = types.integer ? limits().int8_gops : limits().f32_gflops;
  report(state, matmul_work(tokens, shape.rows, shape.cols, bytes, peak));
}

const bool kRegistered = [] {
  constexpr std::size_t kLeast = 16;  // fewer tokens are not measured: oneDNN's strength is large products
  for (const Types& types : kTypes) {
    register_products(std::string("onednn_matmul/") + types.name, kLeast,
                      [types](benchmark::State& state, const LinearShape& shape, std::size_t m) {
                        onednn_matmul(state, shape, m, types);
                      });
  }
  return true;
}();

}  // namespace
}  // namespace ballast::bench
