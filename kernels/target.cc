#include "kernels/target.h"

#include <hwy/highway.h>
#include <hwy/targets.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#if HWY_ARCH_X86_64 && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#elif HWY_ARCH_ARM_A64 && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#elif HWY_ARCH_ARM_A64 && defined(__APPLE__)
#include <sys/sysctl.h>
#endif

#include "ballast/error.h"
#include "ballast/processor.h"

namespace ballast {

namespace {

using kernels::Extension;

struct Target {
  std::int64_t highway = 0;
  Extension extension = Extension::kNone;
};

std::atomic<std::size_t> in_use = 0;  // index in all_targets()
std::atomic<bool> emulates_amx = false;

#if HWY_ARCH_X86

/// Asks the system whether this process may use AMX, which needs a permission.
bool may_use_amx() {
#if HWY_ARCH_X86_64 && defined(__linux__)
  constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int kTileData = 18;
  static const bool granted = syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return granted;
#else
  return false;
#endif
}

bool processor_has(Extension extension, std::int64_t highway_target) {
  const bool has_avx512 = highway_target <= HWY_AVX3;  // better targets have lower bits
  switch (extension) {
    case Extension::kAmx:
      return has_avx512 && __builtin_cpu_supports("amx-int8") != 0 && may_use_amx();
    case Extension::kVnni:
      if (has_avx512) return __builtin_cpu_supports("avx512vnni") != 0;
#ifdef BALLAST_VNNI_BY_EVEX
      return highway_target == HWY_AVX2 && __builtin_cpu_supports("avx512vnni") != 0 &&
             __builtin_cpu_supports("avx512vl") != 0;
#else
      return highway_target == HWY_AVX2 && __builtin_cpu_supports("avxvnni") != 0;
#endif
    default:
      return false;
  }
}

#elif HWY_ARCH_ARM_A64

#if defined(__APPLE__)
bool apple_has(const char* feature) {
  int value = 0;
  std::size_t size = sizeof(value);
  return sysctlbyname(feature, &value, &size, nullptr, 0) == 0 && value != 0;
}
#endif

bool processor_has(Extension extension, [[maybe_unused]] std::int64_t highway_target) {
#if defined(__linux__)
  constexpr std::int64_t kNeon = HWY_NEON | HWY_NEON_WITHOUT_AES | HWY_NEON_BF16;
  const bool is_neon = (highway_target & kNeon) != 0;
  if (extension == Extension::kMatrixProducts) {
    return (getauxval(AT_HWCAP2) & (is_neon ? HWCAP2_I8MM : HWCAP2_SVEI8MM)) != 0;
  }
  return extension == Extension::kDotProduct && is_neon && (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#elif defined(__APPLE__)
  if (extension == Extension::kMatrixProducts) return apple_has("hw.optional.arm.FEAT_I8MM");
  return extension == Extension::kDotProduct && apple_has("hw.optional.arm.FEAT_DotProd");
#else
  return false;
#endif
}

#else

bool processor_has(Extension /*extension*/, std::int64_t /*highway_target*/) {
  return false;
}

#endif

const char* suffix(Extension extension) {
  switch (extension) {
    case Extension::kVnni:
      return "_VNNI";
    case Extension::kAmx:
      return "_AMX";
    case Extension::kDotProduct:
      return "_DOTPROD";
    case Extension::kMatrixProducts:
      return "_I8MM";
    default:
      return "";
  }
}

std::string name_of(const Target& target) {
  return hwy::TargetName(target.highway) + std::string(suffix(target.extension));
}

// Returns all targets, the best first. Highway is asked once, because later it returns only those that are not
// disabled.
const std::vector<Target>& all_targets() {
  static const std::vector<Target> targets = [] {
    std::vector<Target> found;
    for (const std::int64_t highway : hwy::SupportedAndGeneratedTargets()) {
      for (const Extension extension :
           {Extension::kMatrixProducts, Extension::kDotProduct, Extension::kAmx, Extension::kVnni}) {
        if (processor_has(extension, highway)) found.push_back({.highway = highway, .extension = extension});
      }
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
  hwy::DisableTargets(it->highway - 1);  // better targets have lower bits
  // Otherwise each thread's next kernel would choose, and until then another thread might use the best of all targets.
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  in_use = static_cast<std::size_t>(it - targets.begin());
}

namespace kernels {

Extension target_extension() {
  return all_targets()[in_use].extension;
}

bool uses_best_target() {
  return in_use == 0;
}

AmxUnit amx_unit() {
  if (emulates_amx) return AmxUnit::kEmulated;
  return target_extension() == Extension::kAmx ? AmxUnit::kProcessor : AmxUnit::kNone;
}

void emulate_amx(bool emulate) {
  emulates_amx = emulate;
}

}  // namespace kernels
}  // namespace ballast
