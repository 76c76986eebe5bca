#include "ballast/statistics.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ballast/version.h"
#include "error_message.h"
#include "file_bytes.h"
#include "temporary_directory.h"
#include "tiny_model.h"

namespace ballast {
namespace {

using nlohmann::json;
using test::Contains;
using test::error_message;
using test::TemporaryDirectory;

ChannelStatistics channels(float size) {
  return {.min = {-size, -1, 0.5F},
          .max = {size, 2, 0.75F},
          .mean = {0, 0.5F, 0.6F},
          .mean_square = {size * size / 3, 1, 0.4F},
          .ordinary_absmax = {size / 2, 2, 0.75F}};
}

Statistics sample_statistics() {
  Statistics statistics;
  statistics.model = "a \"model\"";
  statistics.text = "text.txt, \xE2\x82\xAC.txt";
  statistics.samples = 3;
  statistics.length = 16;
  statistics.tokens = std::vector<int>(48, 7);
  statistics.tokens[5] = 49151;
  statistics.seed = 18446744073709551615U;
  statistics.heads = 2;
  statistics.layers = {{.layer = 0, .median = 0.1, .top = {}, .massive = false},
                       {.layer = 1,
                        .median = 1.65,
                        .top = {{-23855.25F, 2, 0, 17, "\n", 507},
                                {400, 1, 3, 5, "\xEF\xBF\xBD", 3},
                                {3, 0, 1, 2, "", 1},
                                {2, 0, 1, 2, "x", 2}},
                        .massive = true}};
  statistics.massive_channels = {{507, 3}, {3, 1}};
  statistics.massive_tokens = {{MassiveToken::kFirst, 0, "", 3}, {198, 7, "\n", 2}};
  statistics.sink_share = {0.25F, 0.75F};
  statistics.inputs = {{{"model.layers.0.self_attn.q_proj", "model.layers.0.self_attn.k_proj"}, channels(20)},
                       {{"lm_head"}, channels(1)}};
  statistics.key_values = {{channels(2), channels(3)}};
  statistics.map = {.layer = 1, .tokens = {"\n", "b"}, .channels = {3, 507}, .magnitudes = {400, 23855.25F, 1, 2}};
  return statistics;
}

std::string file_bytes(const Statistics& statistics) {
  const TemporaryDirectory directory;
  save_statistics(statistics, directory / "stats", false);
  return test::read_file(directory / "stats");
}

std::string refusal(const std::string& bytes) {
  const TemporaryDirectory directory;
  return error_message([&] { load_statistics(test::write_file(directory / "stats", bytes)); });
}

/// Returns the sample's file after a change of its metadata.
std::string with_metadata(const auto& change) {
  const std::string bytes = file_bytes(sample_statistics());
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  json header = json::parse(bytes.substr(8, length));
  json metadata = json::parse(header["__metadata__"]["ballast.statistics"].get<std::string>());
  change(metadata);
  header["__metadata__"]["ballast.statistics"] = metadata.dump();
  return test::safetensors_bytes(header.dump(), bytes.substr(8 + length));
}

TEST_CASE("statistics read from their file equal those that were saved") {
  const TemporaryDirectory directory;
  const Statistics before = sample_statistics();
  save_statistics(before, directory / "stats", false);
  const Statistics after = load_statistics(directory / "stats");
  CHECK(after.model == before.model);
  CHECK(after.text == before.text);
  CHECK(after.seed == before.seed);
  CHECK(after.layers[1].top[0].value == before.layers[1].top[0].value);
  CHECK(after.layers[1].top[1].token_text == before.layers[1].top[1].token_text);
  CHECK(after.massive_tokens[1].position == 7);
  CHECK(after.inputs[0].linears == before.inputs[0].linears);
  CHECK(after.inputs[0].channels.mean_square == before.inputs[0].channels.mean_square);
  CHECK(after.key_values[0].values.ordinary_absmax == before.key_values[0].values.ordinary_absmax);
  CHECK(after.tokens == before.tokens);
  CHECK(after.map.magnitudes == before.map.magnitudes);
  CHECK(file_bytes(after) == file_bytes(before));
}

TEST_CASE("an existing statistics file is kept unless replacement is requested") {
  const TemporaryDirectory directory;
  test::write_file(directory / "stats", "precious");
  CHECK(error_message([&] { save_statistics(sample_statistics(), directory / "stats", false); }) ==
        Contains("stats: exists;"));
  CHECK(test::read_file(directory / "stats") == "precious");
  save_statistics(sample_statistics(), directory / "stats", true);
  CHECK(load_statistics(directory / "stats").samples == 3);
}

TEST_CASE("a truncated statistics file is refused wherever it ends") {
  const std::string bytes = file_bytes(sample_statistics());
  for (std::size_t size = 0; size < bytes.size(); size += size + 40 < bytes.size() ? 37 : 1) {
    CAPTURE(size);
    CHECK(refusal(bytes.substr(0, size)) == Contains("stats: "));
  }
}

TEST_CASE("a file with other content is refused") {
  CHECK(error_message([] { load_statistics(test::golden_model("llama") / "model.safetensors"); }) ==
        Contains("model.safetensors: is not a statistics file of ballast calibrate"));
  CHECK(refusal("hello, this is no tensor file") == Contains("stats: "));
  CHECK(error_message([] { load_statistics("/nonexistent/stats"); }) == Contains("/nonexistent/stats: "));
}

TEST_CASE("damaged metadata is refused, and the error names what is wrong") {
  CHECK(refusal(with_metadata([](json&) {})) == "no error");
  CHECK(refusal(with_metadata([](json& m) { m["version"] = 1; })) ==
        Contains("version: is 1, this program reads version 2; it was written by ballast " + std::string(version()) +
                 ": calibrate again"));
  CHECK(refusal(with_metadata([](json& m) { m.erase("heads"); })) == Contains("ballast.statistics: heads"));
  CHECK(refusal(with_metadata([](json& m) { m["layers"][0]["median"] = "x"; })) ==
        Contains("ballast.statistics: layers[0].median"));
  CHECK(refusal(with_metadata([](json& m) { m["layers"] = 3; })) == Contains("stats: "));
  CHECK(refusal(with_metadata([](json& m) { m["inputs"] = {{1}}; })) == Contains("ballast.statistics: inputs[0]"));
  CHECK(refusal(with_metadata([](json& m) { m = 3; })) == Contains("ballast.statistics: must be an object"));
}

TEST_CASE("parts of statistics whose sizes contradict each other are refused") {
  Statistics statistics = sample_statistics();
  statistics.inputs[0].channels.mean.pop_back();
  CHECK(refusal(file_bytes(statistics)) == Contains("differ in length: calibrate again"));
  statistics = sample_statistics();
  statistics.map.magnitudes.pop_back();
  CHECK(refusal(file_bytes(statistics)) == Contains("do not have the size they state"));
  statistics = sample_statistics();
  statistics.heads = 3;
  CHECK(refusal(file_bytes(statistics)) == Contains("do not have the size they state"));
  statistics = sample_statistics();
  statistics.inputs[1].channels.max.clear();
  CHECK(refusal(file_bytes(statistics)) == Contains("differ in length"));
  statistics = sample_statistics();
  statistics.tokens.resize(45);
  CHECK(refusal(file_bytes(statistics)) == Contains("holds 45 tokens, not 3 samples of 16"));
  statistics = sample_statistics();
  statistics.length = 0;
  statistics.tokens.clear();
  CHECK(refusal(file_bytes(statistics)) == Contains("its samples hold no text"));
  statistics = sample_statistics();
  statistics.tokens[1] = -1;
  CHECK(refusal(file_bytes(statistics)) == Contains("its samples hold no text"));
}

TEST_CASE("the JSON names layers, channels, sinks and linears") {
  const json result = json::parse(statistics_json(sample_statistics()));
  CHECK(result["layers"][1]["median"] == 1.65);
  CHECK(result["layers"][1]["massive"] == true);
  CHECK(result["layers"][1]["top"].size() == 3);
  CHECK(result["layers"][1]["top"][0] ==
        json{{"value", -23855.25}, {"sample", 2}, {"position", 0}, {"token", "\n"}, {"channel", 507}});
  CHECK(result["massive_channels"] == json{507, 3});
  CHECK(result["sink_heads"] == json::array({json{{"layer", 1}, {"head", 1}, {"share", 0.75}}}));
  CHECK(result["linears"].size() == 3);
  CHECK(result["linears"][0]["name"] == "model.layers.0.self_attn.q_proj");
  CHECK(result["linears"][0]["absmax_ratio"] == 10);
  CHECK(result["linears"][2]["name"] == "lm_head");
}

TEST_CASE("outlier channels are those whose ordinary values are six times the median channel's") {
  LinearInputStatistics input;
  input.channels = channels(1);
  input.channels.ordinary_absmax = {1, 6, 5.9F, 1, 0.5F, 1, 900};
  CHECK(input.outlier_channels() == std::vector<std::size_t>{1, 6});
  input.channels.ordinary_absmax = {0, 0, 0, 7};
  CHECK(input.outlier_channels().empty());
}

}  // namespace
}  // namespace ballast
