#include "kernels/target.h"

#include <hwy/highway.h>
#include <hwy/targets.h>

#include <algorithm>
#include <atomic>

#include "ballast/error.h"
#include "ballast/processor.h"

namespace ballast {

namespace {

struct Target {
  std::int64_t highway = 0;
  bool vnni = false;  ///< beside Highway's
};

std::atomic<std::size_t> in_use = 0;  // of all_targets()

bool processor_adds_vnni([[maybe_unused]] std::int64_t highway_target) {
#if HWY_ARCH_X86
  if (highway_target == HWY_AVX3) return __builtin_cpu_supports("avx512vnni") != 0;
#ifdef BALLAST_VNNI_BY_EVEX
  if (highway_target == HWY_AVX2) {
    return __builtin_cpu_supports("avx512vnni") != 0 && __builtin_cpu_supports("avx512vl") != 0;
  }
#else
  if (highway_target == HWY_AVX2) return __builtin_cpu_supports("avxvnni") != 0;
#endif
#endif
  return false;
}

std::string name_of(const Target& target) {
  return std::string(hwy::TargetName(target.highway)) + (target.vnni ? "_VNNI" : "");
}

// The best first. Highway is asked once: later it names those alone that are left to choose from.
const std::vector<Target>& all_targets() {
  static const std::vector<Target> targets = [] {
    std::vector<Target> found;
    for (const std::int64_t highway : hwy::SupportedAndGeneratedTargets()) {
      if (processor_adds_vnni(highway)) found.push_back({.highway = highway, .vnni = true});
      found.push_back({.highway = highway});
    }
    return found;
  }();
  return targets;
}

}  // namespace

std::vector<std::string> simd_targets() {
  std::vector<std::string> names;
  for (const Target& target : all_targets()) names.push_back(name_of(target));
  return names;
}

std::string simd_target() {
  return name_of(all_targets()[in_use]);
}

void use_simd_target(std::string_view name) {
  const std::vector<Target>& targets = all_targets();
  const auto it = std::ranges::find(targets, name, name_of);
  if (it == targets.end()) {
    std::string known;
    for (const Target& target : targets) known += (known.empty() ? "" : ", ") + name_of(target);
    throw Error("target '" + std::string(name) + "'", "this processor has " + known);
  }
  hwy::DisableTargets(it->highway - 1);  // the better ones have lower bits
  in_use = static_cast<std::size_t>(it - targets.begin());
}

namespace kernels {

bool target_adds_vnni() {
  return all_targets()[in_use].vnni;
}

bool uses_best_target() {
  return in_use == 0;
}

}  // namespace kernels
}  // namespace ballast
