#include "ballast/calibrate.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "error_message.h"
#include "temporary_directory.h"
#include "tiny_model.h"
#include "tiny_tokenizer.h"
#include "with_threads.h"

namespace ballast {
namespace {

using test::Contains;
using test::error_message;
using test::golden_model;
using test::TemporaryDirectory;
namespace fs = std::filesystem;

CalibrateOptions sampled(std::size_t samples, std::size_t length, std::uint64_t seed = 0) {
  return {.text_files = {}, .samples = samples, .length = length, .seed = seed};
}

std::string saved(const Statistics& statistics) {
  const TemporaryDirectory directory;
  save_statistics(statistics, directory / "stats", false);
  return test::read_file(directory / "stats");
}

/// A model and a text for it, in which 'a' has a massive value at the first position or everywhere.
struct TextModel {
  TemporaryDirectory directory;
  test::TinyModel model = test::random_model();
  fs::path path;
  fs::path text;

  explicit TextModel(const std::string& content) {
    model.tokenizer = test::tiny_tokenizer_json();
    path = model.write(directory / "model");
    text = test::write_file(directory / "text.txt", content);
  }
  CalibrateOptions options(std::size_t samples, std::size_t length) const {
    return {.text_files = {text}, .samples = samples, .length = length};
  }
};

std::string alphabet_text(std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += static_cast<char>('b' + i * 7 % 24);
  return text;
}

TEST_CASE("the massive channel of a model that begins its texts itself is found") {
  const Statistics statistics = calibrate(golden_model("llama3"), sampled(3, 16));
  REQUIRE(statistics.layers.size() == 3);
  CHECK(statistics.model == "llama3");
  CHECK(statistics.text == "sampled from the model");
  for (std::size_t layer = 0; layer < 3; ++layer) {
    CAPTURE(layer);
    CHECK(statistics.layers[layer].layer == layer);
    const TopValue& top = statistics.layers[layer].top.front();
    CHECK(top.channel == 3);
    CHECK(top.token == 1);
    CHECK(top.value == doctest::Approx(400).epsilon(0.05));
  }
  CHECK(statistics.layers[0].massive);
  REQUIRE(statistics.massive_channels.size() == 1);
  CHECK(statistics.massive_channels[0].channel == 3);
  CHECK(statistics.massive_channels[0].samples == 3);
  CHECK(statistics.massive_tokens.front().token == MassiveToken::kFirst);
  CHECK(statistics.massive_tokens.front().samples == 3);
}

TEST_CASE("a massive channel at position 0 is found in every layer") {
  TextModel model(
      "abcdefgh"
      "aijklmno"
      "apqrstuv");
  model.model.at("model.embed_tokens.weight").values[('a' - '!') * 32 + 7] = -9000;
  model.model.write(model.path);
  const Statistics statistics = calibrate(model.path, model.options(8, 8));
  for (const LayerStatistics& layer : statistics.layers) {
    CAPTURE(layer.layer);
    CHECK(layer.massive);
    CHECK(layer.top.front().channel == 7);
    CHECK(layer.top.front().position == 0);
    CHECK(layer.top.front().token_text == "a");
    CHECK(layer.top.front().value == doctest::Approx(-9000).epsilon(0.01));
  }
  REQUIRE(statistics.massive_channels.size() == 1);
  CHECK(statistics.massive_channels[0].channel == 7);
  REQUIRE(statistics.massive_tokens.size() == 1);
  CHECK(statistics.massive_tokens[0].token == MassiveToken::kFirst);
  CHECK(statistics.massive_tokens[0].samples == 3);
  CHECK(statistics.map.channels.size() == 32);
}

TEST_CASE("a model without massive values has none") {
  const Statistics statistics = calibrate(golden_model("llama"), sampled(2, 16));
  for (const LayerStatistics& layer : statistics.layers) {
    CHECK(!layer.massive);
    CHECK(layer.median > 0);
  }
  CHECK(statistics.massive_channels.empty());
  CHECK(statistics.massive_tokens.empty());
}

TEST_CASE("a token that is massive at every position is distinguished from the first position") {
  TextModel model(
      "bcdaefgh"
      "ijkalmno"
      "pqrsauvw");
  model.model.at("model.embed_tokens.weight").values[('a' - '!') * 32 + 7] = -900;
  model.model.write(model.path);
  const Statistics statistics = calibrate(model.path, model.options(8, 8));
  CHECK(statistics.samples == 3);
  REQUIRE(statistics.massive_tokens.size() == 1);
  CHECK(statistics.massive_tokens[0].token == 'a' - '!');
  CHECK(statistics.massive_tokens[0].token_text == "a");
  CHECK(statistics.massive_tokens[0].position == 3);
  CHECK(statistics.massive_tokens[0].samples == 3);
  CHECK(statistics.massive_channels.at(0).channel == 7);
  CHECK(statistics.layers[0].top.front().value == -900);
  // The ordinary range of the first block's input leaves the massive tokens out.
  const ChannelStatistics& input = statistics.inputs[0].channels;
  CHECK(input.absmax(7) > 5);
  CHECK(input.ordinary_absmax[7] < 3);
}

TEST_CASE("the ranges of the first block's input agree with a naive computation") {
  TextModel model(alphabet_text(48));
  auto& gain = model.model.at("model.layers.0.input_layernorm.weight").values;
  for (std::size_t c = 0; c < gain.size(); ++c) gain[c] = 0.2F + static_cast<float>(c) / 8;
  model.model.write(model.path);
  const Statistics statistics = calibrate(model.path, model.options(10, 16));
  CHECK(statistics.samples == 3);
  CHECK(statistics.text == "text.txt");
  CHECK(statistics.inputs[0].linears == std::vector<std::string>{"model.layers.0.self_attn.q_proj",
                                                                 "model.layers.0.self_attn.k_proj",
                                                                 "model.layers.0.self_attn.v_proj"});
  const auto& embedding = model.model.at("model.embed_tokens.weight").values;
  const ChannelStatistics& got = statistics.inputs[0].channels;
  REQUIRE(got.min.size() == 32);
  for (std::size_t c = 0; c < 32; ++c) {
    double low = 1e9;
    double high = -1e9;
    double sum = 0;
    double squares = 0;
    for (const char character : alphabet_text(48)) {
      const float* row = embedding.data() + static_cast<std::size_t>(character - '!') * 32;
      double norm = 0;
      for (std::size_t i = 0; i < 32; ++i) norm += double{row[i]} * double{row[i]} / 32;
      const double value = row[c] / std::sqrt(norm + 1e-6) * gain[c];
      low = std::min(low, value);
      high = std::max(high, value);
      sum += value / 48;
      squares += value * value / 48;
    }
    CHECK(got.min[c] == doctest::Approx(low).epsilon(1e-5));
    CHECK(got.max[c] == doctest::Approx(high).epsilon(1e-5));
    CHECK(std::abs(got.mean[c] - sum) < 1e-5);
    CHECK(got.mean_square[c] == doctest::Approx(squares).epsilon(1e-5));
    CHECK(got.ordinary_absmax[c] == got.absmax(c));
  }
}

TEST_CASE("every input, layer and head is recorded") {
  const Statistics statistics = calibrate(golden_model("llama3"), sampled(2, 16));
  CHECK(statistics.inputs.size() == 4 * 2 + 1);
  CHECK(statistics.inputs.back().linears == std::vector<std::string>{"lm_head"});
  CHECK(statistics.inputs[3].linears == std::vector<std::string>{"model.layers.0.mlp.down_proj"});
  CHECK(statistics.inputs[3].channels.max.size() == 48);
  CHECK(statistics.inputs[1].channels.max.size() == 64);
  REQUIRE(statistics.key_values.size() == 2);
  CHECK(statistics.key_values[1].keys.mean.size() == 32);
  CHECK(statistics.key_values[1].values.mean.size() == 32);
  CHECK(statistics.heads == 4);
  CHECK(statistics.sink_share.size() == 2 * 4);
  for (const LinearInputStatistics& input : statistics.inputs) {
    for (std::size_t c = 0; c < input.channels.min.size(); ++c) {
      CHECK(input.channels.min[c] <= input.channels.mean[c]);
      CHECK(input.channels.mean[c] <= input.channels.max[c]);
      CHECK(input.channels.ordinary_absmax[c] <= input.channels.absmax(c));
    }
  }
  CHECK(statistics.map.tokens.size() == 16);
  CHECK(statistics.map.magnitudes.size() == 16 * statistics.map.channels.size());
  CHECK(std::ranges::find(statistics.map.channels, 3U) != statistics.map.channels.end());
}

TEST_CASE("a sink's share is between 0 and 1, and uniform for uniform attention") {
  for (const float share : calibrate(golden_model("llama3"), sampled(3, 16)).sink_share) {
    CHECK(share >= 0);
    CHECK(share <= 1);
  }
  // Zero queries see all keys alike: the first of i + 1 keys gets 1 / (i + 1).
  TextModel model(alphabet_text(12));
  for (float& value : model.model.at("model.layers.0.self_attn.q_proj.weight").values) value = 0;
  model.model.write(model.path);
  double expected = 0;
  for (int i = 1; i < 12; ++i) expected += 1.0 / (i + 1) / 11;
  const Statistics statistics = calibrate(model.path, model.options(1, 12));
  for (std::size_t head = 0; head < 4; ++head) CHECK(statistics.sink_share[head] == doctest::Approx(expected));
}

TEST_CASE("statistics do not depend on the number of threads") {
  const TextModel model(alphabet_text(160));
  const auto run = [&] { return saved(calibrate(model.path, model.options(10, 16))); };
  const std::string one = test::with_threads(1, run);
  CHECK(test::with_threads(2, run) == one);
  CHECK(test::with_threads(5, run) == one);
  const auto own = [&] { return saved(calibrate(golden_model("llama3"), sampled(40, 8))); };
  CHECK(test::with_threads(1, own) == test::with_threads(3, own));
}

TEST_CASE("samples that need several batches have the same statistics as those of one batch") {
  // 80 samples of 16 tokens are more than one batch; the text repeats itself, so 8 samples have the same ranges.
  std::string repeated;
  for (int i = 0; i < 10; ++i) repeated += alphabet_text(128);
  const TextModel many(repeated);
  const TextModel few(alphabet_text(128));
  const Statistics large = calibrate(many.path, many.options(80, 16));
  const Statistics small = calibrate(few.path, few.options(8, 16));
  CHECK(large.samples == 80);
  CHECK(small.samples == 8);
  for (std::size_t i = 0; i < large.inputs.size(); ++i) {
    const ChannelStatistics& a = large.inputs[i].channels;
    const ChannelStatistics& b = small.inputs[i].channels;
    for (std::size_t c = 0; c < a.min.size(); ++c) {
      CHECK(a.min[c] == doctest::Approx(b.min[c]).epsilon(1e-4));
      CHECK(a.max[c] == doctest::Approx(b.max[c]).epsilon(1e-4));
      CHECK(std::abs(a.mean[c] - b.mean[c]) < 1e-4);
      CHECK(a.mean_square[c] == doctest::Approx(b.mean_square[c]).epsilon(1e-4));
    }
  }
  for (std::size_t i = 0; i < large.sink_share.size(); ++i) {
    CHECK(large.sink_share[i] == doctest::Approx(small.sink_share[i]).epsilon(1e-4));
  }
}

TEST_CASE("without text a seed always gives the same statistics, and another seed gives others") {
  const auto run = [](std::uint64_t seed) { return saved(calibrate(golden_model("llama"), sampled(4, 12, seed))); };
  const std::string first = run(7);
  CHECK(run(7) == first);
  CHECK(run(8) != first);
}

TEST_CASE("the seed chooses among a text's samples") {
  const TextModel model(alphabet_text(160));
  CalibrateOptions options = model.options(2, 16);
  const std::string first = saved(calibrate(model.path, options));
  CHECK(saved(calibrate(model.path, options)) == first);
  options.seed = 1;
  CHECK(saved(calibrate(model.path, options)) != first);
}

TEST_CASE("a GGUF is measured like the Hugging Face directory") {
  const Statistics directory = calibrate(golden_model("llama"), sampled(1, 8));
  const Statistics gguf = calibrate(golden_model("llama.gguf"), sampled(1, 8));
  CHECK(gguf.inputs.size() == directory.inputs.size());
  CHECK(gguf.inputs[2].linears == directory.inputs[2].linears);
}

TEST_CASE("options that cannot be satisfied are refused by name") {
  const TextModel model("hello");
  CHECK(error_message([&] { calibrate(model.path, model.options(0, 8)); }) == "samples: must be at least 1");
  CHECK(error_message([&] { calibrate(model.path, model.options(1, 1)); }) == "length: must be at least 2");
  CHECK(error_message([&] { calibrate(model.path, model.options(1, 65)); }) ==
        "length: 65 is more than the model's context of 64");
  CHECK(error_message([&] { calibrate(model.path, model.options(1, 8)); }) ==
        Contains("text.txt: holds 1 tokens, fewer than one sample of 8"));
  CHECK(error_message([&] {
          calibrate(golden_model("llama"), {.text_files = {model.text}, .samples = 1, .length = 8});
        }) == Contains("has no tokenizer.json"));
  CHECK(error_message([&] {
          calibrate(model.path, {.text_files = {model.directory / "none.txt"}, .samples = 1, .length = 8});
        }) == Contains("none.txt"));
}

TEST_CASE("activations that overflow are refused, and the error names the layer") {
  TextModel model(alphabet_text(16));
  for (float& value : model.model.at("model.layers.1.mlp.down_proj.weight").values) value = 3e38F;
  model.model.write(model.path);
  CHECK(error_message([&] { calibrate(model.path, model.options(1, 16)); }) ==
        Contains("layer 2 gives values that are not finite"));
}

TEST_CASE("a calibration resumes after any step and gives the same bytes") {
  const TemporaryDirectory directory;
  struct Ended {};
  CalibrateOptions options = sampled(9, 8);
  const std::string expected = saved(calibrate(golden_model("llama3"), options));
  options.state_folder = directory / "state";
  std::size_t ended = 0;
  for (std::size_t steps = 1; steps < 60; steps += 3) {
    CAPTURE(steps);
    std::size_t step = 0;
    const Progress ending = [&](std::string_view, std::size_t, std::size_t) {
      if (++step == steps) throw Ended{};
    };
    try {
      calibrate(golden_model("llama3"), options, ending);
    } catch (const Ended&) {
      ++ended;
    }
  }
  CHECK(ended > 0);
  CHECK(saved(calibrate(golden_model("llama3"), options)) == expected);
  CHECK(fs::exists(options.state_folder));
  discard_calibration_state(options);
  CHECK_FALSE(fs::exists(options.state_folder));
}

TEST_CASE("progress of a calibration with other options is not resumed") {
  const TemporaryDirectory directory;
  CalibrateOptions options = sampled(2, 8);
  options.state_folder = directory / "state";
  calibrate(golden_model("llama3"), options);
  options.seed = 1;
  CHECK(saved(calibrate(golden_model("llama3"), options)) ==
        saved(calibrate(golden_model("llama3"), sampled(2, 8, 1))));
}

TEST_CASE("the generation of texts can be ended at every token") {
  struct Ended {};
  std::size_t tokens = 0;
  CHECK_THROWS_AS(calibrate(golden_model("llama3"), sampled(2, 16),
                            [&](std::string_view stage, std::size_t done, std::size_t) {
                              CHECK(stage == "writing text");
                              tokens = done;
                              if (done >= 6) throw Ended{};
                            }),
                  Ended);
  CHECK(tokens == 6);
}

TEST_CASE("a text that the model generates does not depend on how many it generates at once") {
  const Statistics many = calibrate(golden_model("llama3"), sampled(70, 8));
  for (const std::size_t count : {1U, 3U, 9U}) {
    const Statistics few = calibrate(golden_model("llama3"), sampled(count, 8));
    CHECK(few.tokens ==
          std::vector<int>(many.tokens.begin(), many.tokens.begin() + static_cast<int>(few.tokens.size())));
  }
}

TEST_CASE("the plan is reported before the work, and a job that does not fit is refused with a size that does") {
  CalibrateOptions options = sampled(2, 8);
  JobPlan plan;
  options.on_plan = [&](const JobPlan& told) { plan = told; };
  calibrate(golden_model("llama3"), options);
  CHECK(plan.memory_bytes > 0);
  CHECK(plan.memory_bytes < plan.available_bytes);
  CHECK(plan.seconds > 0);
  options.samples = std::size_t{1} << 40;
  const std::string message = error_message([&] { calibrate(golden_model("llama3"), options); });
  CHECK(message == Contains("memory: 1099511627776 samples of 8 tokens take "));
  CHECK(message == Contains(" would fit"));
}

TEST_CASE("progress is reported block by block, and an exception from it ends the job") {
  const TextModel model(alphabet_text(16));
  std::vector<std::size_t> blocks;
  calibrate(model.path, model.options(1, 16), [&](std::string_view stage, std::size_t done, std::size_t total) {
    if (stage != "calibrating") return;
    CHECK(total == 2);
    blocks.push_back(done);
  });
  CHECK(std::ranges::is_sorted(blocks));
  CHECK(blocks.front() == 0);
  CHECK(blocks.back() == 2);
  struct Cancelled {};
  CHECK_THROWS_AS(calibrate(model.path, model.options(1, 16),
                            [](std::string_view, std::size_t, std::size_t) { throw Cancelled{}; }),
                  Cancelled);
}

}  // namespace
}  // namespace ballast
