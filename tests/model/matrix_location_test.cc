#include "model/source/matrix_location.h"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "layers.h"
#include "model/arch/architectures.h"

namespace ballast::model {
namespace {

using Rows = std::vector<std::size_t>;

/// A checkpoint with names and numbers of rows only.
class Names : public files::Checkpoint {
 public:
  explicit Names(std::map<std::string, std::int64_t> rows) : files::Checkpoint("names"), rows_(std::move(rows)) {
    for (const auto& [name, count] : rows_) names_.push_back(name);
  }

  Kind kind() const override { return Kind::kHuggingFace; }
  const nlohmann::json& config() const override { return config_; }
  const std::vector<std::string>& names() const override { return names_; }
  bool contains(std::string_view name) const override { return rows_.contains(std::string(name)); }
  TensorView tensor(std::string_view name) const override {
    return {.dtype = DType::kF32, .shape = {rows_.at(std::string(name)), 6}, .bytes = {}};
  }
  void release(std::string_view) const override {}
  std::uint64_t file_bytes() const override { return 0; }

 private:
  std::map<std::string, std::int64_t> rows_;
  std::vector<std::string> names_;
  nlohmann::json config_;
};

/// Returns a spec with four heads of 2 channels, two of them for keys and values.
ModelSpec two_layer_spec() {
  ModelSpec spec;
  spec.hidden_size = 6;
  spec.vocab_size = 5;
  const AttentionSpec attention = {
      .heads = 4, .kv_heads = 2, .head_size = 2, .value_size = 2, .rope = RopeSpec{.rotary_size = 2}};
  spec.layers.assign(2, {.mixer = attention, .mlp = {.size = 3}});
  return spec;
}

constexpr std::array<TensorNames, 4> kNames{{
    {Role::kQuery, "block.{}.q", "blk.{}.q"},
    {Role::kKey, "block.{}.k", "blk.{}.k"},
    {Role::kValue, "block.{}.v", ""},
    {Role::kHead, "head", "output"},
}};
constexpr std::array kParts = {Role::kQuery, Role::kKey, Role::kValue};

Rows rows_in(FusedTensor::Runs runs, Role role, const ModelSpec& spec = two_layer_spec()) {
  const std::array<FusedTensor, 1> fused{{{"block.{}.qkv", "", kParts, runs}}};
  const Architecture architecture = {.names = kNames, .fused = fused};
  const StorageLayout layout = {.architecture = &architecture};
  const AttentionSpec& attention = *spec.layers[1].attention();
  const std::size_t stored_rows = (attention.heads + 2 * attention.kv_heads) * 2;
  const MatrixLocation stored = find_matrix(layout, spec, Names({{"block.1.qkv.weight", stored_rows}}), role, 1, 0);
  CHECK(stored.module == "block.1.qkv");
  CHECK(stored.stored_rows == stored_rows);
  return stored.rows;
}

TEST_CASE("parts of a matrix are stored one after the other, or interleaved by head or group of heads") {
  using Runs = FusedTensor::Runs;
  CHECK(rows_in(Runs::kOne, Role::kQuery) == Rows{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(rows_in(Runs::kOne, Role::kKey) == Rows{8, 9, 10, 11});
  CHECK(rows_in(Runs::kOne, Role::kValue) == Rows{12, 13, 14, 15});
  // A group has two query heads, a key head and a value head.
  CHECK(rows_in(Runs::kKeyValueHeads, Role::kQuery) == Rows{0, 1, 2, 3, 8, 9, 10, 11});
  CHECK(rows_in(Runs::kKeyValueHeads, Role::kKey) == Rows{4, 5, 12, 13});
  CHECK(rows_in(Runs::kKeyValueHeads, Role::kValue) == Rows{6, 7, 14, 15});
  ModelSpec spec = two_layer_spec();
  for_each_attention(spec, [](AttentionSpec& attention) { attention.kv_heads = 4; });
  CHECK(rows_in(Runs::kHeads, Role::kQuery, spec) == Rows{0, 1, 6, 7, 12, 13, 18, 19});
  CHECK(rows_in(Runs::kHeads, Role::kKey, spec) == Rows{2, 3, 8, 9, 14, 15, 20, 21});
  CHECK(rows_in(Runs::kHeads, Role::kValue, spec) == Rows{4, 5, 10, 11, 16, 17, 22, 23});
}

TEST_CASE("no list of rows is made for a tensor of another size") {
  const std::array<FusedTensor, 1> fused{{{"block.{}.qkv", "blk.{}.qkv", kParts, FusedTensor::Runs::kOne}}};
  const Architecture architecture = {.names = kNames, .fused = fused, .gguf_interleaves_rope = true};
  ModelSpec spec = two_layer_spec();
  for_each_attention(spec, [](AttentionSpec& attention) {
    attention.head_size = attention.rope->rotary_size = 2147483646;  // a list of these rows would take 64 GiB
  });
  const Names names({{"block.1.qkv.weight", 16}, {"blk.1.q.weight", 8}});
  CHECK(find_matrix({.architecture = &architecture}, spec, names, Role::kQuery, 1, 0).rows.empty());
  CHECK(find_matrix({.architecture = &architecture, .gguf = true}, spec, names, Role::kQuery, 1, 0).rows.empty());
}

TEST_CASE("a part that a model does not have takes no rows") {
  static constexpr std::array kMlpParts = {Role::kGate, Role::kUp};
  constexpr std::array<TensorNames, 1> kUp{{{Role::kUp, "up", ""}}};
  constexpr std::array<FusedTensor, 1> kFused{{{"fc1", "", kMlpParts, FusedTensor::Runs::kOne}}};
  const Architecture architecture = {.names = kUp, .fused = kFused};
  const StorageLayout layout = {.architecture = &architecture};
  const Names names({{"fc1.weight", 6}});
  ModelSpec spec = two_layer_spec();
  CHECK(find_matrix(layout, spec, names, Role::kUp, 0, 0).rows == Rows{3, 4, 5});
  CHECK(find_matrix(layout, spec, names, Role::kUp, 0, 0).stored_rows == 6);
  test::mlp_of(spec).gated = false;
  const Names plain({{"fc1.weight", 3}});
  CHECK(find_matrix(layout, spec, plain, Role::kUp, 0, 0).rows == Rows{0, 1, 2});
  CHECK(find_matrix(layout, spec, plain, Role::kUp, 0, 0).stored_rows == 3);
}

TEST_CASE("a checkpoint may store the parts separately, and a missing tensor has the family's name in the error") {
  constexpr std::array<FusedTensor, 1> kFused{{{"block.{}.qkv", "", kParts, FusedTensor::Runs::kOne}}};
  const Architecture architecture = {.names = kNames, .fused = kFused};
  StorageLayout layout = {.architecture = &architecture};
  const ModelSpec spec = two_layer_spec();
  const MatrixLocation alone = find_matrix(layout, spec, Names({{"block.1.k.weight", 4}}), Role::kKey, 1, 0);
  CHECK(alone.module == "block.1.k");
  CHECK(alone.rows.empty());
  CHECK(alone.stored_rows == 4);
  CHECK(find_matrix(layout, spec, Names({}), Role::kKey, 1, 0).module == "block.1.qkv");
  CHECK(find_matrix(layout, spec, Names({}), Role::kHead, 0, 0).module == "head");
  layout.written_by_ballast = true;
  CHECK(find_matrix(layout, spec, Names({{"block.1.qkv.weight", 16}}), Role::kKey, 1, 0).module == "block.1.k");
}

TEST_CASE("the first of a role's names that a checkpoint has is used") {
  constexpr std::array<TensorNames, 2> kTwo{{{Role::kQuery, "new.{}", ""}, {Role::kQuery, "old.{}", ""}}};
  const Architecture architecture = {.names = kTwo};
  const StorageLayout layout = {.architecture = &architecture};
  const ModelSpec spec = two_layer_spec();
  const auto module = [&](std::map<std::string, std::int64_t> names) {
    return find_matrix(layout, spec, Names(std::move(names)), Role::kQuery, 3, 0).module;
  };
  CHECK(module({{"old.3.weight", 8}}) == "old.3");
  CHECK(module({{"new.3.weight", 8}, {"old.3.weight", 8}}) == "new.3");
  CHECK(module({{"new.3.bias", 8}}) == "new.3");  // the checkpoint has neither name: the first is reported
}

TEST_CASE("only a block's matrices are transposed, and only in the original checkpoint") {
  const ModelSpec spec = two_layer_spec();
  const Names names({{"wte.weight", 5}, {"h.0.mlp.c_fc.weight", 6}, {"transformer.h.0.mlp.c_proj.weight", 3}});
  StorageLayout layout = {.architecture = &kGpt2};
  CHECK(find_matrix(layout, spec, names, Role::kUp, 0, 0).transposed);
  CHECK(find_matrix(layout, spec, names, Role::kUp, 0, 0).module == "h.0.mlp.c_fc");  // without "transformer."
  CHECK(find_matrix(layout, spec, names, Role::kDown, 0, 0).module == "transformer.h.0.mlp.c_proj");
  CHECK(!find_matrix(layout, spec, names, Role::kEmbedding, 0, 0).transposed);
  layout.written_by_ballast = true;
  CHECK(!find_matrix(layout, spec, names, Role::kUp, 0, 0).transposed);
  layout = {.architecture = &kGpt2, .gguf = true};
  CHECK(!find_matrix(layout, spec, Names({{"blk.0.ffn_up.weight", 3}}), Role::kUp, 0, 0).transposed);
}

TEST_CASE("interleaved pairs of rotated channels are separated, in queries and keys only") {
  ModelSpec spec = two_layer_spec();
  AttentionSpec& attention = test::attention_of(spec);
  attention.heads = 2;
  attention.kv_heads = 1;
  attention.head_size = attention.value_size = 6;
  attention.rope->rotary_size = 4;
  const Architecture architecture = {.names = kNames, .gguf_interleaves_rope = true};
  StorageLayout layout = {.architecture = &architecture, .gguf = true};
  const Names names({{"blk.0.q.weight", 12}, {"blk.0.k.weight", 6}, {"output.weight", 5}});
  // The rotated part of a head is stored 0, 2, 1, 3 where the forward pass has 0, 1, 2, 3.
  CHECK(find_matrix(layout, spec, names, Role::kQuery, 0, 0).rows == Rows{0, 2, 1, 3, 4, 5, 6, 8, 7, 9, 10, 11});
  CHECK(find_matrix(layout, spec, names, Role::kKey, 0, 0).rows == Rows{0, 2, 1, 3, 4, 5});
  CHECK(find_matrix(layout, spec, names, Role::kHead, 0, 0).rows.empty());
  attention.rope.reset();
  CHECK(find_matrix(layout, spec, names, Role::kQuery, 0, 0).rows.empty());
}

TEST_CASE("a latent head's rotated channels are its last ones, and those of the keys are stored separately") {
  ModelSpec spec = two_layer_spec();
  AttentionSpec& heads = test::attention_of(spec);
  heads.kv_heads = heads.heads = 2;
  heads.head_size = 6;
  heads.rope->rotary_size = 4;
  test::make_latent(spec, 3, 5);
  const StorageLayout layout = {.architecture = &kDeepseekV3};
  const std::string attention = "model.layers.0.self_attn.";
  const Names names({{attention + "q_b_proj.weight", 12},
                     {attention + "kv_a_proj_with_mqa.weight", 9},
                     {attention + "kv_b_proj.weight", 8}});
  CHECK(find_matrix(layout, spec, names, Role::kQuery, 0, 0).rows == Rows{0, 1, 2, 4, 3, 5, 6, 7, 8, 10, 9, 11});
  CHECK(find_matrix(layout, spec, names, Role::kKeyPosition, 0, 0).rows == Rows{5, 7, 6, 8});
  CHECK(find_matrix(layout, spec, names, Role::kKeyValueDown, 0, 0).rows == Rows{0, 1, 2, 3, 4});
  // Two plain channels of keys and two of values in each head.
  CHECK(find_matrix(layout, spec, names, Role::kKey, 0, 0).rows == Rows{0, 1, 4, 5});
  CHECK(find_matrix(layout, spec, names, Role::kValue, 0, 0).rows == Rows{2, 3, 6, 7});
}

TEST_CASE("a norm is found under its old names and inside the linear that reads it") {
  const auto gain = [](const Architecture& architecture, const std::string& name, Role role) {
    const StorageLayout layout = {.architecture = &architecture};
    return find_vector(layout, Names({{name, 1}}), role, "weight", 0);
  };
  const std::string bert_norm = "bert.embeddings.LayerNorm.";
  CHECK(gain(kBert, bert_norm + "gamma", Role::kEmbeddingNorm) == bert_norm + "gamma");
  CHECK(gain(kBert, bert_norm + "weight", Role::kEmbeddingNorm) == bert_norm + "weight");
  CHECK(gain(kBert, "other", Role::kEmbeddingNorm) == bert_norm + "weight");
  CHECK(find_vector({.architecture = &kBert}, Names({{bert_norm + "beta", 1}}), Role::kEmbeddingNorm, "bias", 0) ==
        bert_norm + "beta");
  const std::string inside = "decoder.layers.0.mlp.linear_fc1.layer_norm_weight";
  CHECK(gain(kMegatron, inside, Role::kMlpNorm) == inside);
  CHECK(gain(kMegatron, "other", Role::kMlpNorm) == "decoder.layers.0.pre_mlp_layernorm.weight");
  CHECK(gain(kGpt2, "ln_f.weight", Role::kFinalNorm) == "ln_f.weight");
}

TEST_CASE("a role that is a vector has its name without a suffix") {
  const StorageLayout layout = {.architecture = &kBert};
  const auto name = [&](const std::string& stored) {
    return find_vector(layout, Names({{stored, 1}}), Role::kHeadBias, "", 0);
  };
  CHECK(name("cls.predictions.decoder.bias") == "cls.predictions.decoder.bias");
  CHECK(name("other") == "cls.predictions.decoder.bias");
}

}  // namespace
}  // namespace ballast::model
