#include "kernels/engine.h"

#include <algorithm>
#include <array>
#include <atomic>
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
using kernels::Engine;
using kernels::EngineTile;
using kernels::FloatType;

constexpr std::string_view kOwnName = "ballast";

/// Numbers of tokens from which on a choice holds.
constexpr std::array<std::size_t, 3> kTokens = {1, 64, 256};

enum class Wanted { kFaster, kOwn, kOneDnn };
std::atomic<Wanted> wanted = Wanted::kFaster;
std::atomic<bool> rounds_to_bf16 = false;

/// F32: only where it comes to the bits of ballast's own tiles, which multiply fewer tokens.
const Engine* onednn_for(FloatType type) {
  const Engine* engine = kernels::onednn_engine();
  if (engine == nullptr || !engine->supports(type)) return nullptr;
  return type == FloatType::kF32 && !kernels::own_tile_fuses() ? nullptr : engine;
}

template <class Multiply>
double seconds_of(const Multiply& multiply) {
  const kernels::Clock::time_point start = kernels::Clock::now();
  multiply();
  return kernels::seconds_since(start);
}

/// How much faster oneDNN multiplies a tile of `tokens` than ballast.
double speed_of_onednn(const Engine& onednn, std::size_t tokens) {
  constexpr std::size_t kDepth = 768;
  const std::size_t width = kernels::own_tile_width();
  AlignedArray<float> rows(tokens * kDepth);
  AlignedArray<float> panel(width * kDepth);
  AlignedArray<float> dst(tokens * width);
  std::fill_n(rows.data(), tokens * kDepth, 0.5F);
  std::fill_n(panel.data(), width * kDepth, 0.25F);
  const EngineTile tile = {.rows = rows.data(),
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
  const Engine* onednn = onednn_for(FloatType::kF32);
  for (std::size_t i = 0; i < kTokens.size(); ++i) {
    // A tile of tokens or fewer are always ballast's, so the first choice begins with more.
    speeds[i] = onednn == nullptr ? 1 : speed_of_onednn(*onednn, std::max<std::size_t>(kTokens[i], 16));
  }
  return speeds;
}

const std::array<double, kTokens.size()>& speeds() {
  static const std::array<double, kTokens.size()> measured = time_all();
  return measured;
}

std::size_t choice_for(std::size_t tokens) {
  const auto above = std::ranges::upper_bound(kTokens, tokens);
  return above == kTokens.begin() ? 0 : static_cast<std::size_t>(above - kTokens.begin() - 1);
}

bool takes_onednn(std::size_t choice) {
  switch (wanted) {
    case Wanted::kOwn:
      return false;
    case Wanted::kOneDnn:
      return onednn_for(FloatType::kF32) != nullptr;
    default:
      return onednn_for(FloatType::kF32) != nullptr && kernels::uses_best_target() &&
             speeds()[choice] > kernels::kSpeedWorthACopy;
  }
}

}  // namespace

std::vector<std::string> engines() {
  std::vector<std::string> names = {std::string(kOwnName)};
  if (const Engine* onednn = onednn_for(FloatType::kF32)) names.emplace_back(onednn->name());
  return names;
}

void use_engine(std::string_view name) {
  if (name == "auto") {  // what most commands start with asks oneDNN nothing
    wanted = Wanted::kFaster;
    return;
  }
  const std::vector<std::string> names = engines();
  if (name == names.front()) {
    wanted = Wanted::kOwn;
  } else if (name == names.back()) {
    wanted = Wanted::kOneDnn;
  } else {
    std::string known = "auto";
    for (const std::string& engine : names) known += ", " + engine;
    throw Error("engine '" + std::string(name) + "'", "there are " + known);
  }
}

std::vector<EngineChoice> engine_choices() {
  const std::vector<std::string> names = engines();
  std::vector<EngineChoice> choices;
  for (std::size_t i = 0; i < kTokens.size(); ++i) {
    choices.push_back({.tokens = kTokens[i], .engine = names[takes_onednn(i) ? 1 : 0], .speed = speeds()[i]});
  }
  return choices;
}

void use_bf16_products(bool use) {
  if (use && !kernels::multiplies_bf16()) {
    throw Error("BF16 products", kernels::onednn_engine() == nullptr
                                     ? "are oneDNN's, which this program was built without or does not find"
                                     : "need a processor with AVX512-BF16 or AMX");
  }
  rounds_to_bf16 = use;
}

bool bf16_products() {
  return rounds_to_bf16;
}

namespace kernels {

bool multiplies_bf16() {
  return onednn_for(FloatType::kBF16) != nullptr;
}

const Engine* engine_of_floats(std::size_t m) {
  return takes_onednn(choice_for(m)) ? onednn_engine() : nullptr;
}

#ifndef BALLAST_ONEDNN
const Engine* onednn_engine() {
  return nullptr;
}
#endif

}  // namespace kernels
}  // namespace ballast
