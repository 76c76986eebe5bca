#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

#include "ballast/report.h"
#include "html_page.h"
#include "report/calibration/calibration_summary.h"

using ballast::ChannelStatistics;
using ballast::MassiveToken;
using ballast::Statistics;
using ballast::test::contains;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

ChannelStatistics channels(std::vector<float> magnitudes) {
  ChannelStatistics statistics;
  for (const float magnitude : magnitudes) statistics.min.push_back(-magnitude);
  statistics.max = statistics.mean_square = statistics.ordinary_absmax = std::move(magnitudes);
  statistics.mean.assign(statistics.max.size(), 0.0F);
  return statistics;
}

// Three layers of four channels; layer 2 is massive in channel 3 at the first token.
Statistics small_model() {
  Statistics statistics;
  statistics.model = "tiny <model>";
  statistics.text = "text.txt";
  statistics.samples = 2;
  statistics.length = 16;
  statistics.heads = 2;
  statistics.layers = {{0, 0.1, {{0.5F, 0, 3, 7, "a", 1}}, false},
                       {1, 0.2, {{-9.0F, 0, 0, 1, "\n", 3}, {2.0F, 1, 4, 7, "a", 0}}, false},
                       {2, 1.65, {{-23855.2F, 0, 0, 1, "\n", 3}}, true},
                       {3, 2.0, {{40.0F, 0, 2, 2, "</text><script>", 2}}, false}};
  statistics.massive_channels = {{3, 2}};
  statistics.massive_tokens = {{MassiveToken::kFirst, 0, "", 2}};
  statistics.sink_share = {0.01F, 0.1F, 0.8F, 0.5F, 0.31F, 0.2F};
  for (const std::string layer : {"0", "1", "2"}) {
    const std::string prefix = "model.layers." + layer + ".";
    statistics.inputs.push_back({{prefix + "attn.q_proj", prefix + "attn.k_proj"}, channels({1, 1, 1, 9})});
    statistics.inputs.push_back({{prefix + "mlp.down_proj"}, channels({1, 2, 2, 2})});
    statistics.key_values.push_back({channels({3, 1}), channels({1, 1})});
  }
  statistics.inputs.push_back({{"lm_head"}, channels({1, 2, 2, 2})});
  statistics.map = {2, {"\n", "</text><script>"}, {0, 3}, {0.5F, 23855.2F, 1.0F, 2.0F}};
  return statistics;
}

Statistics without_massive_values() {
  Statistics statistics = small_model();
  for (ballast::LayerStatistics& layer : statistics.layers) layer.massive = false;
  statistics.layers.erase(statistics.layers.begin() + 2);
  statistics.massive_channels.clear();
  statistics.massive_tokens.clear();
  return statistics;
}

void check_page(const Statistics& statistics) {
  const std::string page = ballast::calibration_page(statistics);
  ballast::test::check_page(page);
  CHECK_FALSE(contains(page, "<script"));
  CHECK(page == ballast::calibration_page(statistics));
}

}  // namespace

TEST_CASE("the page is well formed, self-contained, and the same each time") {
  check_page(small_model());
  check_page(without_massive_values());
}

TEST_CASE("the headline has the number of channels, their size, position and layers") {
  const std::string page = ballast::calibration_page(small_model());
  CHECK(contains(page,
                 "<h1>One of 4 channels carries values up to 14,000 times the median, at the first token, in "
                 "layer 2</h1>"));
  CHECK(contains(page, "<dd>3 of 6</dd>"));  // sink heads
  CHECK(contains(page, "<dd>3 of 7</dd>"));  // inputs with outliers
}

TEST_CASE("a page reports that there are no massive values") {
  const std::string page = ballast::calibration_page(without_massive_values());
  CHECK(contains(page, "<h1>No massive activations: the largest value is 20 times the median of its layer</h1>"));
  CHECK(contains(page, "No layer has a massive value"));
}

TEST_CASE("names and token texts cannot become markup") {
  const std::string page = ballast::calibration_page(small_model());
  CHECK_FALSE(contains(page, "<script>"));
  CHECK(contains(page, "tiny &lt;model&gt;"));
  CHECK(contains(page, "&lt;/text&gt;&lt;script&gt;"));
  CHECK(contains(page, "<code>\\n</code>"));
}

TEST_CASE("empty statistics give a page") {
  check_page({});
  CHECK(contains(ballast::calibration_page({}), "Nothing was recorded for this figure."));
}

