#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "described.h"
#include "layers.h"
#include "model_runs.h"
#include "random_floats.h"
#include "temporary_directory.h"

namespace ballast::model::gpt_oss_test {

using nlohmann::json;

const json kConfig = {
    {"model_type", "gpt_oss"},
    {"num_hidden_layers", 4},
    {"hidden_size", 32},
    {"num_attention_heads", 8},
    {"intermediate_size", 40},
    {"vocab_size", 10},
    {"num_local_experts", 6},
    {"num_experts_per_tok", 2},
    {"rope_parameters",
     {{"rope_type", "yarn"}, {"factor", 32.0}, {"original_max_position_embeddings", 4096}, {"truncate", false}}}};

std::string refusal(const char* field, const json& value) {
  return test::refusal_of_field(kConfig, field, value);
}

TEST_CASE("gpt-oss has a sink logit for each head, limits, and biases everywhere") {
  const ModelSpec spec = test::described(kConfig);
  CHECK(spec.context_length == 131072);
  CHECK(spec.norm.epsilon == 1e-5);
  const AttentionSpec& attention = test::attention_of(spec);
  CHECK(attention.sink_logits);
  CHECK(attention.head_size == 64);
  CHECK(attention.kv_heads == 8);
  CHECK(attention.rope->theta == 150000.0);
  CHECK(attention.rope->scaling == RopeSpec::Scaling::kYarn);
  CHECK(!attention.rope->truncate);
  CHECK(attention.rope->amplitude == doctest::Approx(0.1 * std::log(32.0) + 1));
  const MlpSpec& mlp = test::mlp_of(spec);
  CHECK(mlp.activation == Activation::kGeluSigmoid);
  CHECK(mlp.limit == 7.0);
  CHECK(mlp.up_offset == 1.0);
  CHECK(mlp.experts->count == 6);
  CHECK(mlp.experts->size == 40);
  CHECK(mlp.experts->normalize);
  const BiasSpec& biases = spec.biases;
  for (const bool bias :
       {biases.query, biases.key, biases.value, biases.attention_output, biases.router, biases.up, biases.down}) {
    CHECK(bias);
  }
  CHECK(!test::described(test::with_field(kConfig, "attention_bias", false)).biases.value);
}

TEST_CASE("every second layer of gpt-oss has a window, from the first on") {
  const ModelSpec spec = test::described(kConfig);
  for (std::size_t layer = 0; layer < 4; ++layer) {
    CHECK(spec.layers[layer].attention()->window == (layer % 2 == 0 ? 128 : 0));
    CHECK(spec.layers[layer].attention()->rope == spec.layers[0].attention()->rope);
  }
  json listed = kConfig;
  listed["layer_types"] = {"full_attention", "sliding_attention", "full_attention", "full_attention"};
  listed["sliding_window"] = 16;
  CHECK(test::described(listed).layers[0].attention()->window == 0);
  CHECK(test::described(listed).layers[1].attention()->window == 16);
}

TEST_CASE("settings of gpt-oss that are not supported are refused by field") {
  CHECK(refusal("swiglu_alpha", 1.5) == "config.json: swiglu_alpha: is not 1.702: not supported");
  CHECK(refusal("swiglu_limit", 0) == "config.json: swiglu_limit: must be positive");
  CHECK(refusal("rope_parameters", nullptr) == "config.json: rope_parameters: missing");
  CHECK(refusal("num_experts_per_tok", 7) == "config.json: num_experts_per_tok: is more than the number of experts");
}

/// Random matrices of experts in MXFP4, with their values.
struct Mxfp4 {
  std::vector<std::uint8_t> blocks, scales;
  std::vector<float> values;

  Mxfp4(std::size_t count, unsigned seed) {
    constexpr float kValues[] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
    std::mt19937 random(seed);
    for (std::size_t block = 0; block < count / 32; ++block) {
      scales.push_back(static_cast<std::uint8_t>(120 + random() % 6));
      for (std::size_t i = 0; i < 16; ++i) {
        blocks.push_back(static_cast<std::uint8_t>(random()));
        for (const unsigned code : {unsigned{blocks.back()} & 15U, unsigned{blocks.back()} >> 4U}) {
          values.push_back(std::ldexp(code < 8 ? kValues[code] : -kValues[code - 8], scales.back() - 127));
        }
      }
    }
  }
};

constexpr std::int64_t kHidden = 64;
constexpr std::int64_t kInner = 32;
constexpr std::int64_t kExperts = 3;

/// Builds a safetensors file of tensors of several types.
class Tensors {
 public:
  template <class T>
  void add(const std::string& name, const char* type, const Shape& shape, const std::vector<T>& values) {
    const std::size_t begin = data_.size();
    data_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
    header_[name] = {{"dtype", type}, {"shape", shape}, {"data_offsets", {begin, data_.size()}}};
  }
  void write(const std::filesystem::path& path) const {
    test::write_file(path, test::safetensors_bytes(header_.dump(), data_));
  }

