// oneDNN's micro-kernels as a FloatGemm: products of one core, compiled for a shape when it first occurs.
#include <compare>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/error.h"
#include "kernels/float_gemm.h"
#include "kernels/onednn/onednn_library.h"

namespace ballast::kernels {
namespace {

/// Rows of the largest kernel. Fewer rows are divided among kernels for powers of two, to limit the number of kernels.
constexpr std::size_t kMostRows = 64;

struct Shape {
  FloatType type;
  std::size_t rows, width, depth, stride;
  bool adds;  ///< adds to dst

  auto operator<=>(const Shape&) const = default;
};

void check(dnnl_status_t status) {
  if (status != dnnl_success) throw Error("oneDNN", "fails with status " + std::to_string(status));
}

class Kernel {
 public:
  /// Throws Error if oneDNN has no such kernel for this processor.
  Kernel(const OneDnnLibrary& library, const Shape& shape)
      : library_(library), kernel_(created(library, shape), library.destroy) {
    check(library.set_add_c(kernel_.get(), shape.adds ? 1 : 0));
    check(library.finalize(kernel_.get()));
    check(library.generate(kernel_.get()));
    check(library.get_scratchpad_size(kernel_.get(), &scratch_bytes_));
  }

  void run(const void* rows, const void* panel, float* dst) const {
    // Only kernels with AMX need a setup of the thread, and scratch memory.
    thread_local std::vector<std::byte> scratch;
    if (scratch.size() < scratch_bytes_) scratch.resize(scratch_bytes_);
    static constexpr dnnl_dim_t kOffsets[] = {0, 0};
    check(library_.set_hw_context(kernel_.get()));
    check(library_.execute(kernel_.get(), rows, panel, kOffsets, dst, scratch.data()));
    check(library_.release_hw_context());
  }

 private:
  static dnnl_brgemm_t created(const OneDnnLibrary& library, const Shape& shape) {
    const auto dim = [](std::size_t value) { return static_cast<dnnl_dim_t>(value); };
    const dnnl_data_type_t type = shape.type == FloatType::kF32 ? dnnl_f32 : dnnl_bf16;
    dnnl_brgemm_t kernel = nullptr;
    check(library.create(&kernel, dim(shape.rows), dim(shape.width), dim(shape.depth), 1, dim(shape.stride),
                         dim(shape.width), dim(shape.width), type, type, dnnl_f32));
    return kernel;
  }

  const OneDnnLibrary& library_;
  std::unique_ptr<dnnl_brgemm, decltype(OneDnnLibrary::destroy)> kernel_;
  std::size_t scratch_bytes_ = 0;
};

class OneDnnGemm final : public FloatGemm {
 public:
  explicit OneDnnGemm(const OneDnnLibrary& library)
      : library_(library),
        multiplies_f32_(multiplies(FloatType::kF32)),
        multiplies_bf16_(multiplies(FloatType::kBF16)) {}

  std::string_view name() const override { return "onednn"; }

  bool supports(FloatType type) const override {
    return type == FloatType::kF32 ? multiplies_f32_ : type == FloatType::kBF16 && multiplies_bf16_;
  }

  void multiply(FloatType type, const FloatGemmTile& tile) const override {
    const std::size_t bytes = float_type_bytes(type);
    std::size_t first = 0;
    for (std::size_t rows = kMostRows; rows > 0; rows /= 2) {
      if (tile.count - first < rows) continue;
      const Kernel& kernel = kernel_for({type, rows, tile.width, tile.depth, tile.stride, tile.adds});
      for (; tile.count - first >= rows; first += rows) {
        const auto* src = static_cast<const std::byte*>(tile.rows) + first * tile.stride * bytes;
        kernel.run(src, tile.panel, tile.dst + first * tile.width);
      }
    }
  }

 private:
  bool multiplies(FloatType type) const {
    try {
      const Kernel kernel(library_, {type, 16, 16, 16, 16, true});
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  const Kernel& kernel_for(const Shape& shape) const {
    {
      const std::shared_lock lock(mutex_);
      const auto it = kernels_.find(shape);
      if (it != kernels_.end()) return it->second;
    }
    const std::unique_lock lock(mutex_);
    return kernels_.try_emplace(shape, library_, shape).first->second;
  }

  const OneDnnLibrary& library_;
  bool multiplies_f32_;
  bool multiplies_bf16_;
  mutable std::shared_mutex mutex_;
  mutable std::map<Shape, Kernel> kernels_;  ///< a reference stays valid when kernels are added
};

}  // namespace

const FloatGemm* onednn_gemm() {
  static const std::optional<OneDnnGemm> gemm = [] {
    const OneDnnLibrary* library = onednn_library();
    return library == nullptr ? std::optional<OneDnnGemm>() : std::optional<OneDnnGemm>(std::in_place, *library);
  }();
  return gemm ? &*gemm : nullptr;
}

}  // namespace ballast::kernels
