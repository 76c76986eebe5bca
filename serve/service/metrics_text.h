// The scheduler's figures in Prometheus' text format.
#ifndef BALLAST_SERVE_SERVICE_METRICS_TEXT_H_
#define BALLAST_SERVE_SERVICE_METRICS_TEXT_H_

#include <cstdint>
#include <map>
#include <string>

#include "serve/scheduler/figures.h"

namespace ballast::serve {

/// `rejections`: requests that were not accepted, by reason. Names are vLLM's with ballast in front.
std::string metrics_text(const Figures& figures, const std::map<std::string, std::uint64_t>& rejections);

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_SERVICE_METRICS_TEXT_H_
