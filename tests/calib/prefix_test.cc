#include "calib/prefix.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "ballast/calibrate.h"
#include "error_message.h"
#include "model/model.h"
#include "temporary_directory.h"
#include "tiny_model.h"
#include "tiny_tokenizer.h"

namespace ballast::calib {
namespace {

using test::Contains;
using test::error_message;

constexpr int kEnd = 261;  // of the tiny tokenizer

/// A model with a tokenizer and a text of one sample.
struct TextModel {
  test::TemporaryDirectory directory;
  test::TinyModel model = test::random_model();
  std::string text;

  explicit TextModel(const std::string& content) : text(content) {
    model.tokenizer = test::tiny_tokenizer_json();
    model.config["eos_token_id"] = kEnd;
    write();
  }
  void write() const { model.write(directory / "model"); }
  float& embedding(int token, std::size_t channel) {
    return model.at("model.embed_tokens.weight").values[static_cast<std::size_t>(token) * 32 + channel];
  }
  Statistics measure(const CachedPrefix& prefix, std::size_t from = 0) const {
    const auto file = test::write_file(directory / "text.txt", text.substr(from));
    return calibrate(directory / "model",
                     {.text_files = {file}, .samples = 1, .length = text.size() - from, .prefix = prefix});
  }
};

MassiveToken seen(int token, std::size_t samples) {
  return {.token = token, .position = 0, .token_text = "", .samples = samples};
}

TEST_CASE("parsing the name of a prefix restores the prefix, and a bad name is refused") {
  for (const CachedPrefix& prefix :
       {CachedPrefix{}, CachedPrefix{.automatic = true}, CachedPrefix{.tokens = {198, 0}}}) {
    CHECK(parse_prefix(prefix_name(prefix), "place") == prefix);
  }
  for (const char* name : {"", ",", "1,", "-1", "1,-2", "1 2", "x", "99999999999"}) {
    CAPTURE(name);
    CHECK(error_message([&] { parse_prefix(name, "--prefix"); }) == Contains("--prefix: '" + std::string(name) + "'"));
  }
}

TEST_CASE("an automatic prefix has as many tokens as are massive in a sample, and the start token comes last") {
  const TextModel model("abc");
  const model::ModelSource source(model.directory / "model");
  Statistics statistics;
  statistics.samples = 10;
  const auto prefix = [&] { return massive_prefix(source, statistics, "stats"); };
  CHECK(error_message(prefix) == Contains("stats: no token is massive"));
  statistics.massive_tokens = {seen(MassiveToken::kFirst, 10)};
  CHECK(prefix() == std::vector<int>{kEnd});
  statistics.massive_tokens = {seen(MassiveToken::kFirst, 10), seen(65, 9), seen(13, 3), seen(4, 1)};
  CHECK(prefix() == std::vector<int>{65, 13, kEnd});
  statistics.massive_tokens = {seen(65, 9), seen(kEnd, 1)};
  CHECK(prefix() == std::vector<int>{65});
  statistics.massive_tokens = {seen(64, 1)};
  CHECK(prefix() == std::vector<int>{64});
  statistics.massive_tokens = {seen(64, 1), seen(900, 10)};
  CHECK(error_message(prefix) == Contains("token 900"));
}

TEST_CASE("statistics with a prefix are those of the samples' tokens at their positions after it") {
  const TextModel model("azbycxdwevfugthsirjqkplomn");
  const int first = 'a' - '!';
  const Statistics whole = model.measure({});
  const Statistics after = model.measure({.tokens = {first}}, 1);
  CHECK(after.prefix == std::vector<int>{first});
  CHECK(after.length == whole.length - 1);
  // The first token's query does not affect sinks, so both averages are over the same queries.
  REQUIRE(after.sink_share.size() == whole.sink_share.size());
  for (std::size_t i = 0; i < whole.sink_share.size(); ++i) {
    CHECK(after.sink_share[i] == doctest::Approx(whole.sink_share[i]).epsilon(1e-5));
  }

  model::Model run(model.directory / "model");
  model::SequenceState state = run.make_exact_state(whole.tokens.size());
  model::Workspace workspace;
  const model::SequenceTokens sequence = {whole.tokens, &state, whole.tokens.size()};
  const std::span<const float> hidden = run.forward({&sequence, 1}, workspace);
  float largest = 0;
  for (std::size_t i = 32; i < hidden.size(); ++i) largest = std::max(largest, std::abs(hidden[i]));
  CHECK(std::abs(after.layers.back().top.front().value) == doctest::Approx(largest).epsilon(1e-5));
}

TEST_CASE("after a prefix a massive token is recorded by its id") {
  TextModel model("abcdefgh");
  model.embedding('a' - '!', 7) = -9000;
  model.write();
  const Statistics bare = model.measure({});
  REQUIRE(bare.massive_tokens.size() == 1);
  CHECK(bare.massive_tokens[0].token == MassiveToken::kFirst);
  const Statistics after = model.measure({.tokens = {3}});
  REQUIRE(after.massive_tokens.size() == 1);
  CHECK(after.massive_tokens[0].token == 'a' - '!');

  const Statistics automatic = model.measure({.automatic = true});
  CHECK(automatic.prefix == std::vector<int>{kEnd});
  CHECK(automatic.tokens == bare.tokens);
  CHECK(serialize_statistics(automatic) == serialize_statistics(model.measure({.tokens = {kEnd}})));
  CHECK(parse_statistics(serialize_statistics(automatic), "stats").prefix == automatic.prefix);
}

TEST_CASE("calibration refuses a prefix that the model cannot have") {
  const TextModel model("abcdefgh");
  CHECK(error_message([&] { model.measure({.automatic = true}); }) == Contains("no token is massive"));
  CHECK(error_message([&] { model.measure({.tokens = {264}}); }) == Contains("token 264"));
  CHECK(error_message([&] { model.measure({.tokens = std::vector<int>(60, 1)}); }) ==
        Contains("length: 8 is more than the model's context of 4"));
  CHECK(error_message([&] {
          calibrate(test::golden_model("bert"), {.samples = 1, .length = 8, .prefix = {.automatic = true}});
        }) == Contains("is an encoder"));
}

}  // namespace
}  // namespace ballast::calib
