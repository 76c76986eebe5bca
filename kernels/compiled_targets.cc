#include "kernels/compiled_targets.h"

#include <hwy/highway.h>
#include <hwy/targets.h>

#include <cstdint>

namespace ballast::kernels {

std::vector<std::string> compiled_targets() {
  std::vector<std::string> names;
  // Better targets have lower bits.
  for (std::int64_t left = HWY_TARGETS; left != 0; left &= left - 1) names.emplace_back(hwy::TargetName(left & -left));
  return names;
}

}  // namespace ballast::kernels
