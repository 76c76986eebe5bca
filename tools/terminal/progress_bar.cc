#include "tools/terminal/progress_bar.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "ballast/text.h"
#include "tools/terminal/console.h"
#include "tools/terminal/units.h"

namespace ballast::tools {
namespace {

constexpr double kSecondsBetweenDrawings = 0.1;
constexpr double kSecondsBetweenLines = 10;
constexpr std::size_t kShortestBar = 10;
constexpr std::size_t kLongestBar = 40;
constexpr std::string_view kEraseLine = "\r\033[K";

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string steps(std::size_t done, std::size_t total) {
  return total == 0 ? std::to_string(done) : std::to_string(done) + "/" + std::to_string(total);
}

double share(std::size_t done, std::size_t total) {
  return total == 0 ? 0 : static_cast<double>(done) / static_cast<double>(total);
}

}  // namespace

ProgressScreen message_screen() {
  return {.write = print_message,
          .width = messages_are_on_terminal() ? std::function(terminal_width) : nullptr,
          .seconds = steady_seconds};
}

ProgressBar::ProgressBar(ProgressScreen screen)
    : screen_(std::move(screen)), stage_start_(screen_.seconds()), last_update_(stage_start_) {}

ProgressBar::~ProgressBar() {
  if (drawn_) screen_.write(kEraseLine);
}

void ProgressBar::update(std::string_view stage, std::size_t done, std::size_t total) {
  const double now = screen_.seconds();
  done = total == 0 ? done : std::min(done, total);
  const bool ends = total != 0 && done == total;
  if (ends && stage_ended_ && stage == stage_) {  // repeated, to check for an interrupt
    last_update_ = now;
    return;
  }
  const bool begins = stage_ended_ || stage != stage_;
  if (begins) begin_stage(stage, done, now);
  stage_ended_ = ends;
  last_update_ = now;

  if (screen_.width) {
    if (begins || now >= next_output_) draw(done, total, now);
  } else if (begins || stage_ended_ || now >= next_output_) {
    print_line(done, total, now);
  }
}

// A job reports a step when it is complete, so the first step began at the last update of the previous stage.
void ProgressBar::begin_stage(std::string_view stage, std::size_t done, double now) {
  stage_ = stage;
  stage_start_ = done == 0 ? now : last_update_;
}

void ProgressBar::draw(std::size_t done, std::size_t total, double now) {
  next_output_ = now + kSecondsBetweenDrawings;
  std::string figures = steps(done, total);
  if (total != 0) figures += "  " + format_percent(share(done, total), 0);
  const std::string left = remaining(done, total, now);
  if (!left.empty()) figures += "  " + left;

  // The last column stays free: some terminals wrap when it is written.
  const std::size_t columns = std::max<std::size_t>(screen_.width(), 2) - 1;
  std::string line = report::printable(stage_);
  const std::size_t used = text::display_width(line) + figures.size() + 6;  // two gaps and the brackets
  if (total != 0 && used + kShortestBar <= columns) {
    const std::size_t length = std::min(columns - used, kLongestBar);
    const auto filled = static_cast<std::size_t>(share(done, total) * static_cast<double>(length));
    line += "  [" + std::string(filled, '#') + std::string(length - filled, '-') + "]";
  }
  line += "  " + figures;
  screen_.write(std::string(kEraseLine) + std::string(text::first_columns(line, columns)));
  drawn_ = true;
}

void ProgressBar::print_line(std::size_t done, std::size_t total, double now) {
  next_output_ = now + kSecondsBetweenLines;
  std::string line = report::printable(stage_) + ": " + steps(done, total);
  if (stage_ended_) {
    line += ", took " + format_duration(now - stage_start_);
  } else {
    const std::string left = remaining(done, total, now);
    if (!left.empty()) line += ", " + left;
  }
  screen_.write(line + "\n");
}

std::string ProgressBar::remaining(std::size_t done, std::size_t total, double now) const {
  if (done == 0 || done >= total) return {};
  const double seconds = (now - stage_start_) / static_cast<double>(done) * static_cast<double>(total - done);
  return format_duration(seconds) + " left";
}

}  // namespace ballast::tools
