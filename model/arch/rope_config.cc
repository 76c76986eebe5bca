#include "model/arch/rope_config.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <string>
#include <vector>

#include "ballast/error.h"

namespace ballast::model {

namespace {

constexpr double kDefaultTheta = 10000.0;

// Llama 3.1 to 3.3 share these; only the factor differs (8 or 32).
constexpr double kLlama3LowFrequency = 1.0;
constexpr double kLlama3HighFrequency = 4.0;
constexpr double kLlama3Context = 8192.0;

double positive(const ConfigReader& config, std::string_view field) {
  const double value = config.number(field);
  if (value <= 0) config.fail(field, "must be positive");
  return value;
}

RopeSpec read_scaling(const ConfigReader& config, double theta) {
  RopeSpec rope;
  rope.theta = theta;
  const std::string type = config.text("rope_type", config.text("type", "default"));
  if (type == "default") return rope;
  rope.factor = positive(config, "factor");
  if (type == "linear") {
    rope.scaling = RopeSpec::Scaling::kLinear;
  } else if (type == "llama3") {
    rope.scaling = RopeSpec::Scaling::kLlama3;
    rope.low_freq_factor = positive(config, "low_freq_factor");
    rope.high_freq_factor = positive(config, "high_freq_factor");
    rope.original_context = positive(config, "original_max_position_embeddings");
    if (rope.high_freq_factor <= rope.low_freq_factor) {
      config.fail("high_freq_factor", "must be larger than low_freq_factor");
    }
  } else {
    config.fail("rope_type", "'" + type + "' is not supported; supported: default, linear, llama3");
  }
  return rope;
}

// What `rope_freqs.weight` would hold for these parameters: the plain frequencies over the stretched ones.
std::vector<double> frequency_factors(const RopeSpec& rope, std::size_t head_size) {
  RopeSpec plain;
  plain.theta = rope.theta;
  std::vector<double> factors = rope_frequencies(plain, head_size);
  const std::vector<double> stretched = rope_frequencies(rope, head_size);
  for (std::size_t i = 0; i < factors.size(); ++i) factors[i] /= stretched[i];
  return factors;
}

}  // namespace

RopeSpec read_rope(const ConfigReader& config) {
  if (config.has("rope_parameters")) {
    const ConfigReader parameters = config.object("rope_parameters");
    const double theta = parameters.has("rope_theta") ? positive(parameters, "rope_theta") : kDefaultTheta;
    return read_scaling(parameters, theta);
  }
  const double theta = config.has("rope_theta") ? positive(config, "rope_theta") : kDefaultTheta;
  if (config.has("rope_scaling")) return read_scaling(config.object("rope_scaling"), theta);
  RopeSpec rope;
  rope.theta = theta;
  return rope;
}

nlohmann::json rope_parameters_from_gguf(const GgufFile& file, std::string_view prefix, std::size_t head_size) {
  const ConfigReader metadata(file.config(), file.path().string());
  const std::string base = std::string(prefix) + "rope.";
  nlohmann::json parameters = {{"rope_type", "default"},
                               {"rope_theta", metadata.number(base + "freq_base", kDefaultTheta)}};
  const std::string scaling = metadata.text(base + "scaling.type", "none");
  if (scaling == "linear") {
    parameters["rope_type"] = "linear";
    parameters["factor"] = positive(metadata, base + "scaling.factor");
  } else if (scaling != "none") {
    metadata.fail(base + "scaling.type", "'" + scaling + "' is not supported; supported: none, linear");
  }
  if (!file.contains("rope_freqs.weight")) return parameters;

  const TensorView view = file.tensor("rope_freqs.weight");
  const std::string place = file.path().string() + ": rope_freqs.weight";
  if (element_count(view.shape) != static_cast<std::int64_t>(head_size / 2)) {
    throw Error(place, "has shape " + shape_string(view.shape) + ", expected [" + std::to_string(head_size / 2) + "]");
  }
  std::vector<float> stored(head_size / 2);
  decode_floats(view, place, stored.data());

  RopeSpec guess;
  guess.scaling = RopeSpec::Scaling::kLlama3;
  guess.theta = parameters["rope_theta"].get<double>();
  guess.factor = *std::ranges::max_element(stored);
  guess.low_freq_factor = kLlama3LowFrequency;
  guess.high_freq_factor = kLlama3HighFrequency;
  guess.original_context = kLlama3Context;
  const std::vector<double> expected = frequency_factors(guess, head_size);
  const bool same = std::ranges::equal(stored, expected,
                                       [](float a, double b) { return std::abs(double{a} - b) <= 1e-4 * std::abs(b); });
  if (!same) throw Error(place, "holds other factors than Llama 3's: convert from the Hugging Face checkpoint instead");
  parameters["rope_type"] = "llama3";
  parameters["factor"] = guess.factor;
  parameters["low_freq_factor"] = guess.low_freq_factor;
  parameters["high_freq_factor"] = guess.high_freq_factor;
  parameters["original_max_position_embeddings"] = static_cast<std::int64_t>(guess.original_context);
  return parameters;
}

std::vector<double> rope_frequencies(const RopeSpec& rope, std::size_t head_size) {
  std::vector<double> frequencies(head_size / 2);
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    double frequency = std::pow(rope.theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_size));
    if (rope.scaling == RopeSpec::Scaling::kLinear) {
      frequency /= rope.factor;
    } else if (rope.scaling == RopeSpec::Scaling::kLlama3) {
      // Slow pairs are stretched, fast ones are not, those between are blended (Llama 3.1's model code).
      const double turns = rope.original_context * frequency / (2.0 * std::numbers::pi);
      const double blend =
          std::clamp((turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor), 0.0, 1.0);
      frequency *= (1.0 - blend) / rope.factor + blend;
    }
    frequencies[i] = frequency;
  }
  return frequencies;
}

}  // namespace ballast::model
