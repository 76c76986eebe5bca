// How the samples of a job are spread over ranks, and sums over them formed.
#ifndef BALLAST_QUANT_SAMPLE_SHARING_H_
#define BALLAST_QUANT_SAMPLE_SHARING_H_

#include <cstddef>

#include "ballast/ranks.h"
#include "jobs/sharded_sum.h"

namespace ballast::quant {

struct SampleSharing {
  Ranks* ranks = &single_rank();
  jobs::SumOrder order = jobs::SumOrder::kAny;
  std::size_t samples = 0;  ///< of all ranks together
};

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_SAMPLE_SHARING_H_
