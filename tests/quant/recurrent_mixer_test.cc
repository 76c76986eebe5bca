// A mixer that is not part of the library: it is registered, and a model with it is read, calibrated, folded, quantized
// and run. Hybrids of it and attention represent all kinds of recurrent layers.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "ballast/calibrate.h"
#include "ballast/convert.h"
#include "ballast/explain.h"
#include "error_message.h"
#include "fixed_recipe.h"
#include "model/arch/decoder_config.h"
#include "model/block_parts.h"
#include "model/forward/forward_parts.h"
#include "model/forward/sequence_state.h"
#include "model/mixer/mixer.h"
#include "model/model.h"
#include "model_logits.h"
#include "model_runs.h"
#include "reference/model.h"
#include "role_tensors.h"
#include "temporary_directory.h"

namespace ballast {
namespace {

using model::Linear;
using model::MatrixShape;
using model::Role;
using model::RoleRow;

// s_t = sigmoid(decay) s_(t-1) + V x_t;  y_t = O (sigmoid(G x_t) s_t), by channel.
constexpr Role kValue = model::registered_role(0);
constexpr Role kGate = model::registered_role(1);
constexpr Role kDecay = model::registered_role(2);
constexpr Role kOutput = model::registered_role(3);

std::size_t channels_of(const LayerSpec& layer) {
  return std::get<RegisteredMixerSpec>(layer.mixer).sizes.at("channels");
}

MatrixShape inner_shape(const ModelSpec& spec, const LayerSpec& layer) {
  return {channels_of(layer), spec.hidden_size};
}

constexpr std::array<RoleRow, 4> kRoles{{
    {.role = kValue, .shape = inner_shape, .reads = Role::kAttentionNorm},
    {.role = kGate, .shape = inner_shape, .reads = Role::kAttentionNorm},
    {.role = kDecay,
     .kind = RoleRow::Kind::kVector,
     .shape = [](const ModelSpec&, const LayerSpec& layer) { return MatrixShape{1, channels_of(layer)}; }},
    {.role = kOutput,
     .shape = [](const ModelSpec& spec,
                 const LayerSpec& layer) { return MatrixShape{spec.hidden_size, channels_of(layer)}; },
     .writes_stream = true,
     .after_mixing = true},
}};

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

struct DecayState : model::MixerState {
  explicit DecayState(std::size_t channels) : sums(channels, 0.0F) {}
  std::unique_ptr<MixerState> clone() const override { return std::make_unique<DecayState>(*this); }
  std::size_t memory_bytes() const override { return sums.size() * sizeof(float); }

  std::vector<float> sums;
};

class DecayMixer : public model::Mixer {
 public:
  explicit DecayMixer(const model::BlockParts& parts)
      : value_(parts.linear({kValue})), gate_(parts.linear({kGate})), output_(parts.linear({kOutput})) {
    for (const float logit : parts.vector(kDecay)) decay_.push_back(static_cast<float>(sigmoid(logit)));
  }

  std::size_t forward(const model::BlockPass& pass, const model::LinearRows& input, float* hidden) const override {
    const std::size_t channels = decay_.size();
    float* values = pass.buffer(0, pass.tokens * channels);
    float* gates = pass.buffer(1, pass.tokens * channels);
    model::LinearOutputs outputs;
    outputs.add({&value_, values, channels});
    outputs.add({&gate_, gates, channels});
    pass.apply_linears(outputs.all(), input, pass.rows);
    std::size_t at = 0;
    std::size_t left = 0;
    for (const model::BatchSequence& sequence : pass.batch) {
      auto& state = dynamic_cast<DecayState&>(*sequence.state->mixer(pass.state_layer));
      for (std::size_t end = at + sequence.tokens * channels; at < end; ++at) {
        float& sum = state.sums[at % channels];
        sum = decay_[at % channels] * sum + values[at];
        values[at] = static_cast<float>(sigmoid(gates[at])) * sum;
      }
      left += pass.options.wanted_only ? sequence.wanted : sequence.tokens;
    }
    if (left == 0) return 0;
    if (pass.options.wanted_only) {
      model::keep_wanted_rows(pass.batch, channels, values);
      model::keep_wanted_rows(pass.batch, pass.spec.hidden_size, hidden);
    }
    const model::LinearOutput output[] = {{&output_, hidden, pass.spec.hidden_size, true}};
    pass.apply_linears(output, {values, channels}, pass.rows_after_mixer());
    return left;
  }

