#include "model/arch/rope_config.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <numbers>
#include <string>
#include <vector>

#include "ballast/error.h"

namespace ballast::model {

namespace {

// Returns YaRN's factor by which logits grow with the stretching (arXiv:2309.00071, section 3.4).
double yarn_magnitude(double factor, double weight) {
  return factor <= 1 ? 1.0 : 0.1 * weight * std::log(factor) + 1.0;
}

void read_yarn(const files::JsonReader& config, RopeSpec& rope) {
  rope.scaling = RopeSpec::Scaling::kYarn;
  rope.original_context = config.positive("original_max_position_embeddings");
  rope.beta_fast = config.positive("beta_fast", rope.beta_fast);
  rope.beta_slow = config.positive("beta_slow", rope.beta_slow);
  rope.truncate = config.flag("truncate", true);
  const double some = config.number("mscale", 0);
  const double all = config.number("mscale_all_dim", 0);
  if (config.has("attention_factor")) {
    rope.amplitude = config.positive("attention_factor");
  } else if (some != 0 && all != 0) {
    rope.amplitude = yarn_magnitude(rope.factor, some) / yarn_magnitude(rope.factor, all);
  } else {
    rope.amplitude = yarn_magnitude(rope.factor, 1);
  }
}

std::vector<double> read_pair_factors(const files::JsonReader& config, std::string_view field, std::size_t pairs) {
  std::vector<double> factors;
  for (const files::JsonReader& factor : config.at(field).elements()) {
    factors.push_back(factor.number());
    if (factors.back() <= 0) factor.fail("must be positive");
  }
  if (factors.size() != pairs) {
    config.fail(field, "has " + std::to_string(factors.size()) + " entries for " + std::to_string(pairs) +
                           " pairs of channels that rotate");
  }
  return factors;
}

// Two factors for each pair: short ones for texts within the original context, long ones for longer texts. A model is
// loaded with one set: a text that grew past the original context would need all keys in the cache rotated again.
void read_longrope(const files::JsonReader& config, const RopeDefaults::LongRope& contexts, RopeSpec& rope) {
  if (contexts.original_context <= 1) config.fail("needs an original_max_position_embeddings above 1");
  rope.scaling = RopeSpec::Scaling::kLongRope;
  rope.original_context = contexts.original_context;
  rope.factor = config.positive("factor", contexts.context / contexts.original_context);
  rope.pair_factors = read_pair_factors(config, "short_factor", rope.rotary_size / 2);
  if (contexts.context > contexts.original_context) {
    rope.long_factors = read_pair_factors(config, "long_factor", rope.rotary_size / 2);
  }
  if (config.has("attention_factor")) {
    rope.amplitude = config.positive("attention_factor");
  } else if (rope.factor > 1) {
    rope.amplitude = std::sqrt(1 + std::log(rope.factor) / std::log(rope.original_context));
  }
}

void read_scaling(const files::JsonReader& config, const RopeDefaults& defaults, RopeSpec& rope) {
  const std::string type = config.text("rope_type", config.text("type", "default"));
  // In mRoPE a token has three positions, which are equal without images.
  if (type == "default" || type == "mrope") return;
  // The type stretches the rotation as a text grows beyond the context (NTK-aware), which never happens in ballast;
  // with `alpha` it stretches by a constant.
  if (type == "dynamic") {
    if (defaults.ntk_alpha && config.has("alpha")) {
      const auto channels = static_cast<double>(rope.rotary_size);
      if (channels <= 2) config.fail("alpha", "needs heads of more than 2 channels");
      rope.theta *= std::pow(config.positive("alpha"), channels / (channels - 2));
    }
    return;
  }
  if (defaults.longrope) {
    // The first configurations call the type "su" or "yarn".
    if (type != "longrope" && type != "su" && type != "yarn") {
      config.fail("rope_type", "'" + type + "' is not supported; supported: default, longrope");
    }
    return read_longrope(config, *defaults.longrope, rope);
  }
  if (type != "linear" && type != "llama3" && type != "yarn") {
    config.fail("rope_type",
                "'" + type + "' is not supported; supported: default, dynamic, linear, llama3, mrope, yarn");
  }
  rope.factor = config.positive("factor");
  if (type == "linear") {
    rope.scaling = RopeSpec::Scaling::kLinear;
  } else if (type == "yarn") {
    read_yarn(config, rope);
  } else {
    rope.scaling = RopeSpec::Scaling::kLlama3;
    rope.low_freq_factor = config.positive("low_freq_factor");
    rope.high_freq_factor = config.positive("high_freq_factor");
    rope.original_context = config.positive("original_max_position_embeddings");
    if (rope.high_freq_factor <= rope.low_freq_factor) {
      config.fail("high_freq_factor", "must be larger than low_freq_factor");
    }
  }
}

// Returns how many channels of a head rotate: an even number, the fraction rounded down.
std::size_t read_rotary_size(const files::JsonReader& config, std::string_view field, double partial,
                             std::size_t head_size) {
  if (!(partial > 0 && partial <= 1)) config.fail(field, "must be above 0 and at most 1");
  const auto size = static_cast<std::size_t>(partial * static_cast<double>(head_size));
  if (size == 0 || size % 2 != 0) {
    config.fail(field, "makes " + std::to_string(size) + " of a head's " + std::to_string(head_size) +
                           " channels rotate; it must be an even number");
  }
  return size;
}

// Reads theta and the number of channels that rotate. If several objects name one, the last counts.
RopeSpec read_rotation(std::initializer_list<const files::JsonReader*> places, std::size_t head_size,
                       const RopeDefaults& defaults) {
  RopeSpec rope;
  rope.theta = defaults.theta;
  // The other names are those of GPT-NeoX before transformers 5 and of Megatron-LM.
  for (const char* field : {"rope_theta", "rotary_base", "rotary_emb_base"}) {
    for (const files::JsonReader* reader : places) {
      if (reader->has(field)) rope.theta = reader->positive(field);
    }
  }
  double partial = defaults.partial;
  const files::JsonReader* source = *places.begin();
  std::string field = "head_dim";
  for (const char* candidate : {"rotary_pct", "rotary_percent", "partial_rotary_factor"}) {
    for (const files::JsonReader* reader : places) {
      if (!reader->has(candidate)) continue;
      partial = reader->number(candidate);
      field = candidate;
      source = reader;
    }
  }
  rope.rotary_size = read_rotary_size(*source, field, partial, head_size);
  return rope;
}

// Returns the channel `result` of `rotary_size` at which a pair turns this often within the original context (YaRN,
// equation 17).
double yarn_channel(const RopeSpec& rope, double turns) {
  return static_cast<double>(rope.rotary_size) * std::log(rope.original_context / (turns * 2 * std::numbers::pi)) /
         (2 * std::log(rope.theta));
}

}  // namespace

RopeSpec read_rope(const files::JsonReader& config, std::size_t head_size, const RopeDefaults& defaults) {
  const bool nested = config.has("rope_parameters");
  const files::JsonReader parameters = nested ? config.object("rope_parameters") : config;
  RopeSpec rope = read_rotation({&config, &parameters}, head_size, defaults);
  if (nested) {
    if (config.has("rope_scaling")) config.fail("rope_scaling", "and rope_parameters are both present: remove one");
    read_scaling(parameters, defaults, rope);
  } else if (config.has("rope_scaling")) {
    read_scaling(config.object("rope_scaling"), defaults, rope);
  }
  return rope;
}

RopeSpec read_proportional_rope(const files::JsonReader& parameters, std::size_t head_size,
                                const RopeDefaults& defaults) {
  const std::string type = parameters.text("rope_type", "proportional");
  if (type != "proportional") {
    parameters.fail("rope_type", "'" + type + "' is not supported here; supported: proportional");
  }
  constexpr const char* kPartial = "partial_rotary_factor";
  const double partial = parameters.number(kPartial, defaults.partial);
  if (!(partial > 0 && partial <= 1)) parameters.fail(kPartial, "must be above 0 and at most 1");
  RopeSpec rope;
  rope.theta = parameters.positive("rope_theta", defaults.theta);
  rope.rotary_size = head_size;
  rope.turning_pairs = static_cast<std::size_t>(partial * static_cast<double>(head_size)) / 2;
  if (rope.turning_pairs == 0) {
    parameters.fail(kPartial, "turns no pair of a head's " + std::to_string(head_size) + " channels");
  }
  rope.factor = parameters.positive("factor", 1.0);
  if (rope.factor != 1.0) rope.scaling = RopeSpec::Scaling::kLinear;
  return rope;
}

RopeSpec read_rope_parameters(const files::JsonReader& parameters, std::size_t head_size,
                              const RopeDefaults& defaults) {
  RopeSpec rope = read_rotation({&parameters}, head_size, defaults);
  read_scaling(parameters, defaults, rope);
  return rope;
}

RopeSpec read_rope_of_type(const files::JsonReader& config, std::string_view layer_type, std::size_t head_size,
                           const RopeDefaults& defaults, std::string_view scaling_field) {
  if (config.has("rope_parameters")) {
    const files::JsonReader types = config.object("rope_parameters");
    for (const auto& [type, parameters] : types.members()) {
      if (type == "full_attention" || type == "sliding_attention") continue;
      types.fail(type, "is not a type of layers; supported: full_attention, sliding_attention");
    }
    if (types.has(layer_type)) return read_rope_parameters(types.object(layer_type), head_size, defaults);
  } else if (!scaling_field.empty() && config.has(scaling_field)) {
    return read_rope_parameters(config.object(scaling_field), head_size, defaults);
  }
  RopeSpec rope;
  rope.theta = defaults.theta;
  rope.rotary_size = read_rotary_size(config, "head_dim", defaults.partial, head_size);
  return rope;
}

double yarn_attention_factor(const files::JsonReader& config) {
  const char* field = config.has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  if (!config.has(field)) return 1.0;
  const files::JsonReader parameters = config.object(field);
  if (parameters.text("rope_type", parameters.text("type", "default")) == "default") return 1.0;
  const double weight = parameters.number("mscale_all_dim", 0);
  return weight == 0 ? 1.0 : yarn_magnitude(parameters.positive("factor"), weight);
}

std::vector<double> rope_frequencies(const RopeSpec& rope) {
  std::vector<double> frequencies(rope.rotary_size / 2);
  double first = 0;
  double last = 0;
  if (rope.scaling == RopeSpec::Scaling::kYarn) {
    first = yarn_channel(rope, rope.beta_fast);
    last = yarn_channel(rope, rope.beta_slow);
    if (rope.truncate) {
      first = std::floor(first);
      last = std::ceil(last);
    }
    first = std::max(first, 0.0);
    last = std::min(last, static_cast<double>(rope.rotary_size) - 1);
    if (first == last) last += 0.001;  // avoids the division by zero as the authors' code does
  }
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    double frequency = std::pow(rope.theta, -2.0 * static_cast<double>(i) / static_cast<double>(rope.rotary_size));
    // The share of a pair's frequency that is not stretched: 1 for fast pairs, 0 for slow ones, and a blend between
    // them.
    double blend = 1;
    if (rope.scaling == RopeSpec::Scaling::kLinear) {
      blend = 0;
    } else if (rope.scaling == RopeSpec::Scaling::kLlama3) {
      const double turns = rope.original_context * frequency / (2.0 * std::numbers::pi);
      blend = std::clamp((turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor), 0.0, 1.0);
    } else if (rope.scaling == RopeSpec::Scaling::kYarn) {
      blend = 1 - std::clamp((static_cast<double>(i) - first) / (last - first), 0.0, 1.0);
    }
    if (rope.scaling == RopeSpec::Scaling::kLongRope) {
      frequency /= rope.pair_factors[i];
    } else if (rope.scaling != RopeSpec::Scaling::kNone) {
      frequency *= (1.0 - blend) / rope.factor + blend;
    }
    const bool turns = rope.turning_pairs == 0 || i < rope.turning_pairs;
    frequencies[i] = !turns ? 0.0 : rope.backwards ? -frequency : frequency;
  }
  return frequencies;
}

}  // namespace ballast::model
