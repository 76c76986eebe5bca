// The scheduler's statistics in Prometheus' text format.
#ifndef BALLAST_SERVE_SERVICE_METRICS_TEXT_H_
#define BALLAST_SERVE_SERVICE_METRICS_TEXT_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "serve/scheduler/scheduler_stats.h"

namespace ballast::serve {

/// Counters of requests that do not reach the scheduler.
struct RequestStats {
  std::map<std::string, std::uint64_t> rejections{};  ///< requests that were not accepted, by reason
  std::uint64_t memory_bytes = 0;                     ///< held by requests
  std::uint64_t memory_refusals = 0;                  ///< refused requests, while their bodies were received or later
  std::uint64_t dropped_log_lines = 0;
};

struct ModelStats {
  std::string model;  ///< value of the label `model`; empty: no such label
  SchedulerStats stats;
};

/// Returns metrics with vLLM's names and the prefix ballast: those of each model, and those of the server.
std::string metrics_text(std::span<const ModelStats> models, const RequestStats& requests);

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_SERVICE_METRICS_TEXT_H_