  void for_each_linear(const std::function<void(const Linear&, Role)>& visit) const override {
    visit(value_, kValue);
    visit(gate_, kGate);
    visit(output_, kOutput);
  }
  void for_each_norm(const std::function<void(const model::Norm&)>& /*visit*/) const override {}

 private:
  Linear value_, gate_, output_;
  std::vector<float> decay_;
};

constinit const model::MixerKind kDecayKind = {
    .name = "decay",
    .roles = kRoles,
    .assemble = [](const ModelSpec&, std::size_t, const model::BlockParts& parts)
        -> std::unique_ptr<const model::Mixer> { return std::make_unique<DecayMixer>(parts); },
    .make_state = [](const ModelSpec& spec, std::size_t layer) -> std::unique_ptr<model::MixerState> {
      return std::make_unique<DecayState>(channels_of(spec.layers[layer]));
    },
    .value_path =
        [](const LayerSpec& layer) {
          return model::ValuePath{.value = kValue,
                                  .output = kOutput,
                                  .head_size = channels_of(layer),
                                  .bias = {false, "its sum over a text grows with the text"},
                                  .scaling = {true, "sum and gate work channel by channel"},
                                  .rotation = {false, "every channel has a decay of its own"}};
        },
};

// The family: every other layer attends, the first and the last do not.
constexpr std::array<model::TensorNames, 16> kNames{{
    {Role::kEmbedding, "model.embed_tokens", ""},
    {Role::kFinalNorm, "model.norm", ""},
    {Role::kHead, "lm_head", ""},
    {Role::kAttentionNorm, "model.layers.{}.input_layernorm", ""},
    {kValue, "model.layers.{}.decay.v_proj", ""},
    {kGate, "model.layers.{}.decay.g_proj", ""},
    {kDecay, "model.layers.{}.decay.decay", ""},
    {kOutput, "model.layers.{}.decay.o_proj", ""},
    {Role::kQuery, "model.layers.{}.self_attn.q_proj", ""},
    {Role::kKey, "model.layers.{}.self_attn.k_proj", ""},
    {Role::kValue, "model.layers.{}.self_attn.v_proj", ""},
    {Role::kAttentionOutput, "model.layers.{}.self_attn.o_proj", ""},
    {Role::kMlpNorm, "model.layers.{}.post_attention_layernorm", ""},
    {Role::kGate, "model.layers.{}.mlp.gate_proj", ""},
    {Role::kUp, "model.layers.{}.mlp.up_proj", ""},
    {Role::kDown, "model.layers.{}.mlp.down_proj", ""},
}};

ModelSpec describe(const files::JsonReader& config) {
  ModelSpec spec = model::read_llama_line(config).finish();
  for (std::size_t layer = 0; layer < spec.layers.size(); layer += 2) {
    spec.layers[layer].mixer = RegisteredMixerSpec{.name = "decay", .sizes = {{"channels", config.size("channels")}}};
  }
  return spec;
}

constinit const model::Architecture kHybrid = {.model_type = "hybrid", .names = kNames, .describe = describe};

[[maybe_unused]] const bool kRegistered =
    (model::register_mixer(kDecayKind), model::register_architecture(kHybrid), true);

const nlohmann::json kConfig = {{"model_type", "hybrid"},
                                {"vocab_size", 97},
                                {"hidden_size", 32},
                                {"num_hidden_layers", 3},
                                {"num_attention_heads", 4},
                                {"num_key_value_heads", 2},
                                {"intermediate_size", 48},
                                {"max_position_embeddings", 128},
                                {"tie_word_embeddings", false},
                                {"channels", 24}};

/// Computes the same in plain loops.
class HybridReference : public test::ReferenceModel {
 public:
  using ReferenceModel::ReferenceModel;

