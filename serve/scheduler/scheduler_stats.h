// Counters and measurements of the scheduler.
#ifndef BALLAST_SERVE_SCHEDULER_SCHEDULER_STATS_H_
#define BALLAST_SERVE_SCHEDULER_SCHEDULER_STATS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace ballast::serve {

/// A histogram of seconds with fixed bounds.
class Histogram {
 public:
  explicit Histogram(std::span<const double> bounds)
      : bounds_(bounds.begin(), bounds.end()), counts_(bounds.size() + 1) {}

  void add(double seconds) {
    ++counts_[static_cast<std::size_t>(std::ranges::lower_bound(bounds_, seconds) - bounds_.begin())];
    sum_ += seconds;
  }

  std::span<const double> bounds() const { return bounds_; }
  std::span<const std::uint64_t> counts() const { return counts_; }  ///< the last one is above all bounds
  double sum() const { return sum_; }

 private:
  std::vector<double> bounds_;
  std::vector<std::uint64_t> counts_;
  double sum_ = 0;
};

/// Bounds in the range that users notice.
inline constexpr std::array kTokenTimes = {0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.5};
inline constexpr std::array kRequestTimes = {0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0};

/// Counters of the prefix cache on disk.
struct DiskCacheStats {
  bool used = false;        ///< there is such a cache
  std::uint64_t bytes = 0;  ///< of files in its directory
  std::size_t files = 0;    ///< in its directory
  std::uint64_t hits = 0;   ///< tokens that were read from it
  std::uint64_t read_bytes = 0;
  std::uint64_t written_bytes = 0;
  std::uint64_t unreadable = 0;  ///< files that were refused
};

struct SchedulerStats {
  std::size_t running = 0;  ///< requests
  std::size_t waiting = 0;
  std::uint64_t cache_bytes = 0;  ///< of pages in use, including the prefix cache
  std::uint64_t mixer_bytes = 0;  ///< of states other than keys and values, including the prefix cache
  std::uint64_t cache_budget = 0;
  std::uint64_t page_bytes = 0;
  std::uint64_t shared_bytes = 0;  ///< of pages in use that several texts share
  std::size_t cached_texts = 0;    ///< entries of the prefix cache
  std::uint64_t prompt_tokens = 0;
  std::uint64_t generated_tokens = 0;
  std::uint64_t prefix_queries = 0;  ///< tokens that were searched
  std::uint64_t prefix_hits = 0;     ///< tokens that were found
  std::uint64_t preemptions = 0;
  std::uint64_t draft_tokens = 0;           ///< that steps checked
  std::uint64_t accepted_draft_tokens = 0;  ///< of these, tokens that the model chose
  std::uint64_t experts_used = 0;           ///< used experts that may be on disk
  std::uint64_t experts_found = 0;          ///< of these, experts that were in memory
  std::uint64_t expert_bytes = 0;           ///< of experts in memory
  bool experts_on_disk = false;
  DiskCacheStats disk{};
  double fastest_tokens =
      0;  ///< a second that one text can have at most, by how fast weights are read; 0: not measured yet
  double request_seconds = 0;                       ///< from admission to the end: a moving average
  std::map<std::string, std::uint64_t> finished{};  ///< texts by "stop" and "length", requests by "abort" and "error"
  Histogram first_token{kRequestTimes};
  Histogram between_tokens{kTokenTimes};
  Histogram queued{kRequestTimes};
  Histogram end_to_end{kRequestTimes};
};

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_SCHEDULER_SCHEDULER_STATS_H_