 private:
  json header_ = json::object();
  std::string data_;
};

/// Writes a model of one layer whose experts are in MXFP4, or transposed and in F32 with the same values.
std::filesystem::path write_model(const std::filesystem::path& directory, bool mxfp4, std::uint8_t first_scale = 120) {
  std::filesystem::create_directories(directory);
  json config = kConfig;
  config.update({{"num_hidden_layers", 1},
                 {"hidden_size", kHidden},
                 {"num_attention_heads", 2},
                 {"num_key_value_heads", 1},
                 {"head_dim", 8},
                 {"intermediate_size", kInner},
                 {"num_local_experts", kExperts},
                 {"tie_word_embeddings", true}});
  if (mxfp4) config["quantization_config"] = {{"quant_method", "mxfp4"}};
  test::write_file(directory / "config.json", config.dump());

  Tensors tensors;
  unsigned seed = 1;
  const auto add = [&](const std::string& name, const Shape& shape) {
    tensors.add(name, "F32", shape, test::random_floats(static_cast<std::size_t>(element_count(shape)), seed++, 0.3F));
  };
  const std::string block = "model.layers.0.";
  add("model.embed_tokens.weight", {10, kHidden});
  add("model.norm.weight", {kHidden});
  add(block + "input_layernorm.weight", {kHidden});
  add(block + "post_attention_layernorm.weight", {kHidden});
  add(block + "self_attn.sinks", {2});
  for (const auto& [name, rows, cols] :
       {std::tuple<const char*, std::int64_t, std::int64_t>{"self_attn.q_proj", 16, kHidden},
        {"self_attn.k_proj", 8, kHidden},
        {"self_attn.v_proj", 8, kHidden},
        {"self_attn.o_proj", kHidden, 16},
        {"mlp.router", kExperts, kHidden}}) {
    add(block + name + ".weight", {rows, cols});
    add(block + name + ".bias", {rows});
  }
  for (const auto& [name, rows, cols] :
       {std::tuple<const char*, std::int64_t, std::int64_t>{"gate_up_proj", 2 * kInner, kHidden},
        {"down_proj", kHidden, kInner}}) {
    const std::string module = block + "mlp.experts." + name;
    add(module + "_bias", {kExperts, rows});
    Mxfp4 matrix(static_cast<std::size_t>(kExperts * rows * cols), seed++);
    if (mxfp4) {
      if (first_scale != 120) matrix.scales.front() = first_scale;
      tensors.add(module + "_blocks", "U8", {kExperts, rows, cols / 32, 16}, matrix.blocks);
      tensors.add(module + "_scales", "U8", {kExperts, rows, cols / 32}, matrix.scales);
      continue;
    }
    std::vector<float> transposed;
    for (std::int64_t expert = 0; expert < kExperts; ++expert) {
      for (std::int64_t c = 0; c < cols; ++c) {
        for (std::int64_t r = 0; r < rows; ++r) {
          transposed.push_back(matrix.values[static_cast<std::size_t>((expert * rows + r) * cols + c)]);
        }
      }
    }
    tensors.add(module, "F32", {kExperts, cols, rows}, transposed);
  }
  tensors.write(directory / "model.safetensors");
  return directory;
}

TEST_CASE("experts in MXFP4 are decoded to their values") {
  const test::TemporaryDirectory directory;
  const Model plain(write_model(directory / "plain", false));
  const Model packed(write_model(directory / "packed", true));
  const std::vector<int> ids = {1, 5, 3, 9, 9, 0, 2};
  CHECK(test::run_at_once(packed, ids) == test::run_at_once(plain, ids));
}

TEST_CASE("an MXFP4 scale that is NaN, and tensors of contradictory shapes, are named in the error") {
  const test::TemporaryDirectory directory;
  CHECK(test::error_message([&] { Model(write_model(directory / "nan", true, 255)); }) ==
        test::Contains("mlp.experts.gate_up_proj_scales: the scale of block 0 is not finite"));
  write_model(directory / "narrow", true);
  json config = json::parse(test::read_file(directory / "narrow" / "config.json"));
  config["intermediate_size"] = 40;
  test::write_file(directory / "narrow" / "config.json", config.dump());
  CHECK(test::error_message([&] { Model(directory / "narrow"); }) == test::Contains("mlp.experts."));
}

}  // namespace ballast::model::gpt_oss_test
