// What a long job expects to take, said before it begins.
#ifndef BALLAST_PLAN_H_
#define BALLAST_PLAN_H_

#include <cstdint>

namespace ballast {

struct JobPlan {
  std::uint64_t memory_bytes = 0;     ///< resident at the peak, of one rank
  std::uint64_t available_bytes = 0;  ///< that one rank may take
  double seconds = 0;                 ///< on a machine that does nothing else
};

}  // namespace ballast

#endif  // BALLAST_PLAN_H_
