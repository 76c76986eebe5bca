// The progress of a long job: a bar that is redrawn on a terminal, an occasional line elsewhere.
#ifndef BALLAST_TOOLS_TERMINAL_PROGRESS_BAR_H_
#define BALLAST_TOOLS_TERMINAL_PROGRESS_BAR_H_

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace ballast::tools {

/// The device on which a bar is drawn.
struct ProgressScreen {
  std::function<void(std::string_view)> write;
  std::function<std::size_t()> width;  ///< columns; empty if a line cannot be redrawn
  std::function<double()> seconds;     ///< of a monotonic clock
};

/// Returns standard error.
ProgressScreen message_screen();

class ProgressBar {
 public:
  explicit ProgressBar(ProgressScreen screen);

  /// Removes the bar.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// Shows that `done` of `total` steps of `stage` are complete; see ballast::Progress.
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
