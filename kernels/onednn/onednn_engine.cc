// oneDNN's micro-kernels (brgemm): the products of one core, compiled for their shape when it is first met.
#include <compare>
#include <cstddef>
#include <map>
#include <mutex>
#include <oneapi/dnnl/dnnl_ukernel.hpp>
#include <shared_mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/engine.h"

namespace ballast::kernels {
namespace {

using dnnl::memory;
using dnnl::ukernel::brgemm;

/// Rows of the largest kernel. Fewer rows are left to kernels of powers of two, so that there are not many.
constexpr std::size_t kMostRows = 64;

struct Shape {
  FloatType type;
  std::size_t rows, width, depth, stride;
  bool adds;  ///< to what is in dst

  auto operator<=>(const Shape&) const = default;
};

class Kernel {
 public:
  explicit Kernel(const Shape& shape) : kernel_(make(shape)) {}

  void run(const void* rows, const void* panel, float* dst) const {
    // Only where kernels use AMX does a thread have to be told, and need scratch.
    thread_local std::vector<std::byte> scratch;
    if (scratch.size() < scratch_bytes()) scratch.resize(scratch_bytes());
    static const std::vector<std::pair<memory::dim, memory::dim>> offsets = {{0, 0}};
    kernel_.set_hw_context();
    kernel_.execute(rows, panel, offsets, dst, scratch.data());
    brgemm::release_hw_context();
  }

 private:
  static brgemm make(const Shape& shape) {
    const auto dim = [](std::size_t value) { return static_cast<memory::dim>(value); };
    const auto type = shape.type == FloatType::kF32 ? memory::data_type::f32 : memory::data_type::bf16;
    brgemm kernel(dim(shape.rows), dim(shape.width), dim(shape.depth), 1, dim(shape.stride), dim(shape.width),
                  dim(shape.width), type, type, memory::data_type::f32);
    kernel.set_add_C(shape.adds);
    kernel.finalize();
    kernel.generate();
    return kernel;
  }
  std::size_t scratch_bytes() const { return kernel_.get_scratchpad_size(); }

  brgemm kernel_;
};

class OneDnnEngine final : public Engine {
 public:
  OneDnnEngine() : multiplies_f32_(multiplies(FloatType::kF32)), multiplies_bf16_(multiplies(FloatType::kBF16)) {}

  std::string_view name() const override { return "onednn"; }

  bool supports(FloatType type) const override {
    return type == FloatType::kF32 ? multiplies_f32_ : type == FloatType::kBF16 && multiplies_bf16_;
  }

  void multiply(FloatType type, const EngineTile& tile) const override {
    const std::size_t bytes = float_type_bytes(type);
    for (std::size_t first = 0; first < tile.count;) {
      std::size_t rows = kMostRows;
      while (rows > tile.count - first) rows /= 2;
      const auto* src = static_cast<const std::byte*>(tile.rows) + first * tile.stride * bytes;
      kernel({type, rows, tile.width, tile.depth, tile.stride, tile.adds})
          .run(src, tile.panel, tile.dst + first * tile.width);
      first += rows;
    }
  }

 private:
  /// oneDNN says no by throwing when a kernel is finished.
  static bool multiplies(FloatType type) {
    try {
      const Kernel kernel({type, 16, 16, 16, 16, true});
      return true;
    } catch (const dnnl::error&) {
      return false;
    }
  }

  const Kernel& kernel(const Shape& shape) const {
    {
      const std::shared_lock lock(mutex_);
      const auto it = kernels_.find(shape);
      if (it != kernels_.end()) return it->second;
    }
    const std::unique_lock lock(mutex_);
    return kernels_.try_emplace(shape, shape).first->second;
  }

  bool multiplies_f32_;
  bool multiplies_bf16_;
  mutable std::shared_mutex mutex_;
  mutable std::map<Shape, Kernel> kernels_;  ///< a reference stays valid when others come
};

}  // namespace

const Engine* onednn_engine() {
  static const OneDnnEngine engine;
  return &engine;
}

}  // namespace ballast::kernels
