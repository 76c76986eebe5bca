// The scheduler's figures in Prometheus' text format.
#ifndef BALLAST_SERVE_SERVICE_METRICS_TEXT_H_
#define BALLAST_SERVE_SERVICE_METRICS_TEXT_H_

#include <cstdint>
#include <map>
#include <string>

#include "serve/scheduler/figures.h"

namespace ballast::serve {

/// What is counted before the scheduler sees a request.
struct RequestFigures {
  std::map<std::string, std::uint64_t> rejections{};  ///< requests that were not accepted, by reason
  std::uint64_t memory_bytes = 0;                     ///< that requests hold
  std::uint64_t memory_refusals = 0;                  ///< of requests, while their bodies came or later
  std::uint64_t dropped_log_lines = 0;
};

/// Names are vLLM's with ballast in front.
std::string metrics_text(const Figures& figures, const RequestFigures& requests);

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_SERVICE_METRICS_TEXT_H_
