// Limits how many tokens of prompts a step reads while other texts wait for their next token.
#ifndef BALLAST_SERVE_SCHEDULER_PROMPT_PACE_H_
#define BALLAST_SERVE_SCHEDULER_PROMPT_PACE_H_

#include <algorithm>
#include <cstddef>

namespace ballast::serve {

/// Estimates the time of a step by moving averages: steps that only generate, and the time that a prompt's token adds.
class PromptPace {
 public:
  /// `target` is the number of seconds between two tokens of a text, `most` the number of tokens per step.
  PromptPace(double target, std::size_t most) : target_(target), most_(most) {}

  /// Returns the number of prompt tokens for the next step; without generating texts, the most that a step takes.
  std::size_t tokens(bool others_generate) const {
    if (!others_generate) return most_;
    const double left = std::max(0.0, target_ - generating_);
    if (per_token_ == 0) return kFewest;
    return std::clamp(static_cast<std::size_t>(std::min(left / per_token_, 1e9)), std::min(kFewest, most_), most_);
  }

  void measure(std::size_t prompt_tokens, bool others_generate, double seconds) {
    if (prompt_tokens == 0) {
      average(generating_, seconds);
    } else {
      const double generating = others_generate ? std::min(generating_, seconds / 2) : 0;
      average(per_token_, (seconds - generating) / static_cast<double>(prompt_tokens));
    }
  }

 private:
  /// Prompts must make progress on slow machines, too.
  static constexpr std::size_t kFewest = 16;

  static void average(double& value, double next) {
    constexpr double kWeight = 0.2;
    value = value == 0 ? next : value + kWeight * (next - value);
  }

  double target_;
  std::size_t most_;
  double generating_ = 0;  ///< seconds of a step without prompts; 0: not measured yet
  double per_token_ = 0;   ///< seconds that a prompt's token adds; 0: not measured yet
};

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_SCHEDULER_PROMPT_PACE_H_
