// Shows where a long job is: a bar that is redrawn on a terminal, a line now and then elsewhere.
#ifndef BALLAST_TOOLS_TERMINAL_PROGRESS_BAR_H_
#define BALLAST_TOOLS_TERMINAL_PROGRESS_BAR_H_

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace ballast::tools {

/// What a bar is drawn on.
struct ProgressScreen {
  std::function<void(std::string_view)> write;
  std::function<std::size_t()> width;  ///< columns; empty where a line cannot be redrawn
  std::function<double()> seconds;     ///< of a clock that never goes back
};

/// Standard error.
ProgressScreen message_screen();

class ProgressBar {
 public:
  explicit ProgressBar(ProgressScreen screen);

  /// Leaves no bar behind.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// `done` of `total` steps of `stage`; as ballast::Progress.
  void update(std::string_view stage, std::size_t done, std::size_t total);

 private:
  void begin_stage(std::string_view stage, std::size_t done, double now);
  void draw(std::size_t done, std::size_t total, double now);
  void print_line(std::size_t done, std::size_t total, double now);
  std::string remaining(std::size_t done, std::size_t total, double now) const;

  ProgressScreen screen_;
  std::string stage_;
  double stage_start_;  ///< when its first step began
  double last_update_;
  double next_output_ = 0;
  bool stage_ended_ = true;
  bool drawn_ = false;
};

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_TERMINAL_PROGRESS_BAR_H_
