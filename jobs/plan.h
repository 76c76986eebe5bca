// What a forecast of a job's memory and time is made of.
#ifndef BALLAST_JOBS_PLAN_H_
#define BALLAST_JOBS_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>

#include "ballast/plan.h"
#include "ballast/spec.h"
#include "model/weights.h"

namespace ballast::jobs {

/// Bytes that this process may still take: what the kernel says is available, its control groups' limits, and the share
/// of the ranks beside it on this machine.
std::uint64_t available_memory();

/// The least of the limits of the control groups above this process, less what they hold that cannot be dropped; the
/// largest number when there are none. `root` is /sys/fs/cgroup, `group` the process' own, as /proc/self/cgroup has it.
std::uint64_t group_memory(const std::filesystem::path& root, std::filesystem::path group);

/// The samples of a job.
struct PlannedSamples {
  std::size_t samples = 0;
  std::size_t length = 0;  ///< in tokens
  std::size_t ranks = 1;
};

/// Memory of a job in which this rank has `own` samples and `memory(n)` bytes are needed for n of them, more for more.
/// Throws Error when these are not available, naming the most samples that fit.
JobPlan plan_memory(const PlannedSamples& job, const std::function<std::uint64_t(std::size_t)>& memory,
                    std::size_t own);

/// Bytes that this process holds now.
std::uint64_t resident_memory();

/// Multiply-adds per second of float products of `m` rows on all threads, measured in a fraction of a second.
double multiply_adds_per_second(std::size_t m);

/// One block's share of a forward pass.
struct BlockCosts {
  double multiply_adds = 0;            ///< per token, attention's scores and sums apart
  std::uint64_t weight_bytes = 0;      ///< as loaded
  std::uint64_t activation_bytes = 0;  ///< per token of a batch
  std::uint64_t cache_bytes = 0;       ///< per token, in F32
};

BlockCosts block_costs(const ModelSpec& spec, std::size_t layer, const model::BlockWeights& block);

/// Multiply-adds of attention per token, in sequences of `length` tokens, of one block.
double attention_multiply_adds(const ModelSpec& spec, std::size_t layer, std::size_t length);

}  // namespace ballast::jobs

#endif  // BALLAST_JOBS_PLAN_H_
