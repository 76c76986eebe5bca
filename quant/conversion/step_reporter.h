// Reports the progress of a job at each step, and checks for interrupts within steps.
#ifndef BALLAST_QUANT_CONVERSION_STEP_REPORTER_H_
#define BALLAST_QUANT_CONVERSION_STEP_REPORTER_H_

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "ballast/progress.h"

namespace ballast::quant {

class StepReporter {
 public:
  explicit StepReporter(const Progress& progress) : progress_(progress) {}

  void report(std::string_view stage, std::size_t done, std::size_t total) {
    stage_ = stage;
    done_ = done;
    total_ = total;
    if (progress_) progress_(stage_, done_, total_);
  }

  /// Repeats the last step, so that an interrupt need not wait for the next one. Valid as long as this.
  std::function<void()> check_cancelled() {
    return [this] {
      if (progress_ && total_ > 0) progress_(stage_, done_, total_);
    };
  }

 private:
  const Progress& progress_;
  std::string stage_;
  std::size_t done_ = 0;
  std::size_t total_ = 0;
};

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_CONVERSION_STEP_REPORTER_H_
