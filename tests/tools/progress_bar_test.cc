#include "tools/terminal/progress_bar.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "ballast/text.h"

namespace ballast::tools {
namespace {

// A screen whose clock is set by the test.
struct FakeScreen {
  std::string shown;
  double now = 100;
  std::size_t columns = 80;

  ProgressScreen lines() {
    return {
        .write = [this](std::string_view text) { shown += text; }, .width = nullptr, .seconds = [this] { return now; }};
  }
  ProgressScreen terminal() {
    ProgressScreen screen = lines();
    screen.width = [this] { return columns; };
    return screen;
  }
  std::string take() { return std::exchange(shown, {}); }
};

TEST_CASE("without a terminal a stage prints its start, its end, and a line every ten seconds") {
  FakeScreen screen;
  ProgressBar bar(screen.lines());
  bar.update("reading", 0, 100);
  CHECK(screen.take() == "reading: 0/100\n");
  for (std::size_t done = 1; done <= 9; ++done) {
    ++screen.now;
    bar.update("reading", done, 100);
  }
  CHECK(screen.take() == "");
  ++screen.now;
  bar.update("reading", 10, 100);
  CHECK(screen.take() == "reading: 10/100, 1 m 30 s left\n");
  ++screen.now;
  bar.update("reading", 100, 100);
  CHECK(screen.take() == "reading: 100/100, took 11 s\n");
  bar.update("writing", 0, 2);
  CHECK(screen.take() == "writing: 0/2\n");
}

TEST_CASE("an end that is reported twice is shown once, and the next stage starts at the second report") {
  FakeScreen screen;
  ProgressBar bar(screen.lines());
  bar.update("weighing", 2, 2);
  CHECK(screen.take() == "weighing: 2/2, took 0.0 s\n");
  for (int i = 0; i < 3; ++i) {
    screen.now += 5;
    bar.update("weighing", 2, 2);
  }
  CHECK(screen.take() == "");
  screen.now += 20;
  bar.update("weighing", 1, 2);
  CHECK(screen.take() == "weighing: 1/2, 20 s left\n");
}

TEST_CASE("a stage whose first report is of its first step started when the previous one ended") {
  FakeScreen screen;
  ProgressBar bar(screen.lines());
  bar.update("reading", 1, 1);
  screen.take();
  screen.now += 20;
  bar.update("writing", 1, 4);
  CHECK(screen.take() == "writing: 1/4, 1 m 0 s left\n");
}

TEST_CASE("on a terminal one line is redrawn, not more than ten times a second, and erased at the end") {
  FakeScreen screen;
  {
    ProgressBar bar(screen.terminal());
    bar.update("reading", 0, 4);
    CHECK(screen.take() == "\r\033[Kreading  [" + std::string(40, '-') + "]  0/4  0 %");
    screen.now += 0.05;
    bar.update("reading", 1, 4);
    CHECK(screen.take() == "");
    screen.now += 1.95;
    bar.update("reading", 2, 4);
    CHECK(screen.take() ==
          "\r\033[Kreading  [" + std::string(20, '#') + std::string(20, '-') + "]  2/4  50 %  2.0 s left");
  }
  CHECK(screen.take() == "\r\033[K");
}

TEST_CASE("the line never reaches the last column, however narrow the terminal") {
  for (std::size_t columns = 0; columns < 90; ++columns) {
    FakeScreen screen;
    screen.columns = columns;
    ProgressBar bar(screen.terminal());
    bar.update("r\u00e9sum\u00e9 \u6f22\u5b57", 3, 10);
    const std::string line = screen.take().substr(std::string_view("\r\033[K").size());
    CHECK(text::display_width(line) < std::max<std::size_t>(columns, 2));
  }
}

TEST_CASE("unusual counts are shown, and a name with control characters stays on its line") {
  FakeScreen screen;
  ProgressBar bar(screen.terminal());
  bar.update("a", 7, 3);
  bar.update("b", 5, 0);
  bar.update("c\nd\033[2J", 1, 2);
  CHECK(screen.shown.find("3/3") != std::string::npos);
  CHECK(screen.shown.find('\n') == std::string::npos);
  CHECK(screen.shown.find("\033[2J") == std::string::npos);
}

}  // namespace
}  // namespace ballast::tools
