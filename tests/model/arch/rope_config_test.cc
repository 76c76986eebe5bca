#include "model/arch/rope_config.h"

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <numbers>
#include <string>
#include <vector>

#include "error_message.h"
#include "file_bytes.h"
#include "model/arch/gguf_config.h"
#include "temporary_directory.h"

namespace ballast::model::rope_config_test {

using nlohmann::json;
using test::Contains;
using test::error_message;

RopeSpec read(const json& config, std::size_t head_size = 64) {
  return read_rope(files::JsonReader(config, "config.json"), head_size);
}

/// Returns the frequencies without stretching.
std::vector<double> plain_frequencies(double theta, std::size_t rotary_size) {
  RopeSpec rope;
  rope.theta = theta;
  rope.rotary_size = rotary_size;
  return rope_frequencies(rope);
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
  CHECK(refusal({{"rope_scaling", {{"type", "ntk"}, {"factor", 4}}}}) ==
        "config.json: rope_scaling.rope_type: 'ntk' is not supported; supported: default, dynamic, linear, "
        "llama3, mrope, yarn");
  CHECK(refusal({{"rope_parameters", {{"rope_type", 3}}}}) ==
        "config.json: rope_parameters.rope_type: must be a string, is 3");
  CHECK(refusal({{"rope_scaling", "linear"}}) == "config.json: rope_scaling: must be an object, is \"linear\"");
}

TEST_CASE("a rotary embedding with a missing or absurd number is refused by field") {
  for (const char* field : {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}) {
    CAPTURE(field);
    const std::string context = "config.json: rope_scaling." + std::string(field) + ": ";
    CHECK(refusal({{"rope_scaling", without(kLlama3, field)}}) == context + "missing");
    CHECK(refusal({{"rope_scaling", changed(kLlama3, field, -1)}}) == context + "must be positive");
    CHECK(refusal({{"rope_scaling", changed(kLlama3, field, "8")}}) == context + "must be a number, is \"8\"");
  }
  CHECK(refusal({{"rope_scaling", changed(kLlama3, "high_freq_factor", 1)}}) ==
        Contains("high_freq_factor: must be larger than low_freq_factor"));
  CHECK(refusal({{"rope_theta", 0}}) == "config.json: rope_theta: must be positive");
}

TEST_CASE("frequencies fall geometrically and linear scaling divides them") {
  const std::vector<double> plain = plain_frequencies(10000, 8);
  REQUIRE(plain.size() == 4);
  CHECK(plain[0] == 1.0);
  CHECK(plain[1] == doctest::Approx(0.1));
  CHECK(plain[3] == doctest::Approx(0.001));
  const RopeSpec linear = read({{"rope_scaling", {{"type", "linear"}, {"factor", 4}}}}, 8);
  CHECK(rope_frequencies(linear)[3] == doctest::Approx(0.001 / 4));
}

TEST_CASE("Llama 3 leaves fast pairs, stretches slow ones and blends between") {
  const std::vector<double> before = plain_frequencies(500000, 128);
  const std::vector<double> after = rope_frequencies(read({{"rope_theta", 500000.0}, {"rope_scaling", kLlama3}}, 128));
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

TEST_CASE("configurations of all versions can limit rotation to a part of a head's channels") {
  CHECK(read(json::object(), 12).rotary_size == 12);
  CHECK(read_rope(files::JsonReader(json::object(), "config.json"), 12, {.partial = 0.5}).rotary_size == 6);
  CHECK(read({{"partial_rotary_factor", 0.25}}).rotary_size == 16);
  CHECK(read({{"rotary_pct", 0.25}}).rotary_size == 16);
  CHECK(read({{"rope_parameters", {{"partial_rotary_factor", 0.4}}}}, 80).rotary_size == 32);
  CHECK(plain_frequencies(10000, 16).size() == 8);  // frequencies fall as in a whole head
}

TEST_CASE("a part of a head that cannot be rotated is refused by field") {
  CHECK(refusal({{"rotary_pct", 0}}) == "config.json: rotary_pct: must be above 0 and at most 1");
  CHECK(refusal({{"partial_rotary_factor", 1.5}}) ==
        "config.json: partial_rotary_factor: must be above 0 and at most 1");
  CHECK(refusal({{"rope_parameters", {{"partial_rotary_factor", 0.1}}}}) == "no error");  // 6 of 64
  CHECK(refusal({{"rope_parameters", {{"partial_rotary_factor", 0.05}}}}) ==
        "config.json: rope_parameters.partial_rotary_factor: makes 3 of a head's 64 channels rotate; "
        "it must be an even number");
}

// Computed by transformers 5.23's _compute_yarn_parameters for heads of 16.
TEST_CASE("YaRN's frequencies and amplitude are those of transformers") {
  const struct {
    json parameters;
    std::vector<double> frequencies;
    double amplitude;
  } cases[] = {
      {{{"factor", 4.0}, {"original_max_position_embeddings", 2048}, {"beta_fast", 32}, {"beta_slow", 1}},
       {1.0, 0.31622776, 0.1, 0.025693506, 0.0062499996, 0.0013834966, 0.00025000001, 7.9056947e-05},
       1.138629436111989},
      {{{"factor", 40.0}, {"original_max_position_embeddings", 4096}, {"mscale", 0.7}, {"mscale_all_dim", 0.9}},
       {1.0, 0.31622776, 0.1, 0.023914725, 0.0051249997, 0.00084986218, 2.4999999e-05, 7.9056945e-06},
       0.9446113842984986},
      {{{"factor", 8.0}, {"original_max_position_embeddings", 128}, {"truncate", false}, {"attention_factor", 1.5}},
       {1.0, 0.2105391, 0.033156611, 0.0039528473, 0.00125, 0.00039528473, 0.00012500001, 3.9528473e-05},
       1.5},
  };
  for (const auto& [parameters, frequencies, amplitude] : cases) {
    const RopeSpec rope = read({{"rope_parameters", changed(parameters, "rope_type", "yarn")}}, 16);
    CHECK(rope.scaling == RopeSpec::Scaling::kYarn);
    CHECK(rope.amplitude == doctest::Approx(amplitude).epsilon(1e-12));
    const std::vector<double> got = rope_frequencies(rope);
    REQUIRE(got.size() == frequencies.size());
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(frequencies[i]).epsilon(1e-6));
  }
}

TEST_CASE("YaRN scales the softmax only where all dimensions have a magnitude") {
  const auto factor = [](const json& config) {
    return yarn_attention_factor(files::JsonReader(config, "config.json"));
  };
  const json yarn = {{"type", "yarn"}, {"factor", 40.0}, {"mscale_all_dim", 0.7}};
  CHECK(factor(json::object()) == 1.0);
  CHECK(factor({{"rope_scaling", without(yarn, "mscale_all_dim")}}) == 1.0);
  CHECK(factor({{"rope_scaling", yarn}}) == doctest::Approx(0.1 * 0.7 * std::log(40.0) + 1));
  CHECK(factor({{"rope_scaling", changed(yarn, "factor", 1)}}) == 1.0);
}

TEST_CASE("YaRN with a missing or absurd number is refused by field") {
  const json yarn = {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 2048}};
  CHECK(refusal({{"rope_scaling", without(yarn, "original_max_position_embeddings")}}) ==
        "config.json: rope_scaling.original_max_position_embeddings: missing");
  for (const char* field : {"factor", "beta_fast", "beta_slow", "attention_factor"}) {
    CHECK(refusal({{"rope_scaling", changed(yarn, field, 0)}}) ==
          "config.json: rope_scaling." + std::string(field) + ": must be positive");
  }
  CHECK(refusal({{"rope_scaling", changed(yarn, "truncate", 1)}}) ==
        "config.json: rope_scaling.truncate: must be true or false, is 1");
}

