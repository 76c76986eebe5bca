#include "jobs/plan.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "ballast/error.h"
#include "ballast/ranks.h"
#include "kernels/matrix/float_matrix.h"
#include "model/forward/forward.h"

namespace ballast::jobs {

namespace {

namespace fs = std::filesystem;

// The number behind `key` in a file of "key number" lines; without a key, the file's first word.
std::optional<std::uint64_t> number_in(const fs::path& path, const std::string& key = "") {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    if (!key.empty() && (!(words >> name) || name != key)) continue;
    std::uint64_t number = 0;
    if (words >> number) return number;
    return std::nullopt;  // "max"
  }
  return std::nullopt;
}

std::string gigabytes(std::uint64_t bytes) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f GB", static_cast<double>(bytes) / 1e9);
  return text.data();
}

fs::path own_group() {
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (line.starts_with("0::/")) return line.substr(4);  // the entry of version 2
  }
  return {};
}

}  // namespace

std::uint64_t group_memory(const fs::path& root, fs::path group) {
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (;; group = group.parent_path()) {
    const fs::path folder = root / group;
    if (const auto limit = number_in(folder / "memory.max")) {
      // Pages of files are dropped where memory is short.
      const std::uint64_t used = number_in(folder / "memory.current").value_or(0);
      const std::uint64_t files = number_in(folder / "memory.stat", "file").value_or(0);
      const std::uint64_t held = used - std::min(used, files);
      least = std::min(least, *limit - std::min(*limit, held));
    }
    if (group.empty()) return least;
  }
}

std::uint64_t available_memory() {
  const std::uint64_t free_kilobytes = number_in("/proc/meminfo", "MemAvailable:").value_or(0);
  const std::uint64_t machine = free_kilobytes == 0 ? std::numeric_limits<std::uint64_t>::max() : free_kilobytes * 1024;
  return std::min(machine, group_memory("/sys/fs/cgroup", own_group())) / launched_ranks_here();
}

JobPlan plan_memory(const PlannedSamples& job, const std::function<std::uint64_t(std::size_t)>& memory,
                    std::size_t own) {
  JobPlan plan;
  plan.available_bytes = available_memory();
  plan.memory_bytes = memory(own);
  if (plan.memory_bytes <= plan.available_bytes) return plan;
  // Halving finds the most that fit.
  std::size_t fit = 0;
  for (std::size_t above = job.samples; above - fit > 1;) {
    const std::size_t middle = fit + (above - fit) / 2;
    (memory((middle + job.ranks - 1) / job.ranks) <= plan.available_bytes ? fit : above) = middle;
  }
  throw Error("memory", std::to_string(job.samples) + " samples of " + std::to_string(job.length) + " tokens take " +
                            gigabytes(plan.memory_bytes) + ", and " + gigabytes(plan.available_bytes) +
                            " are available: " +
                            (fit == 0 ? std::string("no number of samples fits; give --text, or free memory")
                                      : "--samples " + std::to_string(fit) + " would fit"));
}

std::uint64_t resident_memory() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t mapped = 0;
  std::uint64_t resident = 0;
  file >> mapped >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

double multiply_adds_per_second(std::size_t m) {
  constexpr std::size_t kSize = 1024;
  constexpr auto kEnough = std::chrono::milliseconds(150);
  const std::vector<float> source(m * kSize, 0.5F);
  const std::vector<std::uint16_t> weights(kSize * kSize, 0x3800);  // F16 for 0.5
  std::vector<float> product(m * kSize);
  const kernels::FloatMatrix matrix{weights.data(), kernels::FloatType::kF16, kSize, kSize};
  const kernels::FloatOutput output[] = {{.matrix = &matrix, .dst = product.data(), .stride = kSize}};
  kernels::matmul(output, source.data(), m);  // starts the threads
  const auto begin = std::chrono::steady_clock::now();
  std::chrono::duration<double> taken{};
  double done = 0;
  do {
    kernels::matmul(output, source.data(), m);
    done += static_cast<double>(m) * kSize * kSize;
    taken = std::chrono::steady_clock::now() - begin;
  } while (taken < kEnough);
  return done / taken.count();
}

BlockCosts block_costs(const ModelSpec& spec, std::size_t layer, const model::BlockWeights& block) {
  BlockCosts costs;
  double written = 2.0 * static_cast<double>(spec.hidden_size);  // what the two norms write
  model::for_each_linear(block, [&](const model::Linear& linear, model::Role role) {
    const double share = model::token_share(spec.layers[layer], role);
    costs.multiply_adds += share * static_cast<double>(linear.rows()) * static_cast<double>(linear.cols());
    costs.weight_bytes += linear.bytes();
    written += share * static_cast<double>(linear.rows());
  });
  costs.activation_bytes = static_cast<std::uint64_t>(written * sizeof(float));
  const model::CacheShape cache = model::cache_shape(spec.layers[layer]);
  costs.cache_bytes = cache.kv_heads * (cache.key_size + cache.value_size) * sizeof(float);
  return costs;
}

double attention_multiply_adds(const ModelSpec& spec, std::size_t layer, std::size_t length) {
  const AttentionSpec* attention = spec.layers[layer].attention();
  if (attention == nullptr) return 0;
  const double seen = static_cast<double>(length) * (spec.causal ? 0.5 : 1.0);
  return seen * static_cast<double>(attention->heads * (attention->head_size + attention->value_size));
}

}  // namespace ballast::jobs
