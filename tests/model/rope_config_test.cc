#include "model/arch/rope_config.h"

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <numbers>
#include <string>
#include <vector>

#include "error_message.h"
#include "file_bytes.h"
#include "temporary_directory.h"

namespace ballast::model {
namespace {

using nlohmann::json;
using test::Contains;
using test::error_message;

RopeSpec read(const json& config) {
  return read_rope(ConfigReader(config, "config.json"));
}

std::string refusal(const json& config) {
  return error_message([&] { read(config); });
}

const json kLlama3 = {{"rope_type", "llama3"},
                      {"factor", 8.0},
                      {"low_freq_factor", 1.0},
                      {"high_freq_factor", 4.0},
                      {"original_max_position_embeddings", 8192}};

json without(json object, const char* field) {
  object.erase(field);
  return object;
}

json changed(json object, const char* field, const json& value) {
  object[field] = value;
  return object;
}

TEST_CASE("both generations of configurations mean the same") {
  json parameters = kLlama3;
  parameters["rope_theta"] = 500000.0;
  const RopeSpec now = read({{"rope_parameters", parameters}});
  const RopeSpec before = read({{"rope_theta", 500000.0}, {"rope_scaling", kLlama3}});
  for (const RopeSpec& rope : {now, before}) {
    CHECK(rope.theta == 500000.0);
    CHECK(rope.scaling == RopeSpec::Scaling::kLlama3);
    CHECK(rope.factor == 8.0);
    CHECK(rope.original_context == 8192.0);
  }
  CHECK(read(json::object()).theta == 10000.0);
  CHECK(read({{"rope_scaling", nullptr}}).scaling == RopeSpec::Scaling::kNone);
  const RopeSpec linear = read({{"rope_scaling", {{"type", "linear"}, {"factor", 4}}}});
  CHECK(linear.scaling == RopeSpec::Scaling::kLinear);
  CHECK(linear.factor == 4.0);
}

TEST_CASE("a rotary embedding that is not known is refused by name") {
  CHECK(refusal({{"rope_scaling", {{"type", "yarn"}, {"factor", 4}}}}) ==
        "config.json: rope_scaling: rope_type: 'yarn' is not supported; supported: default, linear, llama3");
  CHECK(refusal({{"rope_parameters", {{"rope_type", 3}}}}) ==
        "config.json: rope_parameters: rope_type: must be a string, is 3");
  CHECK(refusal({{"rope_scaling", "linear"}}) == "config.json: rope_scaling: must be an object, is \"linear\"");
}

TEST_CASE("a rotary embedding with a missing or absurd number is refused by field") {
  for (const char* field : {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}) {
    CAPTURE(field);
    const std::string place = "config.json: rope_scaling: " + std::string(field) + ": ";
    CHECK(refusal({{"rope_scaling", without(kLlama3, field)}}) == place + "missing");
    CHECK(refusal({{"rope_scaling", changed(kLlama3, field, -1)}}) == place + "must be positive");
    CHECK(refusal({{"rope_scaling", changed(kLlama3, field, "8")}}) == place + "must be a number, is \"8\"");
  }
  CHECK(refusal({{"rope_scaling", changed(kLlama3, "high_freq_factor", 1)}}) ==
        Contains("high_freq_factor: must be larger than low_freq_factor"));
  CHECK(refusal({{"rope_theta", 0}}) == "config.json: rope_theta: must be positive");
}

TEST_CASE("frequencies fall geometrically and linear scaling divides them") {
  RopeSpec rope;
  const std::vector<double> plain = rope_frequencies(rope, 8);
  REQUIRE(plain.size() == 4);
  CHECK(plain[0] == 1.0);
  CHECK(plain[1] == doctest::Approx(0.1));
  CHECK(plain[3] == doctest::Approx(0.001));
  rope.scaling = RopeSpec::Scaling::kLinear;
  rope.factor = 4;
  CHECK(rope_frequencies(rope, 8)[3] == doctest::Approx(0.001 / 4));
}

TEST_CASE("Llama 3 leaves fast pairs, stretches slow ones and blends between") {
  RopeSpec rope = read({{"rope_theta", 500000.0}, {"rope_scaling", kLlama3}});
  RopeSpec plain;
  plain.theta = rope.theta;
  const std::vector<double> before = rope_frequencies(plain, 128);
  const std::vector<double> after = rope_frequencies(rope, 128);
  std::size_t blended = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const double wavelength = 2 * std::numbers::pi / before[i];
    const double ratio = before[i] / after[i];
    if (wavelength < 8192.0 / 4) {
      CHECK(ratio == doctest::Approx(1));
    } else if (wavelength > 8192.0) {
      CHECK(ratio == doctest::Approx(8));
    } else {
      CHECK(ratio > 1);
      CHECK(ratio < 8);
      ++blended;
    }
  }
  CHECK(blended > 0);
}

/// A GGUF that holds nothing but these factors, `change` times the ones of Llama 3 with factor 32.
std::string gguf_with_factors(float change) {
  json parameters = kLlama3;
  parameters["factor"] = 32.0;
  const std::vector<double> stretched =
      rope_frequencies(read({{"rope_theta", 500000.0}, {"rope_scaling", parameters}}), 64);
  RopeSpec plain;
  plain.theta = 500000.0;
  const std::vector<double> before = rope_frequencies(plain, 64);
  test::GgufBytes file;
  file.string("general.architecture", "llama").number("llama.rope.freq_base", 6, 500000.0F);
  file.tensor("rope_freqs.weight", {32}, 0, 0);
  for (std::size_t i = 0; i < before.size(); ++i) {
    const auto factor = static_cast<float>(before[i] / stretched[i]);
    file.data += test::raw(i == 17 ? factor * change : factor);
  }
  return file.bytes();
}

json from_gguf(const std::filesystem::path& path, std::size_t head_size) {
  return rope_parameters_from_gguf(*open_gguf(path), "llama.", head_size);
}

TEST_CASE("Llama 3's parameters are recovered from a GGUF's factors") {
  const test::TemporaryDirectory directory;
  const json parameters = from_gguf(test::write_file(directory / "m.gguf", gguf_with_factors(1)), 64);
  const RopeSpec rope = read({{"rope_parameters", parameters}});
  CHECK(rope.scaling == RopeSpec::Scaling::kLlama3);
  CHECK(rope.theta == 500000.0);
  CHECK(rope.factor == doctest::Approx(32));
  CHECK(rope.original_context == 8192.0);
}

TEST_CASE("a GGUF's factors that are not Llama 3's are refused") {
  const test::TemporaryDirectory directory;
  const auto changed_factor = test::write_file(directory / "m.gguf", gguf_with_factors(1.01F));
  CHECK(error_message([&] { from_gguf(changed_factor, 64); }) ==
        Contains("rope_freqs.weight: holds other factors than Llama 3's"));
  CHECK(error_message([&] { from_gguf(changed_factor, 128); }) ==
        Contains("rope_freqs.weight: has shape [32], expected [64]"));
  const auto yarn =
      test::write_file(directory / "y.gguf", test::GgufBytes().string("llama.rope.scaling.type", "yarn").bytes());
  CHECK(error_message([&] { from_gguf(yarn, 64); }) ==
        Contains("llama.rope.scaling.type: 'yarn' is not supported; supported: none, linear"));
}

}  // namespace
}  // namespace ballast::model