TEST_CASE("missing parts do not affect the other figures") {
  for (int missing = 0; missing < 9; ++missing) {
    CAPTURE(missing);
    Statistics statistics = small_model();
    if (missing == 0) statistics.layers.clear();
    if (missing == 1) statistics.layers.resize(1);
    if (missing == 2) statistics.layers[2].top.clear();
    if (missing == 3) statistics.massive_channels.clear();
    if (missing == 4) statistics.massive_tokens.clear();
    if (missing == 5) statistics.sink_share.clear();
    if (missing == 6) statistics.inputs.clear();
    if (missing == 7) statistics.key_values.assign(3, {});
    if (missing == 8) statistics.map = {};
    check_page(statistics);
  }
}

TEST_CASE("values that are zero or not finite are left out of the figures") {
  Statistics statistics = small_model();
  statistics.layers[0].median = 0;
  statistics.layers[1].top[0].value = std::numeric_limits<float>::infinity();
  statistics.layers[2].median = 0;
  statistics.layers[3].top[0].value = kNan;
  statistics.sink_share[0] = kNan;
  statistics.map.magnitudes = {kNan, 0, 0, 0};
  statistics.inputs[0].channels = channels({0, 0, 0, 0});
  statistics.key_values[0] = {channels({kNan, 1}), channels({0, 0})};
  check_page(statistics);
}

TEST_CASE("kinds of linears come from any architecture's names") {
  Statistics statistics;
  for (const std::string layer : {"0", "1"}) {
    const std::string prefix = "transformer.h." + layer + ".";
    statistics.inputs.push_back({{prefix + "attn.c_attn"}, channels({1, 2})});
    statistics.inputs.push_back({{prefix + "mlp.experts.0.w1", prefix + "mlp.experts.0.w3", prefix + "mlp.experts.1.w1",
                                  prefix + "mlp.experts.1.w3", prefix + "mlp.router"},
                                 channels({1, 2})});
  }
  statistics.inputs.push_back({{"score"}, channels({1, 2})});
  const ballast::report::CalibrationSummary findings(statistics);
  REQUIRE(findings.kinds.size() == 3);
  CHECK(findings.kinds[0].name == "attn.c_attn");
  CHECK(findings.kinds[1].name == "mlp.experts.*.w1, w3, router");
  CHECK(findings.kinds[1].inputs.size() == 2);
  CHECK(findings.kinds[1].inputs[1].layer == 2);
  CHECK(findings.kinds[2].name == "score");
  CHECK_FALSE(findings.kinds[2].layered);
}

TEST_CASE("a page reports how many experts got too few tokens; without experts it has no such section") {
  Statistics statistics = small_model();
  CHECK(!contains(ballast::calibration_page(statistics), "Experts"));
  statistics.experts = {{.layer = 2, .columns = 8, .tokens = {60, 3, 0, 1}, .stand_ins = {0, 5, 8, 7}},
                        {.layer = 3, .columns = 8, .tokens = {16, 16, 16, 16}, .stand_ins = {0, 0, 0, 0}}};
  const std::string page = ballast::calibration_page(statistics);
  CHECK(contains(page, "<strong>3 of 8 experts</strong> got fewer tokens"));
  CHECK(contains(page, "1 of them none"));
  CHECK(contains(page, "layer 2, expert 1: 3 tokens"));
}

TEST_CASE("a delimiter with massive values is listed with the first token") {
  Statistics statistics = small_model();
  CHECK(ballast::report::massive_places(statistics) == "at the first token");
  statistics.massive_tokens.push_back({31, 3, "the", 1});  // once, by chance: not in the headline
  CHECK(ballast::report::massive_places(statistics) == "at the first token");
  statistics.massive_tokens.push_back({30, 5, ".", 2});
  CHECK(ballast::report::massive_places(statistics) == "at the first token and at “.”");
  statistics.massive_tokens.erase(statistics.massive_tokens.begin());
  CHECK(ballast::report::massive_places(statistics) == "at “.”");
}

TEST_CASE("the largest channel of keys is found by magnitude") {
  const auto range = ballast::report::channel_range(channels({1, 5, 2}));
  REQUIRE(range);
  CHECK(range->channel == 1);
  CHECK(range->largest == 5);
  CHECK(range->median == 2);
  CHECK_FALSE(ballast::report::channel_range({}));
}
