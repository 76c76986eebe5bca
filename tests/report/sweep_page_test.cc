#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "ballast/report.h"
#include "html_page.h"

namespace ballast {
namespace {

using test::contains;

SweepRow measured(const std::string& name, std::uint64_t bytes, double kl, double speed) {
  SweepRow row{.name = name};
  row.formats = {{"int4-g32-asym", 760, 400}, {"int8-g64", 239, 250}, {"F32", 1, 4}};
  row.evaluation.emplace();
  row.evaluation->chunks = 24;
  row.evaluation->tokens = 6120;
  row.evaluation->ppl = 16.587;
  row.evaluation->reference_ppl = 16.507;
  row.evaluation->kl_mean = kl;
  row.evaluation->kl_p99 = 3 * kl;
  row.evaluation->top1_agreement = 0.9481;
  row.evaluation->file_bytes = bytes;
  row.evaluation->bits_per_weight = 5.52;
  if (speed > 0) {
    row.benchmark.emplace();
    row.benchmark->cpu = "A processor";
    row.benchmark->simd_target = "AVX2";
    row.benchmark->threads = 2;
    row.benchmark->results = {{.test = "pp512", .tokens_per_second = speed},
                              {.test = "tg128", .tokens_per_second = speed / 8}};
  }
  return row;
}

Sweep example() {
  Sweep sweep{.model = "tiny <model>", .original_bytes = 269'060'280};
  sweep.text = "wiki & more.txt";
  sweep.calibration = "128 samples of 512 tokens, calibration.txt";
  sweep.context = 512;
  sweep.program = "0.1.0";
  sweep.rows = {measured("w8a8", 141'800'000, 0.0039, 2000), measured("w4a16@92MB", 91'990'000, 0.04749, 1900)};
  return sweep;
}

std::vector<SweepPeer> peers() {
  return {{.program = "llama.cpp", .name = "Q4_K_M", .file_mb = 105.5, .kl = 0.056, .speeds = {{"pp512", 728}}},
          {.program = "OpenVINO", .name = "int4", .file_mb = 90, .kl = 0.193}};
}

TEST_CASE("a sweep's page is well formed, self-contained, and the same each time") {
  for (const auto& others : {std::vector<SweepPeer>(), peers()}) {
    const std::string page = sweep_page(example(), others);
    test::check_page(page);
    CHECK(page == sweep_page(example(), others));
  }
  test::check_page(sweep_page({}));
}

TEST_CASE("a point's tooltip has recipe, size, divergence, perplexity, speed and formats") {
  CHECK(contains(sweep_page(example()),
                 "<title>w4a16@92MB\n91.99 MB, 5.52 bits per weight\nKL 0.0475, 99 % below 0.142\nperplexity 16.59\n"
                 "same top token 94.8 %\npp512 1,900 tokens/s\ntg128 238 tokens/s\n"
                 "int4-g32-asym 76 %, int8-g64 24 %</title>"));
}

TEST_CASE("a sweep's page has the measurement, the data and the machine") {
  const std::string page = sweep_page(example());
  CHECK(
      contains(page, "<h1>Two recipes of 91.99 to 141.8 MB: a divergence of 0.0475 to 0.0039 from the original</h1>"));
  CHECK(contains(page, "Model tiny &lt;model&gt;, calibrated on 128 samples of 512 tokens, calibration.txt"));
  CHECK(contains(page, "Scored on wiki &amp; more.txt: 6,120 tokens in 24 chunks of 512"));
  CHECK(contains(page, "A processor (AVX2), 2 threads"));
  CHECK(contains(page, "<dd>16.51</dd>"));
}

TEST_CASE("the table contains all figures of the charts") {
  const std::string page = sweep_page(example(), peers());
  const std::string table = page.substr(page.find("All figures</h2>"));
  for (const char* cell : {"w4a16@92MB", "91.99", "0.0475", "16.59", "94.8 %", "1,900", "Q4_K_M", "105.5", "0.056",
                           "728", "OpenVINO", "int4-g32-asym 76 %, int8-g64 24 %"}) {
    CAPTURE(cell);
    CHECK(contains(table, cell));
  }
}

TEST_CASE("peers are drawn with ballast's recipes and have a separate legend") {
  const std::string page = sweep_page(example(), peers());
  CHECK(contains(page, "</svg>ballast</li>"));
  CHECK(contains(page, "</svg>llama.cpp</li>"));
  CHECK(contains(page, "<title>Q4_K_M · llama.cpp\n105.5 MB\nKL 0.056\npp512 728 tokens/s</title>"));
  // OpenVINO's speed is not known: it is only in the chart of sizes.
  const std::string speed = page.substr(page.find("Accuracy against speed"));
  CHECK_FALSE(contains(speed, "</svg>OpenVINO</li>"));
}

TEST_CASE("the recipes of another sweep are joined with this one's") {
  const std::string page =
      sweep_page(example(), {{.program = "ballast", .name = "w4a16@70MB", .file_mb = 70, .kl = 0.1}});
  CHECK(contains(page, "<h1>Three recipes of 70 to 141.8 MB: a divergence of 0.1 to 0.0039 from the original</h1>"));
}

TEST_CASE("without speeds there is no plot of them") {
  Sweep sweep = example();
  for (SweepRow& row : sweep.rows) row.benchmark.reset();
  const std::string page = sweep_page(sweep);
  CHECK_FALSE(contains(page, "Accuracy against speed"));
  CHECK_FALSE(contains(page, "tokens/s"));
}

TEST_CASE("failures are listed with their reasons, and results without a divergence are not drawn") {
  Sweep sweep = example();
  sweep.rows.push_back({.name = "broken", .error = "model.safetensors: no <room> left"});
  sweep.rows.push_back(measured("f32", 538'000'000, 1e-9, 0));
  const std::string page = sweep_page(sweep);
  test::check_page(page);
  CHECK(contains(page, "<td>broken</td><td>model.safetensors: no &lt;room&gt; left</td>"));
  CHECK(contains(page, "Not drawn: 1 point with a divergence below 1e-05"));
  CHECK_FALSE(contains(page, "<title>f32"));
  CHECK(contains(page, "<td>f32</td>"));
}

TEST_CASE("names of peers cannot become markup") {
  const std::string page =
      sweep_page(example(), {{.program = "<b>", .name = "</svg><script>", .file_mb = 100, .kl = 0.1}});
  test::check_page(page);
  CHECK_FALSE(contains(page, "<b>"));
  CHECK_FALSE(contains(page, "</svg><script>"));
}

}  // namespace
}  // namespace ballast