/// Returns a GGUF with these factors only: `change` times those of Llama 3 with factor 32.
std::string gguf_with_factors(float change) {
  json parameters = kLlama3;
  parameters["factor"] = 32.0;
  const std::vector<double> stretched =
      rope_frequencies(read({{"rope_theta", 500000.0}, {"rope_scaling", parameters}}));
  const std::vector<double> before = plain_frequencies(500000, 64);
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
  return rope_parameters_from_gguf(*files::open_gguf(path), "llama.", head_size);
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
  const auto longrope =
      test::write_file(directory / "y.gguf", test::GgufBytes().string("llama.rope.scaling.type", "longrope").bytes());
  CHECK(error_message([&] { from_gguf(longrope, 64); }) ==
        Contains("llama.rope.scaling.type: 'longrope' is not supported; supported: none, linear, yarn"));
}

TEST_CASE("RoPE settings for longer contexts or for images do not change short texts") {
  for (const char* type : {"dynamic", "mrope"}) {
    const RopeSpec rope = read({{"rope_theta", 500.0}, {"rope_scaling", {{"type", type}, {"factor", 4}}}});
    CHECK(rope.theta == 500.0);
    CHECK(rope.scaling == RopeSpec::Scaling::kNone);
  }
}

TEST_CASE("a rotation that goes backwards has the negative angles") {
  RopeSpec rope = {.rotary_size = 6};
  const std::vector<double> forwards = rope_frequencies(rope);
  rope.backwards = true;
  const std::vector<double> backwards = rope_frequencies(rope);
  REQUIRE(backwards.size() == forwards.size());
  for (std::size_t i = 0; i < forwards.size(); ++i) CHECK(backwards[i] == -forwards[i]);
}

}  // namespace ballast::model::rope_config_test
