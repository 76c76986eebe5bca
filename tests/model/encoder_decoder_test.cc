#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "ballast/error.h"
#include "error_message.h"
#include "model/forward/forward.h"
#include "model/model.h"
#include "model/source/model_source.h"
#include "model/structure/block_structure.h"
#include "model_runs.h"
#include "temporary_directory.h"
#include "tiny_model.h"
#include "with_threads.h"

namespace ballast::model {
namespace {

using test::Contains;
using test::error_message;
using test::golden_translator;

const std::vector<int> kSource = {4, 9, 17, 3, 22, 8, 2};
const std::vector<int> kText = {2, 5, 6, 30, 12, 11};

SequenceState state_after(const Model& model, std::span<const int> source, Workspace& workspace) {
  SequenceState state = model.make_exact_state(16);
  const TokenSpan text = source;
  state.set_source(model.encode({&text, 1}, state.cache().type(), workspace).front());
  return state;
}

/// Returns the outputs of all tokens, of which `at_once` run together.
std::vector<float> outputs(const Model& model, std::span<const int> source, std::span<const int> text,
                           std::size_t at_once) {
  Workspace workspace;
  SequenceState state = state_after(model, source, workspace);
  std::vector<float> all;
  for (std::size_t first = 0; first < text.size(); first += at_once) {
    const std::span<const int> part = text.subspan(first, std::min(at_once, text.size() - first));
    const SequenceTokens sequence = {.tokens = part, .state = &state, .wanted = part.size()};
    const std::span<const float> rows = model.forward({&sequence, 1}, workspace);
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

TEST_CASE("a decoder's blocks are two layers each, of which the second reads the source text") {
  const ModelSource source(golden_translator("t5"));
  const ModelSpec& spec = source.spec();
  REQUIRE(spec.encoder);
  CHECK(spec.encoder->layers == 2);
  REQUIRE(spec.layers.size() == 6);
  CHECK(spec.layers[1].stream_norm);
  CHECK_FALSE(spec.layers[0].stream_norm);
  for (const std::size_t layer : {2, 4}) {
    CHECK_FALSE(spec.layers[layer].mlp.exists());
    CHECK(spec.layers[layer].attention()->relative_bias->backwards);
    CHECK(spec.layers[layer + 1].reads_source());
    CHECK_FALSE(spec.layers[layer + 1].attention()->relative_bias);
  }
  CHECK(source.name(Role::kQuery, 1) == "encoder.block.1.layer.0.SelfAttention.q");
  CHECK(source.name(Role::kQuery, 4) == "decoder.block.1.layer.0.SelfAttention.q");
  CHECK(source.name(Role::kQuery, 5) == "decoder.block.1.layer.1.EncDecAttention.q");
  CHECK(source.name(Role::kMlpNorm, 5) == "decoder.block.1.layer.2.layer_norm");
}

TEST_CASE("the weights of a model with an encoder are those of its files") {
  for (const std::string& name : test::translator_names()) {
    CAPTURE(name);
    const ModelSource source(golden_translator(name));
    std::size_t in_files = 0;
    for (const std::string& tensor : source.checkpoint().names())
      in_files += static_cast<std::size_t>(element_count(source.checkpoint().tensor(tensor).shape));
    // T5's blocks share their biases by distance: of 8 buckets and 2 heads, in the other blocks of both halves.
    const std::size_t shared = name == "t5" ? std::size_t{8} * 2 * 2 : 0;
    CHECK(count_weights(source.spec()) == in_files + shared);
  }
}

TEST_CASE("a forward pass of a layer that reads a source text records both of its inputs") {
  for (const std::string& name : test::translator_names()) {
    CAPTURE(name);
    const ModelSource source(golden_translator(name));
    const ModelSpec& spec = source.spec();
    const RopeTable rope(spec);
    for (std::size_t layer = 0; layer < spec.layers.size(); ++layer) {
      SequenceState state(spec, layer, {.type = kernels::CacheType::kF32, .capacity = 4});
      const std::vector<float> rows(3 * spec.hidden_size, 0.25F);
      if (spec.layers[layer].reads_source()) {
        state.set_source(std::make_shared<EncodedSource>(spec, layer, rows));
      }
      const BatchSequence batch[] = {{4, &state}};
      std::vector<float> hidden(4 * spec.hidden_size, 0.5F);
      BlockActivations activations;
      RopeAngles angles;
      rope.look_up(batch, angles);
      forward_block(spec, source.block(layer), layer, angles, batch, 0, hidden.data(), activations,
                    {.record_inputs = true});
      const std::vector<BlockInput> inputs = block_inputs(spec, layer);
      REQUIRE(activations.inputs.size() == inputs.size());
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        CHECK(std::ranges::is_permutation(activations.inputs[i].readers, inputs[i].readers));
        const bool of_source = spec.layers[layer].reads_source() && inputs[i].readers.front().role == Role::kKey;
        CHECK(activations.inputs[i].count == (of_source ? 3 : 4));
        CHECK((of_source && inputs[i].norm) == false);
      }
    }
  }
}

TEST_CASE("outputs after a source text do not depend on how the text is divided into calls") {
  for (const std::string& name : test::translator_names()) {
    CAPTURE(name);
    const Model model(golden_translator(name));
    const std::vector<float> whole = outputs(model, kSource, kText, kText.size());
    CHECK(outputs(model, kSource, kText, 1) == whole);
    CHECK(outputs(model, kSource, kText, 4) == whole);
    CHECK(test::with_threads(1, [&] { return outputs(model, kSource, kText, 2); }) == whole);
    std::vector<int> other = kSource;
    other[2] = 20;
    CHECK(outputs(model, other, kText, kText.size()) != whole);
  }
}

TEST_CASE("source texts and the texts after them are the same bits in any batch") {
  for (const std::string& name : test::translator_names()) {
    CAPTURE(name);
    const Model model(golden_translator(name));
    const std::vector<float> alone = outputs(model, kSource, kText, kText.size());
    const std::vector<int> longer = {7, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 2};
    const TokenSpan sources[] = {longer, kSource, longer};
    Workspace workspace;
    std::vector<SequenceState> states;
    for (int i = 0; i < 4; ++i) states.push_back(model.make_exact_state(16));
    auto encoded = model.encode(sources, states.front().cache().type(), workspace);
    for (std::size_t i = 0; i < 3; ++i) states[i].set_source(encoded[i]);
    states[3].set_source(encoded[1]);  // two texts of one source
    const std::vector<int> other = {2, 6};
    const SequenceTokens batch[] = {{other, &states[0], 1},
                                    {kText, &states[1], kText.size()},
                                    {kText, &states[2], 2},
                                    {kText, &states[3], kText.size()}};
    const std::span<const float> rows = model.forward(batch, workspace);
    const std::size_t size = model.spec().hidden_size;
    CHECK(std::ranges::equal(rows.subspan(size, alone.size()), alone));
    CHECK(std::ranges::equal(rows.subspan((1 + kText.size() + 2) * size, alone.size()), alone));
  }
}

TEST_CASE("a model with an encoder refuses what it cannot run") {
  const Model model(golden_translator("marian"));
  Workspace workspace;
  SequenceState state = model.make_exact_state(8);
  CHECK(error_message([&] { model.check(kText, state); }) == Contains("has no source text"));
  const auto refusal = [&](const std::vector<int>& source) {
    return error_message([&] { state_after(model, source, workspace); });
  };
  CHECK(refusal({}) == Contains("source text: is empty"));
  CHECK(refusal(std::vector<int>(33, 4)) == Contains("has 33 tokens, the model's context has 32"));
  CHECK(refusal({4, 33}) == Contains("token 33"));
  CHECK(error_message([&] { model.make_state({.window = 4}, 8); }) == Contains("rolling cache cannot renumber"));
  const Model t5(golden_translator("t5"));
  CHECK(error_message([&] { t5.make_state({.window = 4}, 8); }) == Contains("no window moves over it"));
  CHECK(error_message([&] { t5.make_state({.type = CacheOptions::Type::kInt8}, 8); }) == Contains("choose f16 or f32"));
}

TEST_CASE("configurations of halves that do not fit are refused") {
  const test::TemporaryDirectory directory;
  const auto refusal = [&](const char* name, const char* field, const nlohmann::json& value) {
    test::TinyModel model = test::read_model(golden_translator(name));
    model.config[field] = value;
    model.write(directory / "model");
    return error_message([&] { ModelSource{directory / "model"}; });
  };
  CHECK(refusal("bart", "architectures", {"BartForCausalLM"}) == Contains("'BartForCausalLM' is not supported"));
  CHECK(refusal("bart", "is_encoder_decoder", false) == Contains("only the encoder and the decoder together"));
  CHECK(refusal("marian", "share_encoder_decoder_embeddings", false) == Contains("share_encoder_decoder_embeddings"));
  CHECK(refusal("marian", "d_model", 17) == Contains("d_model"));
  CHECK(refusal("t5", "feed_forward_proj", "gated-tanh") == Contains("'gated-tanh' is not supported"));
  CHECK(refusal("t5", "relative_attention_num_buckets", 10) == Contains("must be a multiple of 4"));
  CHECK(refusal("t5", "relative_attention_max_distance", 100'000) == Contains("must be at most 65536"));
  CHECK(refusal("t5", "decoder_start_token_id", 33) == Contains("33 is not in the vocabulary of 33"));
  CHECK(refusal("t5", "num_decoder_layers", 3) == Contains("decoder.block.2"));
  CHECK(refusal("mbart", "decoder_layers", 2) == Contains("model.decoder.layers.1"));
}

}  // namespace
}  // namespace ballast::model