 private:
  Rows mix(std::size_t layer, const Rows& x) const override {
    if (layer % 2 == 1) return ReferenceModel::mix(layer, x);
    Rows values = linear(kValue, layer, x);
    const Rows gates = linear(kGate, layer, x);
    const std::vector<float>& decay = at(kDecay, layer).weight;
    Row sums(decay.size(), 0.0);
    for (std::size_t t = 0; t < x.size(); ++t) {
      for (std::size_t c = 0; c < sums.size(); ++c) {
        sums[c] = sigmoid(decay[c]) * sums[c] + values[t][c];
        values[t][c] = sigmoid(gates[t][c]) * sums[c];
      }
    }
    return linear(kOutput, layer, values);
  }
};

/// A checkpoint with random weights.
struct Hybrid {
  ModelSpec spec = describe(files::JsonReader(kConfig, "config.json"));
  test::RoleTensors tensors = test::random_tensors(spec, 5);
  test::TemporaryDirectory directory;
  std::filesystem::path path = test::named_model(kConfig, tensors).write(directory / "model");
};

std::vector<int> some_tokens(std::size_t count, int step = 29) {
  std::vector<int> ids;
  for (std::size_t i = 0; i < count; ++i) ids.push_back(static_cast<int>(i) * step % 97);
  return ids;
}

std::vector<float> last_rows(const std::vector<float>& logits, std::size_t count) {
  return {logits.end() - static_cast<std::ptrdiff_t>(count * 97), logits.end()};
}

TEST_CASE("a registered mixer follows its definition, in any pieces") {
  const Hybrid hybrid;
  const model::Model model(hybrid.path);
  const std::vector<int> ids = some_tokens(50);
  const std::vector<float> whole = test::run_at_once(model, ids);
  CHECK(test::relative_error(whole, HybridReference(hybrid.spec, hybrid.tensors).logits(ids)) <= 1e-5);
  for (const std::size_t piece : {1, 7, 49}) {
    CHECK(test::relative_error(test::run_in_pieces(model, ids, piece), whole) <= 1e-5);
  }
}

TEST_CASE("sequences of a hybrid do not affect each other, and only wanted tokens are returned") {
  const Hybrid hybrid;
  const model::Model model(hybrid.path);
  const std::vector<int> first = some_tokens(30);
  const std::vector<int> second = some_tokens(11, 31);
  model::SequenceState states[] = {model.make_exact_state(30), model.make_exact_state(11)};
  const model::SequenceTokens batch[] = {{first, &states[0], 1}, {second, &states[1], 2}};
  const std::vector<float> both = test::run_batch(model, batch);
  std::vector<float> expected = last_rows(test::run_at_once(model, first), 1);
  const std::vector<float> of_second = last_rows(test::run_at_once(model, second), 2);
  expected.insert(expected.end(), of_second.begin(), of_second.end());
  CHECK(test::relative_error(both, expected) <= 1e-5);
}

TEST_CASE("a hybrid returns to a snapshot instead of being truncated") {
  const Hybrid hybrid;
  const model::Model model(hybrid.path);
  const std::vector<int> ids = some_tokens(40);
  const std::span<const int> rest = std::span(ids).subspan(25);
  model::SequenceState state = model.make_exact_state(64);
  test::run_tokens(model, std::span(ids).first(25), state);
  const model::SequenceState::Snapshot snapshot = state.snapshot();
  const std::vector<float> once = test::run_tokens(model, rest, state);
  CHECK(!state.can_truncate_to(25));
  CHECK(state.can_truncate_to(40));
  REQUIRE(state.can_restore(snapshot));
  test::run_tokens(model, some_tokens(9, 41), state);
  state.restore(snapshot);
  CHECK(state.length() == 25);
  CHECK(test::run_tokens(model, rest, state) == once);
}

TEST_CASE("the exact folds preserve a hybrid's logits") {
  const Hybrid hybrid;
  ConvertOptions options;
  options.recipe = recipe_for_scheme("f32");
  options.recipe.equalize = options.recipe.rotate_values = options.recipe.rotate = options.recipe.smooth = true;
  const auto result = convert(hybrid.path, hybrid.directory / "out", options);
  CHECK(test::distance(test::logits_of(hybrid.directory / "out"), test::logits_of(hybrid.path)) <= 1e-5);
  // Value channels of all three layers, and up against down, are scaled.
  CHECK(std::ranges::any_of(result.notes, [](const std::string& note) {
    return note == "equalize: 6 pairs of matrices share their ranges";
  }));
  CHECK(std::ranges::any_of(result.notes, [](const std::string& note) {
    return note.starts_with("rotate_values: values of 1 layers rotated") &&
           note.ends_with("every channel has a decay of its own");
  }));
}

TEST_CASE("the folds of a registered mixer are explained with its own reasons") {
  const Hybrid hybrid;
  const std::vector<FoldLine> lines = explain_folds(hybrid.path, recipe_for_scheme("w8a8"));
  const auto says = [&](const std::string& what, const std::string& reason) {
    return std::ranges::any_of(lines, [&](const FoldLine& line) {
      return line.what == what && line.reason.find(reason) != std::string::npos;
    });
  };
  CHECK(says("rotation of each head's values", "every channel has a decay of its own"));
  CHECK(says("rotation of each head's values", "attention mixes tokens, not channels"));
  const auto gain = std::ranges::find(lines, "model.layers.*.input_layernorm gain", &FoldLine::what);
  REQUIRE(gain != lines.end());
  CHECK(gain->into == "model.layers.*.decay.v_proj, model.layers.*.decay.g_proj");
}

TEST_CASE("all layers of a hybrid are calibrated, with attention or without") {
  const Hybrid hybrid;
  const Statistics statistics = calibrate(hybrid.path, {.text_files = {}, .samples = 3, .length = 24});
  REQUIRE(statistics.key_values.size() == 3);
  CHECK(statistics.key_values[0].keys.min.empty());
  CHECK(statistics.key_values[1].keys.min.size() == 16);
  REQUIRE(statistics.sink_share.size() == 12);
  CHECK(statistics.sink_share[3] == 0);
  CHECK(statistics.sink_share[4] > 0);
  const std::string names[] = {"model.layers.0.decay.v_proj", "model.layers.2.decay.o_proj"};
  for (const std::string& name : names) {
    CHECK(std::ranges::any_of(statistics.inputs, [&](const LinearInputStatistics& input) {
      return std::ranges::find(input.linears, name) != input.linears.end();
    }));
  }
  CHECK(serialize_statistics(parse_statistics(serialize_statistics(statistics), "saved")) ==
        serialize_statistics(statistics));
}

TEST_CASE("a hybrid's matrices are quantized, including those of its mixer") {
  const Hybrid hybrid;
  const std::vector<float> expected = test::logits_of(hybrid.path);
  for (const char* scheme : {"w8a8", "w4a16"}) {
    CAPTURE(scheme);
    ConvertOptions options;
    options.recipe = test::fixed_recipe(scheme);
    const std::filesystem::path out = hybrid.directory / scheme;
    convert(hybrid.path, out, options);
    const model::ModelSource source(out);
    for (const char* name : {"model.layers.0.decay.v_proj", "model.layers.2.decay.o_proj"}) {
      REQUIRE(source.quantization()->tensors.contains(name));
      CHECK(source.quantization()->tensors.at(name).is_integer());
    }
    const double error = test::distance(test::logits_of(out), expected);
    CHECK(error > 0);
    CHECK(error < 0.2);
  }
}

TEST_CASE("a mixer whose name or roles are in use is refused") {
  const model::MixerKind same_name = {.name = "decay", .roles = {}};
  CHECK(test::error_message([&] { model::register_mixer(same_name); }) ==
        "mixer 'decay': its name or one of its roles is that of mixer 'decay'");
  const model::MixerKind same_role = {.name = "other", .roles = kRoles};
  CHECK(test::error_message([&] { model::register_mixer(same_role); }) ==
        "mixer 'other': its name or one of its roles is that of mixer 'decay'");
  LayerSpec unknown;
  unknown.mixer = RegisteredMixerSpec{.name = "nobody's", .sizes = {}};
  CHECK(test::error_message([&] { model::mixer_kind(unknown); }) ==
        "mixer 'nobody's': is not registered: register_mixer before a model with it is read");
}

}  // namespace
}  // namespace ballast
