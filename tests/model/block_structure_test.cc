#include "model/structure/block_structure.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "model/embedding_and_head.h"
#include "model/forward/forward.h"
#include "model/forward/shared_keys.h"
#include "model/source/model_source.h"
#include "model_runs.h"
#include "tiny_model.h"

namespace ballast::model {
namespace {

using test::golden_model;

TEST_CASE("every linear of a block has a unique name, a shape and a location in the checkpoint") {
  for (const std::string& name : test::golden_names()) {
    CAPTURE(name);
    const ModelSource source(golden_model(name));
    const ModelSpec& spec = source.spec();
    for (std::size_t layer = 0; layer < spec.layers.size(); ++layer) {
      std::set<std::string> names;
      for (const Part& part : block_linears(spec, layer)) {
        const std::string module = source.name(part.role, layer, part.expert);
        CAPTURE(module);
        CHECK(names.insert(module).second);
        const FloatWeights weights = source.float_weights(part.role, layer, part.expert);
        CHECK(std::pair(weights.rows, weights.cols) == matrix_shape(spec, layer, part.role));
        CHECK(weights.values.size() == weights.rows * weights.cols);
        const std::size_t biases = source.bias(part.role, layer, part.expert).size();
        CHECK(biases == (has_bias(spec, layer, part.role) ? weights.rows : 0));
        CHECK(!is_norm(part.role));
        CHECK(!is_vector(part.role));
      }
      for (const Role role : block_norms(spec, layer)) {
        CHECK(is_norm(role));
        CHECK(names.insert(source.name(role, layer)).second);
        const Norm norm = source.norm(role, layer);
        CHECK(norm.gain.size() == matrix_shape(spec, layer, role).second);
        CHECK(norm.bias.size() == (norm_spec(spec, layer, role).bias ? norm.gain.size() : 0));
      }
    }
  }
}

TEST_CASE("the weights of a model are those of its files") {
  for (const std::string& name : test::golden_names()) {
    CAPTURE(name);
    const ModelSource source(golden_model(name));
    std::size_t in_files = 0;
    for (const std::string& tensor : source.checkpoint().names())
      in_files += static_cast<std::size_t>(element_count(source.checkpoint().tensor(tensor).shape));
    // Gemma 4's mixtures have scales of their layers and routers that become part of other tensors.
    const std::size_t merged = name == "gemma4_mixture" ? 20 : 0;
    // MPNet's two layers share their biases by distance.
    const std::size_t shared = name == "mpnet" ? std::size_t{32} * 2 : 0;
    CHECK(count_weights(source.spec()) + merged == in_files + shared);
  }
}

TEST_CASE("every linear reads one input, and every input one width") {
  for (const std::string& name : test::golden_names()) {
    CAPTURE(name);
    const ModelSource source(golden_model(name));
    const ModelSpec& spec = source.spec();
    for (std::size_t layer = 0; layer < spec.layers.size(); ++layer) {
      std::vector<Part> seen;
      const std::vector<Role> norms = block_norms(spec, layer);
      for (const BlockInput& input : block_inputs(spec, layer)) {
        REQUIRE(!input.readers.empty());
        const std::size_t width = matrix_shape(spec, layer, input.readers.front().role).second;
        for (const Part& reader : input.readers) {
          CHECK(std::ranges::find(seen, reader) == seen.end());
          seen.push_back(reader);
          CHECK(matrix_shape(spec, layer, reader.role).second == width);
        }
        if (!input.norm) continue;
        CHECK(std::ranges::find(norms, *input.norm) != norms.end());
        CHECK(matrix_shape(spec, layer, *input.norm).second == width);
      }
    }
  }
}

TEST_CASE("a forward pass records the inputs that the structure names") {
  for (const std::string& name : test::golden_names()) {
    CAPTURE(name);
    const ModelSource source(golden_model(name));
    const ModelSpec& spec = source.spec();
    const RopeTable rope(spec);
    for (std::size_t layer = 0; layer < spec.layers.size(); ++layer) {
      const BlockWeights block = source.block(layer);
      SequenceState state(spec, layer, {.type = kernels::CacheType::kF32, .capacity = 4});
      SequenceState other_state(spec, layer, {.type = kernels::CacheType::kF32, .capacity = 4});
      const BatchSequence batch[] = {{4, &state}};
      const BatchSequence other_batch[] = {{4, &other_state}};
      std::vector<float> hidden(4 * spec.hidden_size);
      for (std::size_t i = 0; i < hidden.size(); ++i) hidden[i] = static_cast<float>(i * 37 % 19) / 9.0F - 1.0F;
      BlockActivations activations;
      RopeAngles angles;
      rope.look_up(batch, angles);
      std::vector<float> unrecorded = hidden;
      const SharedKeys shared_keys(spec);
      const std::vector<float> keys(4 * shared_keys.row_size(), 0.5F);
      shared_keys.give(layer, keys, state);
      shared_keys.give(layer, keys, other_state);
      const std::vector<float> token_inputs(4 * token_input_width(spec), 0.5F);
      const StridedRows own_inputs = token_inputs_of_layer(spec, token_inputs.data(), layer);
      forward_block(spec, block, layer, angles, batch, 0, hidden.data(), activations,
                    {.record_inputs = true, .token_inputs = own_inputs});
      BlockActivations others;
      forward_block(spec, block, layer, angles, other_batch, 0, unrecorded.data(), others,
                    {.token_inputs = own_inputs});
      CHECK(hidden == unrecorded);

      const std::vector<BlockInput> inputs = block_inputs(spec, layer);
      REQUIRE(activations.inputs.size() == inputs.size());
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        CHECK(std::ranges::is_permutation(activations.inputs[i].readers, inputs[i].readers));
      }
    }
  }
}

TEST_CASE("a block without a norm before its mixer has none to fold, and its linears still read together") {
  ModelSpec spec;
  spec.layers.resize(1);
  spec.layers[0].mlp.size = 8;
  spec.layers[0].mixer_norm = false;
  const std::vector<BlockInput> inputs = block_inputs(spec, 0);
  REQUIRE(inputs.size() == 4);
  CHECK(!inputs[0].norm);
  CHECK(inputs[0].readers.size() == 3);
  CHECK(inputs[2].norm == Role::kMlpNorm);
  CHECK(block_norms(spec, 0) == std::vector{Role::kMlpNorm});
}

TEST_CASE("a norm before the linears can be folded, one after the residual cannot") {
  ModelSpec spec;
  spec.layers.resize(1);
  spec.layers[0].mlp.size = 8;
  const auto norms_of_inputs = [&] {
    std::vector<std::optional<Role>> norms;
    for (const BlockInput& input : block_inputs(spec, 0)) norms.push_back(input.norm);
    return norms;
  };
  using Norms = std::vector<std::optional<Role>>;
  CHECK(norms_of_inputs() == Norms{Role::kAttentionNorm, {}, Role::kMlpNorm, {}});
  spec.layout = BlockLayout::kParallel;
  CHECK(norms_of_inputs() == Norms{Role::kAttentionNorm, {}, Role::kMlpNorm, {}});
  spec.layout = BlockLayout::kPostNorm;
  CHECK(norms_of_inputs() == Norms{{}, {}, {}, {}});
  CHECK(block_norms(spec, 0) == std::vector{Role::kAttentionNorm, Role::kMlpNorm});
  spec.layout = BlockLayout::kOutputNorm;
  CHECK(norms_of_inputs() == Norms{{}, {}, {}, {}});
  CHECK(block_norms(spec, 0) == std::vector{Role::kAttentionNorm, Role::kMlpNorm});
  spec.layout = BlockLayout::kParallelShared;
  CHECK(norms_of_inputs() == Norms{Role::kAttentionNorm, {}, {}});
  CHECK(block_norms(spec, 0) == std::vector{Role::kAttentionNorm});
  CHECK(block_inputs(spec, 0).front().readers ==
        std::vector<Part>{{Role::kQuery}, {Role::kKey}, {Role::kValue}, {Role::kGate}, {Role::kUp}});
}

TEST_CASE("an output gate has a row per element or per head") {
  ModelSpec spec;
  spec.hidden_size = 10;
  spec.layers = {{.mixer = AttentionSpec{.heads = 4, .value_size = 6, .output_gate = true}, .mlp = {}}};
  CHECK(matrix_shape(spec, 0, Role::kOutputGate) == MatrixShape{24, 10});
  spec.layers[0].attention()->head_gates = true;
  CHECK(matrix_shape(spec, 0, Role::kOutputGate) == MatrixShape{4, 10});
  const std::vector<Part> linears = block_linears(spec, 0);
  CHECK(std::ranges::find(linears, Part{Role::kOutputGate}) != linears.end());
}

TEST_CASE("each layer has a plain MLP or experts") {
  ModelSpec spec;
  spec.layers.resize(2);
  spec.layers[0].mlp.size = 8;
  spec.layers[1].mlp.experts = ExpertSpec{.count = 3, .per_token = 1, .size = 8, .shared_size = 4};
  const auto has = [&](std::size_t layer, Role role) {
    return std::ranges::any_of(block_linears(spec, layer), [&](const Part& part) { return part.role == role; });
  };
  CHECK(has(0, Role::kDown));
  CHECK(!has(0, Role::kRouter));
  CHECK(!has(1, Role::kDown));
  CHECK(has(1, Role::kRouter));
  CHECK(has(1, Role::kSharedDown));
  CHECK(block_linears(spec, 1).size() == 4 + 1 + 3 * (1 + 3));
}

}  // namespace
}  // namespace ballast::model
