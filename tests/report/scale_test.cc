#include "report/chart/scale.h"

#include <doctest/doctest.h>

#include <limits>

#include "report/chart/colours.h"

using ballast::report::Scale;
using ballast::report::whole_ticks;

TEST_CASE("a logarithmic scale ends at round numbers around its values") {
  const Scale scale = Scale::logarithmic(0.31, 23855);
  CHECK(scale.low() == doctest::Approx(0.2));
  CHECK(scale.high() == doctest::Approx(50000));
  CHECK(scale(0.2) == doctest::Approx(0));
  CHECK(scale(100) == doctest::Approx(0.5));
  CHECK(scale(50000) == doctest::Approx(1));
}

TEST_CASE("a logarithmic scale of one value has room around it") {
  for (const double value : {1.0, 3.0, 10.0, 1e-30, 1e30}) {
    const Scale scale = Scale::logarithmic(value, value);
    CHECK(scale.low() > 0);
    CHECK(scale.high() > scale.low());
    CHECK(scale.ticks(5).size() >= 1);
  }
}

TEST_CASE("zero and values that are not finite have no position on a logarithmic scale") {
  const Scale scale = Scale::logarithmic(1, 10);
  CHECK(scale.has(3));
  CHECK_FALSE(scale.has(0));
  CHECK_FALSE(scale.has(-1));
  CHECK_FALSE(scale.has(std::numeric_limits<double>::quiet_NaN()));
  CHECK_FALSE(scale.has(std::numeric_limits<double>::infinity()));
}

TEST_CASE("ticks are inside the range and few") {
  for (const Scale& scale : {Scale::logarithmic(0.31, 23855), Scale::logarithmic(1e-30, 1e30), Scale::linear(0, 1),
                             Scale::linear(0, 33), Scale::logarithmic(2, 60)}) {
    for (const std::size_t most : {4, 9}) {
      const std::vector<double> ticks = scale.ticks(most);
      CHECK(ticks.size() >= 2);
      CHECK(ticks.size() <= most + 1);
      for (const double tick : ticks) {
        CHECK(scale(tick) >= -1e-6);
        CHECK(scale(tick) <= 1 + 1e-6);
      }
    }
  }
}

TEST_CASE("ticks of layers are whole and round") {
  CHECK(whole_ticks(0, 30, 8) == std::vector<std::size_t>{0, 5, 10, 15, 20, 25, 30});
  CHECK(whole_ticks(1, 4, 8) == std::vector<std::size_t>{1, 2, 3, 4});
  CHECK(whole_ticks(1, 1, 8) == std::vector<std::size_t>{1});
  CHECK(whole_ticks(1, 80, 8) == std::vector<std::size_t>{20, 40, 60, 80});
}

TEST_CASE("steps of the colour ramp are clamped") {
  using ballast::report::kRampSteps;
  using ballast::report::ramp_step;
  CHECK(ramp_step(0) == 0);
  CHECK(ramp_step(1) == kRampSteps - 1);
  CHECK(ramp_step(7) == kRampSteps - 1);
  CHECK(ramp_step(-1) == 0);
  CHECK(ramp_step(std::numeric_limits<double>::quiet_NaN()) == 0);
}
