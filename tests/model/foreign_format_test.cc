#include "formats/codecs/codec.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "error_message.h"
#include "foreign_model.h"
#include "model/model.h"
#include "model/source/model_source.h"
#include "model/structure/block_structure.h"
#include "model_runs.h"
#include "mutated_text.h"
#include "temporary_directory.h"

namespace ballast::model {
namespace {

using test::Contains;
using test::error_message;
using test::foreign_forms;
using test::ForeignForm;
using test::ForeignModel;

const std::vector<int> kIds = {1, 5, 2, 8, 0, 7, 7, 3};

/// Calls visit(role, layer) for the matrices of a model of one layer.
void for_matrices(const ModelSource& source, const auto& visit) {
  for (const Role role : outer_roles(source.spec())) {
    if (!is_norm(role) && !is_vector(role)) visit(role);
  }
  for (const Part& part : block_linears(source.spec(), 0)) visit(part.role);
}

const std::vector<float>& values_of(const ModelSource& source, const ForeignModel& model, Role role) {
  return model.plain.tensors.at(source.name(role) + ".weight").values;
}

std::vector<float> logits(const std::filesystem::path& path, ActivationType activations) {
  const Model model(path, FloatLayout::kRows, {.activations = activations});
  return test::run_at_once(model, kIds);
}

TEST_CASE("matrices of every foreign format are decoded to the last bit") {
  for (const ForeignForm& form : foreign_forms()) {
    CAPTURE(form.name);
    const test::TemporaryDirectory directory;
    const ForeignModel model = test::foreign_model(form);
    const ModelSource source(model.write(directory.path()));
    for_matrices(source, [&](Role role) {
      CAPTURE(source.name(role));
      CHECK(source.float_weights(role).values == values_of(source, model, role));
    });
  }
}

TEST_CASE("FP8 with scales of blocks is decoded to the last bit, blocks at the edges, too") {
  const test::TemporaryDirectory directory;
  const ForeignModel model = test::fp8_model();
  const ModelSource source(model.write(directory.path()));
  for_matrices(source, [&](Role role) {
    CAPTURE(source.name(role));
    CHECK(source.float_weights(role).values == values_of(source, model, role));
  });
}

TEST_CASE("NVFP4 of both programs is decoded to the last bit and computes what its decoded weights do") {
  for (const ForeignModel& model : {test::compressed_nvfp4_model(), test::modelopt_model()}) {
    CAPTURE(model.config.dump());
    const test::TemporaryDirectory directory;
    const auto path = model.write(directory / "foreign");
    const ModelSource source(path);
    for_matrices(source, [&](Role role) {
      CAPTURE(source.name(role));
      CHECK(source.float_weights(role).values == values_of(source, model, role));
    });
    CHECK(logits(path, ActivationType::kInt8) ==
          logits(model.plain.write(directory / "plain"), ActivationType::kFloat));
  }
}

TEST_CASE("a checkpoint of ModelOpt is recognized by hf_quant_config.json where config.json says nothing") {
  const test::TemporaryDirectory directory;
  ForeignModel model = test::modelopt_model();
  model.config.erase("quantization_config");
  const auto path = model.write(directory.path());
  CHECK(error_message([&] { const ModelSource plain(path); }) != "no error");
  test::write_file(path / "hf_quant_config.json",
                   R"({"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4", "group_size": 16}})");
  const ModelSource source(path);
  CHECK(source.foreign_modules().at("model.layers.0.mlp.down_proj").type == "ModelOpt NVFP4");
  test::write_file(path / "hf_quant_config.json", R"({"quantization": {"quant_algo": "MXFP8"}})");
  CHECK(error_message([&] { const ModelSource other(path); }) ==
        Contains("hf_quant_config.json: quantization.quant_algo: 'MXFP8' is not read"));
}

TEST_CASE("codes of every foreign format are kept if kernels can multiply them") {
  for (const ForeignForm& form : foreign_forms()) {
    CAPTURE(form.name);
    const test::TemporaryDirectory directory;
    const ForeignModel model = test::foreign_model(form);
    ModelSource source(model.write(directory.path()));
    source.set_code_activations(ActivationType::kInt8);
    for_matrices(source, [&](Role role) {
      const std::string name = source.name(role);
      CAPTURE(name);
      const Linear linear = source.linear(role);
      const auto* matrix = std::get_if<kernels::QuantizedMatrix>(&linear.weights);
      REQUIRE((matrix != nullptr) == (form.keeps_codes && (form.all || name.contains("layers"))));
      if (matrix == nullptr) return;
      const std::vector<float>& values = values_of(source, model, role);
      std::vector<float> row(matrix->cols());
      bool equal = true;
      for (std::size_t r = 0; r < matrix->rows(); ++r) {
        matrix->decode_row(r, row.data());
        equal =
            equal && std::equal(row.begin(), row.end(), values.begin() + static_cast<std::ptrdiff_t>(r * row.size()));
      }
      CHECK(equal);
    });
  }
}

TEST_CASE("a model of every foreign format gives the logits of its decoded weights") {
  using enum ActivationType;
  for (const ForeignForm& form : foreign_forms()) {
    CAPTURE(form.name);
    const test::TemporaryDirectory directory;
    const ForeignModel model = test::foreign_model(form);
    const auto path = model.write(directory / "foreign");
    const std::vector<float> expected = logits(model.plain.write(directory / "plain"), kFloat);
    CHECK(logits(path, kFloat) == expected);
    CHECK(test::relative_error(logits(path, kInt16), expected) < 1e-3);
    CHECK(test::relative_error(logits(path, kInt8), expected) < 0.1);
  }
}

TEST_CASE("modules of a foreign checkpoint are counted with all their weights and tensors") {
  const test::TemporaryDirectory directory;
  const ModelSource source(test::foreign_model(test::gptq_form(3, 32)).write(directory.path()));
  const std::map<std::string, ForeignModule> modules = source.foreign_modules();
  CHECK(modules.size() == 7);
  const ForeignModule& down = modules.at("model.layers.0.mlp.down_proj");
  CHECK(down.weights == 64 * 128);
  CHECK(down.type == "GPTQ int3-g32");
  CHECK(down.tensors.size() == 4);
  CHECK(down.keeps_codes);
  CHECK(source.stored_bytes(Role::kDown) == 64 * 128 * 3 / 8 + 4 * 64 * 3 / 8 + 4 * 64 * 2 + 128 * 4);
}

TEST_CASE("a head that is quantized alone shows that it is not tied") {
  const test::TemporaryDirectory directory;
  ForeignForm form = test::gptq_form(4, 32);
  form.all = true;
  ForeignModel model = test::foreign_model(form);
  model.config.erase("tie_word_embeddings");
  CHECK(!ModelSource(model.write(directory.path())).spec().tied_embeddings);
}

/// Returns the error of loading and running a changed model.
std::string refusal(ForeignModel model, const auto& change) {
  const test::TemporaryDirectory directory;
  change(model);
  const auto path = model.write(directory.path());
  return error_message([&] { logits(path, ActivationType::kInt8); });
}

std::string refusal_of_config(const ForeignForm& form, const char* field, const nlohmann::json& value) {
  return refusal(test::foreign_model(form), [&](ForeignModel& model) {
    const char* object = model.config.contains("quantization") ? "quantization" : "quantization_config";
    model.config[object][field] = value;
  });
}

std::string refusal_of_scheme(const char* field, const nlohmann::json& value) {
  return refusal(test::foreign_model(test::compressed_form(4, 32, true)), [&](ForeignModel& model) {
    model.config["quantization_config"]["config_groups"]["group_0"]["weights"][field] = value;
  });
}

constexpr const char* kDown = "model.layers.0.mlp.down_proj";

std::string refusal_of_part(const ForeignForm& form, const std::string& part, const auto& change) {
  return refusal(test::foreign_model(form),
                 [&](ForeignModel& model) { change(model.tensors.at(kDown + ("." + part))); });
}

TEST_CASE("unsupported settings of a foreign configuration are named") {
  const ForeignForm gptq = test::gptq_form(4, 32);
  CHECK(refusal_of_config(gptq, "bits", 5) == Contains("quantization_config.bits: must be 2, 3, 4 or 8"));
  CHECK(refusal_of_config(gptq, "checkpoint_format", "marlin") ==
        Contains("'marlin' is not read: gptq and gptq_v2 are"));
  CHECK(refusal_of_config(gptq, "quant_method", "aqlm") ==
        Contains("'aqlm' is not supported: start from the original"));
  CHECK(refusal_of_config(test::awq_form(), "version", "gemv") == Contains("version: 'gemv' is not read: gemm is"));
  CHECK(refusal_of_config(test::awq_form(), "zero_point", false) == Contains("zero_point: must be true"));
  CHECK(refusal_of_config(test::mlx_form(4, 64), "mode", "mxfp4") == Contains("mode: 'mxfp4' is not read: affine is"));
  CHECK(refusal_of_config(test::mlx_form(4, 64), "bits", 7) ==
        Contains("quantization.bits: MLX has 2, 3, 4, 5, 6 and 8"));
  const ForeignForm compressed = test::compressed_form(4, 32, true);
  CHECK(refusal_of_config(compressed, "format", "marlin-24") == Contains("format: 'marlin-24' is not read"));
  CHECK(refusal_of_config(compressed, "sparsity_config", {{"format", "sparse-24-bitmask"}}) ==
        Contains("sparsity_config.format: 'sparse-24-bitmask' is not read: dense is"));
  CHECK(refusal_of_config(compressed, "transform_config", {{"config_groups", {{"R1", nullptr}}}}) ==
        Contains("transform_config: has transforms of activations, which are not run"));
  CHECK(refusal_of_scheme("type", "float") ==
        Contains("strategy: floats of 4 bits are read as NVFP4: 'tensor_group' with a group_size of 16"));
  CHECK(refusal(test::compressed_nvfp4_model(), [](ForeignModel& model) {
          model.config["quantization_config"]["config_groups"]["group_0"]["weights"]["num_bits"] = 6;
        }) == Contains("num_bits: must be 4 or 8, of floats"));
  CHECK(refusal_of_scheme("strategy", "tensor_group") ==
        Contains("'tensor_group' is not read for weights of type int"));
  CHECK(refusal_of_scheme("num_bits", 9) == Contains("num_bits: must be between 2 and 8, is 9"));
}

TEST_CASE("a scaled activation of AutoAWQ is refused by name") {
  const std::string said = refusal(test::foreign_model(test::awq_form()), [](ForeignModel& model) {
    model.tensors["model.layers.0.mlp.act.scales"] = {"F32", {1}, std::string(4, '\0')};
  });
  CHECK(said == Contains("model.layers.0.mlp.act.scales: scales an activation"));
}

TEST_CASE("a scale that is not finite, a group that does not exist and another shape are named") {
  const auto set_nan = [](test::StoredTensor& tensor) { tensor.data.replace(2, 2, "\xff\x7f"); };
  CHECK(refusal_of_part(test::gptq_form(4, 32), "scales", set_nan) == Contains("mlp.down_proj.scales"));
  CHECK(refusal_of_part(test::awq_form(), "scales", set_nan) == Contains("mlp.down_proj.scales"));
  CHECK(refusal_of_part(test::mlx_form(4, 64), "biases", set_nan) == Contains("mlp.down_proj.biases"));
  CHECK(refusal_of_part(test::compressed_form(4, 32, true), "weight_scale", set_nan) ==
        Contains("mlp.down_proj.weight_scale"));
  CHECK(refusal_of_part(test::gptq_form(4, 32), "g_idx", [](test::StoredTensor& tensor) { tensor.data[4] = 4; }) ==
        Contains("mlp.down_proj.g_idx: names group 4 of 4"));
  CHECK(refusal_of_part(test::compressed_form(4, 32, true), "weight_shape", [](test::StoredTensor& tensor) {
          tensor.data[0] = 63;
        }) == Contains("mlp.down_proj.weight_shape: holds [63, 128], expected [64, 128]"));
  CHECK(refusal_of_part(test::gptq_form(4, 32), "qweight", [](test::StoredTensor& tensor) { tensor.dtype = "F32"; }) ==
        Contains("mlp.down_proj.qweight: has type F32, must be I32 or U32"));
  CHECK(refusal(test::fp8_model(), [](ForeignModel& model) {
          model.tensors.at("model.layers.0.mlp.down_proj.weight").data[130] = '\x7f';
        }) == Contains("mlp.down_proj: row 1 has values that are not finite"));
}

/// Makes a change after which the model cannot run, and returns its description.
std::string break_tensors(ForeignModel& model, std::mt19937& random) {
  const auto below = [&](std::size_t end) { return static_cast<std::size_t>(random() % end); };
  std::vector<std::string> names;
  for (const auto& [name, tensor] : model.tensors) {
    if (name.contains("layers") && !name.contains("norm") && !name.ends_with("g_idx")) names.push_back(name);
  }
  const std::string name = names[below(names.size())];
  test::StoredTensor& tensor = model.tensors.at(name);
  switch (below(5)) {
    case 0:
      model.tensors.erase(name);
      return name + " left out";
    case 1:
      tensor.dtype = "F64";
      tensor.data.assign(static_cast<std::size_t>(element_count(tensor.shape)) * sizeof(double), '\0');
      return name + " of another type";
    case 2: {
      if (tensor.shape.empty()) tensor.shape.push_back(1);
      const std::size_t axis = below(tensor.shape.size());
      const std::size_t slice = tensor.data.size() / static_cast<std::size_t>(tensor.shape[axis]);
      ++tensor.shape[axis];
      tensor.data.append(slice, '\1');
      return name + " longer";
    }
    case 3:
      tensor.shape.push_back(1);
      tensor.shape.insert(tensor.shape.begin(), 1);
      return name + " of more dimensions";
    default:
      if (!name.contains("scale")) {
        tensor.shape[0] = 0;
        tensor.data.clear();
        return name + " empty";
      }
      // A value with all bits set is NaN in every float type.
      for (std::size_t i = 0; i < 4; ++i) tensor.data[i] = '\xff';
      return name + " no number";
  }
}

/// Makes a change that may be harmless, and returns its description.
std::string change_config(ForeignModel& model, std::mt19937& random) {
  const std::vector<nlohmann::json> values = {nullptr,    true,
                                              -1,         0,
                                              1,          3,
                                              7,          1e300,
                                              2147483648, "",
                                              "int",      nlohmann::json::array(),
                                              {4, -4},    nlohmann::json::object()};
  nlohmann::json& config = model.config[model.config.contains("quantization") ? "quantization" : "quantization_config"];
  const nlohmann::json flat = config.flatten();
  auto field = flat.items().begin();
  for (std::size_t steps = random() % flat.size(); steps > 0; --steps) ++field;
  const std::string key = field.key();
  config[nlohmann::json::json_pointer(key)] = values[random() % values.size()];
  return key + " is " + config[nlohmann::json::json_pointer(key)].dump();
}

TEST_CASE("a broken checkpoint of any foreign format is refused with one line") {
  std::vector<ForeignModel> models = {test::fp8_model(), test::compressed_nvfp4_model(), test::modelopt_model()};
  for (const ForeignForm& form :
       {test::compressed_form(4, 32, true), test::compressed_form(6, 64, false), test::compressed_bytes_form(false),
        test::gptq_form(4, 32), test::gptq_form(3, 32, true), test::awq_form(), test::mlx_form(4, 64)}) {
    models.push_back(test::foreign_model(form));
  }
  std::mt19937 random(16);
  for (const ForeignModel& whole : models) {
    for (int round = 0; round < 200; ++round) {
      const test::TemporaryDirectory directory;
      ForeignModel model = whole;
      std::string what;
      if (round % 2 == 0) what = break_tensors(model, random);
      if (round % 4 == 1) what = change_config(model, random);
      const auto path = model.write(directory.path());
      if (round % 8 == 3) {
        what = "file cut";
        const std::string bytes = model.tensor_bytes();
        test::write_file(path / "model.safetensors", bytes.substr(0, random() % bytes.size()));
      } else if (round % 8 == 7) {
        what = "configuration with damage";
        test::write_file(path / "config.json", test::mutated(model.config.dump(), random));
      }
      CAPTURE(whole.config.dump());
      CAPTURE(what);
      const std::string message = error_message([&] { logits(path, ActivationType::kInt8); });
      if (round % 2 == 0 || round % 8 == 3) CHECK(message != "no error");
      CHECK(!message.contains('\n'));
    }
  }
}

}  // namespace
}  // namespace ballast::model
