#include "kernels/float_gemm.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "ballast/error.h"
#include "ballast/processor.h"
#include "kernels/clock.h"
#include "kernels/scratch.h"
#include "kernels/target.h"

namespace ballast {

namespace {

using kernels::AlignedArray;
using kernels::FloatGemm;
using kernels::FloatGemmTile;
using kernels::FloatType;

constexpr std::string_view kOwnName = "ballast";

/// Numbers of tokens from which on a measured speed applies.
constexpr std::array<std::size_t, 3> kTokens = {1, 64, 256};

/// Returns oneDNN if it multiplies this type here, else null. In F32 it must give the bits of ballast's own tiles,
/// because these multiply fewer tokens.
const FloatGemm* onednn_for(FloatType type) {
  const FloatGemm* gemm = kernels::onednn_gemm();
  if (gemm == nullptr || !gemm->supports(type)) return nullptr;
  return type == FloatType::kF32 && !kernels::own_tile_fuses() ? nullptr : gemm;
}

template <class Multiply>
double seconds_of(const Multiply& multiply) {
  const kernels::Clock::time_point start = kernels::Clock::now();
  multiply();
  return kernels::seconds_since(start);
}

/// Returns how much faster oneDNN multiplies a tile of `tokens` than ballast.
double speed_of_onednn(const FloatGemm& onednn, std::size_t tokens) {
  constexpr std::size_t kDepth = 768;
  const std::size_t width = kernels::own_tile_width();
  AlignedArray<float> rows(tokens * kDepth);
  AlignedArray<float> panel(width * kDepth);
  AlignedArray<float> dst(tokens * width);
  std::fill_n(rows.data(), tokens * kDepth, 0.5F);
  std::fill_n(panel.data(), width * kDepth, 0.25F);
  const FloatGemmTile tile = {.rows = rows.data(),
                              .count = tokens,
                              .stride = kDepth,
                              .panel = panel.data(),
                              .width = width,
                              .depth = kDepth,
                              .dst = dst.data()};
  constexpr int kCalls = 12;  // in turn; the first finds nothing in the caches, and oneDNN compiles in it
  double own = std::numeric_limits<double>::infinity();
  double other = own;
  for (int i = 0; i < kCalls; ++i) {
    own = std::min(own, seconds_of([&] { kernels::multiply_own_tile(tile); }));
    other = std::min(other, seconds_of([&] { onednn.multiply(FloatType::kF32, tile); }));
  }
  return own / other;
}

std::array<double, kTokens.size()> time_all() {
  std::array<double, kTokens.size()> speeds{};
  const FloatGemm* onednn = onednn_for(FloatType::kF32);
  for (std::size_t i = 0; i < kTokens.size(); ++i) {
    // One tile of tokens or less is always multiplied by ballast, so the first choice is measured with more.
    speeds[i] = onednn == nullptr ? 1 : speed_of_onednn(*onednn, std::max<std::size_t>(kTokens[i], 16));
  }
  return speeds;
}

const std::array<double, kTokens.size()>& speeds() {
  static const std::array<double, kTokens.size()> measured = time_all();
  return measured;
}

/// Returns the index in kTokens whose speed applies to a number of tokens.
std::size_t row_of(std::size_t tokens) {
  const auto above = std::ranges::upper_bound(kTokens, tokens);
  return above == kTokens.begin() ? 0 : static_cast<std::size_t>(above - kTokens.begin() - 1);
}

/// Returns whether oneDNN is used for kTokens[index] tokens.
bool takes_onednn(std::size_t index, FloatGemmChoice choice) {
  switch (choice) {
    case FloatGemmChoice::kBallast:
      return false;
    case FloatGemmChoice::kOneDnn:
      return onednn_for(FloatType::kF32) != nullptr;
    default:
      return onednn_for(FloatType::kF32) != nullptr && kernels::uses_best_target() &&
             speeds()[index] > kernels::kSpeedWorthACopy;
  }
}

[[noreturn]] void refuse_gemm(std::string_view name, const std::vector<std::string>& names) {
  std::string known = "auto";
  for (const std::string& engine : names) known += ", " + engine;
  throw Error("engine '" + std::string(name) + "'", "supported: " + known);
}

}  // namespace

std::vector<std::string> engines() {
  std::vector<std::string> names = {std::string(kOwnName)};
  if (const FloatGemm* onednn = onednn_for(FloatType::kF32)) names.emplace_back(onednn->name());
  return names;
}

FloatGemmChoice parse_float_gemm(std::string_view name) {
  if (name == "auto") return FloatGemmChoice::kFastest;  // the default of most commands: oneDNN is not loaded
  const std::vector<std::string> names = engines();
  if (name == kOwnName) return FloatGemmChoice::kBallast;
  if (name != names.back()) refuse_gemm(name, names);
  return FloatGemmChoice::kOneDnn;
}

void check_compute_options(const ComputeOptions& options) {
  if (options.float_gemm == FloatGemmChoice::kOneDnn && onednn_for(FloatType::kF32) == nullptr) {
    refuse_gemm("onednn", engines());
  }
  if (!options.bf16_products || kernels::multiplies_bf16()) return;
  throw Error("BF16 products", kernels::onednn_gemm() == nullptr ? "need oneDNN, which is not built in or not installed"
                                                                 : "need a processor with AVX512-BF16 or AMX");
}

std::vector<EngineChoice> engine_choices(FloatGemmChoice choice) {
  const std::vector<std::string> names = engines();
  std::vector<EngineChoice> choices;
  for (std::size_t i = 0; i < kTokens.size(); ++i) {
    choices.push_back({.tokens = kTokens[i], .engine = names[takes_onednn(i, choice) ? 1 : 0], .speed = speeds()[i]});
  }
  return choices;
}

namespace kernels {

bool multiplies_bf16() {
  return onednn_for(FloatType::kBF16) != nullptr;
}

const FloatGemm* float_gemm_for(std::size_t m, FloatGemmChoice choice) {
  return takes_onednn(row_of(m), choice) ? onednn_gemm() : nullptr;
}

#ifndef BALLAST_ONEDNN
const FloatGemm* onednn_gemm() {
  return nullptr;
}
#endif

}  // namespace kernels
}  // namespace ballast
