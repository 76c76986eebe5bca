#include "ballast/convert.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "ballast/calibrate.h"
#include "error_message.h"
#include "every_target.h"
#include "file_bytes.h"
#include "fixed_recipe.h"
#include "kernels/logits.h"
#include "model_logits.h"
#include "temporary_directory.h"
#include "tiny_model.h"
#include "tiny_tokenizer.h"
#include "with_threads.h"

namespace ballast {
namespace {

using test::Contains;
using test::distance;
using test::error_message;
using test::files_of;
using test::golden_model;
using test::logits_of;
using test::TemporaryDirectory;
namespace fs = std::filesystem;

ConvertOptions options_for(const std::string& scheme) {
  ConvertOptions options;
  options.recipe = test::fixed_recipe(scheme);
  return options;
}

/// Returns the same options with statistics, so that no calibration runs first.
ConvertOptions measured_options(const std::string& scheme, const std::string& golden) {
  static const TemporaryDirectory directory;
  const fs::path statistics = directory / golden;
  if (!fs::exists(statistics)) {
    save_statistics(calibrate(golden_model(golden), {.text_files = {}, .samples = 4, .length = 16}), statistics, false);
  }
  ConvertOptions options = options_for(scheme);
  options.statistics = statistics;
  return options;
}

double conversion_error(const fs::path& model, const ConvertOptions& options) {
  const TemporaryDirectory directory;
  convert(model, directory / "out", options);
  return distance(logits_of(directory / "out"), logits_of(model));
}

TEST_CASE("the exact passes leave the logits and set the folded gains to 1") {
  for (const char* name : {"llama", "llama3"}) {
    CAPTURE(name);
    const TemporaryDirectory directory;
    convert(golden_model(name), directory / "out", options_for("f32"));
    CHECK(distance(logits_of(directory / "out"), logits_of(golden_model(name))) <= 1e-5);
    const test::TinyModel converted = test::read_model(directory / "out");
    const test::TinyModel original = test::read_model(golden_model(name));
    for (const auto& [tensor, content] : converted.tensors) {
      if (tensor.find("layernorm") == std::string::npos) continue;
      CHECK(content.values == std::vector<float>(content.values.size(), 1.0F));
      CHECK(original.tensors.at(tensor).values != content.values);
    }
    // The final norm's gain cannot fold into a tied head.
    const bool tied = std::string(name) == "llama";
    const auto& final_norm = converted.tensors.at("model.norm.weight").values;
    CHECK((final_norm == std::vector<float>(final_norm.size(), 1.0F)) == !tied);
  }
}

TEST_CASE("without folding a conversion to F32 keeps every value") {
  const TemporaryDirectory directory;
  ConvertOptions options = options_for("f32");
  options.recipe.fold_norms = options.recipe.fold_biases = options.recipe.center_norms = false;
  convert(golden_model("llama3"), directory / "out", options);
  const test::TinyModel converted = test::read_model(directory / "out");
  const test::TinyModel original = test::read_model(golden_model("llama3"));
  CHECK(converted.tensors.size() == original.tensors.size());
  for (const auto& [name, tensor] : original.tensors) CHECK(converted.tensors.at(name).values == tensor.values);
}

TEST_CASE("every scheme loads, runs and stays within its budget") {
  // Root mean square errors over the logits' size. Measured, the worse of both models: bf16 0.006, w8a16 0.028,
  // w8a8 0.030, w4a16 0.28, w4a8 0.27.
  const std::map<std::string, double> budgets = {
      {"bf16", 0.01}, {"w8a16", 0.05}, {"w8a8", 0.05}, {"w4a16", 0.4}, {"w4a8", 0.4}};
  for (const char* name : {"llama", "llama3"}) {
    for (const auto& [scheme, budget] : budgets) {
      CAPTURE(name);
      CAPTURE(scheme);
      const double error = conversion_error(golden_model(name), measured_options(scheme, name));
      CHECK(error > 0);
      CHECK(error <= budget);
    }
  }
}

TEST_CASE("the expected cost of a conversion does not depend on the instruction set") {
  const TemporaryDirectory directory;
  for (const char* scheme : {"w8a8", "w4a8", "w4a16"}) {
    CAPTURE(scheme);
    const fs::path out = directory / scheme;
    ConvertOptions options = measured_options(scheme, "llama3");
    options.recipe.rounding = Recipe::Rounding::kNearest;
    options.recipe.smooth = false;
    convert(golden_model("llama3"), out, options);
    const std::vector<float> original = logits_of(golden_model("llama3"));
    const std::size_t vocab = original.size() / 40;
    std::vector<double> costs;
    test::for_every_target([&] {
      const std::vector<float> logits = logits_of(out);
      double sum = 0;
      for (std::size_t i = 0; i < original.size(); i += vocab) {
        sum += kernels::kl_divergence(original.data() + i, logits.data() + i, vocab);
      }
      costs.push_back(sum);
    });
    CHECK(costs.front() > 0);
    for (const double cost : costs) CHECK(std::abs(cost - costs.front()) <= 0.02 * costs.front());
  }
}

TEST_CASE("every format loads and runs, and each additional bit reduces the error") {
  // Each type of activations is combined with each group size and each symmetry.
  const struct {
    const char* scheme;
    const char* group_and_symmetry;
  } kinds[] = {{"w4a8", "-g32"},  {"w4a16", "-g32-asym"},  {"w4a16", "-g64"},     {"w4a8", "-g64-asym"},
               {"w4a8", "-g128"}, {"w4a16", "-g128-asym"}, {"w4a16", "-channel"}, {"w4a8", "-channel-asym"}};
  for (const auto& [scheme, group_and_symmetry] : kinds) {
    CAPTURE(scheme);
    CAPTURE(group_and_symmetry);
    ConvertOptions options = measured_options(scheme, "llama3");
    std::map<int, double> error;
    for (const int bits : {4, 5, 6, 8}) {
      options.recipe.linears = parse_format("int" + std::to_string(bits) + group_and_symmetry);
      error[bits] = conversion_error(golden_model("llama3"), options);
    }
    CHECK(error[8] <= 0.05);
    CHECK(error[4] <= 0.5);
    // One more bit halves the step. The error is not halved, because other tensors are not rounded.
    CHECK(error[5] < 0.75 * error[4]);
    CHECK(error[6] < 0.75 * error[5]);
    CHECK(error[8] < 0.75 * error[6]);
    CHECK(error[8] < error[4] / 3);
  }
}

TEST_CASE("every codebook is converted and runs, and more bits reduce the error") {
  const TemporaryDirectory directory;
  for (const char* activations : {"w4a8", "w4a16"}) {
    ConvertOptions options = measured_options(activations, "llama3");
    double error_of_fewer_bits = 1;
    for (const Codebook& book : kCodebooks) {
      options.recipe.linears = codebook_format(book.id, 32, 8);
      const std::string name = format_name(options.recipe.linears) + activations;
      CAPTURE(name);
      const ConvertReport report = convert(golden_model("llama3"), directory / name, options);
      CHECK(report.bytes_after == fs::file_size(directory / name / "model.safetensors"));
      const double error = distance(logits_of(directory / name), logits_of(golden_model("llama3")));
      CHECK(error < error_of_fewer_bits);
      error_of_fewer_bits = error;
    }
  }
}

TEST_CASE("searched grids have smaller errors than those over the range, also with 8-bit scales") {
  const TemporaryDirectory directory;
  ConvertOptions options = measured_options("w4a16", "llama3");
  const auto size_with = [&](const char* format, const char* name) {
    options.recipe.linears = parse_format(format);
    return convert(golden_model("llama3"), directory / name, options).bytes_after;
  };
  const auto error_of = [&](const char* name) {
    return distance(logits_of(directory / name), logits_of(golden_model("llama3")));
  };
  options.recipe.rounding = Recipe::Rounding::kNearest;
  size_with("int4-g32-asym", "nearest");
  options.recipe.rounding = Recipe::Rounding::kScaleSearch;
  size_with("int4-g32-asym", "search");
  size_with("int4-g32-asym-s8", "search-s8");
  CHECK(error_of("search") < error_of("nearest"));
  CHECK(error_of("search-s8") < error_of("nearest"));
  for (const char* format :
       {"int8-g64-s8", "int6-g128-asym-s8", "int5-g32-s8", "nl4-g64-s8", "nl5-g32", "nl7-g32-s8"}) {
    CAPTURE(format);
    const std::uint64_t reported = size_with(format, format);
    CHECK(reported == fs::file_size(directory / format / "model.safetensors"));
    CHECK(error_of(format) < error_of("nearest"));
  }
}

TEST_CASE("embedding, head and overridden matrices get the requested formats") {
  const TemporaryDirectory directory;
  ConvertOptions options = measured_options("w4a16", "llama3");
  options.recipe.embedding = parse_format("int8-channel");
  options.recipe.head = parse_format("bf16");
  options.recipe.overrides = {{"layers\\.1\\..*down_proj", parse_format("int8-g32")}, {"o_proj$", parse_format("f16")}};
  const ConvertReport report = convert(golden_model("llama3"), directory / "out", options);
  const model::ModelSource converted(directory / "out");
  REQUIRE(converted.quantization().has_value());
  const auto& formats = converted.quantization()->tensors;
  CHECK(format_name(formats.at("model.embed_tokens")) == "int8-channel");
  CHECK(format_name(formats.at("model.layers.1.mlp.down_proj")) == "int8-g32");
  CHECK(format_name(formats.at("model.layers.0.mlp.down_proj")) == "int4-g32-asym");
  CHECK(formats.find("lm_head") == formats.end());
  CHECK(formats.find("model.layers.0.self_attn.o_proj") == formats.end());
  CHECK(converted.checkpoint().tensor("lm_head.weight").dtype == DType::kBF16);
  CHECK(converted.checkpoint().tensor("model.layers.0.self_attn.o_proj.weight").dtype == DType::kF16);
  CHECK(distance(logits_of(directory / "out"), logits_of(golden_model("llama3"))) <= 0.3);
  std::uint64_t weights = 0;
  for (const TensorGroupReport& group : report.groups) weights += group.weights;
  std::size_t stored = 0;
  for (const auto& [name, tensor] : test::read_model(golden_model("llama3")).tensors) {
    if (!name.ends_with("bias")) stored += tensor.values.size();
  }
  CHECK(weights == stored);
  CHECK(report.bytes_after == fs::file_size(directory / "out" / "model.safetensors"));
}

TEST_CASE("a converted model contains its recipe") {
  const TemporaryDirectory directory;
  ConvertOptions options = measured_options("w8a8", "llama");
  options.recipe.overrides = {{"down_proj", parse_format("bf16")}};
  convert(golden_model("llama"), directory / "out", options);
  const std::string text = test::read_file(directory / "out" / "recipe.json");
  CHECK(recipe_json(parse_recipe(text, "recipe.json")) == recipe_json(options.recipe));
}

TEST_CASE("the same input gives the same bytes for any number of threads") {
  for (const char* scheme : {"f32", "w8a8"}) {
    CAPTURE(scheme);
    const TemporaryDirectory directory;
    for (const int threads : {1, 2, 5}) {
      const auto target = directory / std::to_string(threads);
      test::with_threads(threads, [&] { convert(golden_model("llama3"), target, options_for(scheme)); });
    }
    const auto expected = files_of(directory / "1");
    CHECK(expected.size() >= 3);
    CHECK(files_of(directory / "2") == expected);
    CHECK(files_of(directory / "5") == expected);
  }
}

TEST_CASE("saved statistics determine the outlier columns") {
  const TemporaryDirectory directory;
  test::TinyModel model = test::random_model();
  // Channel 5 of the stream is large for every token.
  auto& embedding = model.at("model.embed_tokens.weight").values;
  for (std::size_t token = 0; token < 264; ++token) embedding[token * 32 + 5] = 30;
  const fs::path path = model.write(directory / "model");
  save_statistics(calibrate(path, {.text_files = {}, .samples = 2, .length = 16}), directory / "stats", false);
  ConvertOptions options = options_for("w8a8");
  options.recipe.smooth = false;  // smoothing would make the channel as large as the others
  options.recipe.int16_activations_at_end = false;
  options.statistics = directory / "stats";
  convert(path, directory / "out", options);
  const model::ModelSource converted(directory / "out");
  const model::Linear query = converted.linear(model::Role::kQuery, 0);
  CHECK(query.activations.value().outlier_columns == std::vector<std::int32_t>{5});
  // Without the split the large channel sets every token's scale.
  ConvertOptions plain = options;
  plain.recipe.outlier_fraction = 0;
  plain.recipe.activation_groups = options.recipe.activation_groups = false;
  CHECK(conversion_error(path, options) < 0.9 * conversion_error(path, plain));
}

TEST_CASE("an MLP reads INT16 if its output norm has a channel with a large gain, unless the recipe disables it") {
  const TemporaryDirectory directory;
  test::TinyModel model = test::read_model(golden_model("gemma3_text"));
  for (const char* layer : {"0", "1"}) {
    std::vector<float>& gain =
        model.at("model.layers." + std::string(layer) + ".post_feedforward_layernorm.weight").values;
    std::ranges::fill(gain, 0.5F);  // stored minus one
    gain[3] = layer[0] == '0' ? 16.5F : 10.0F;
  }
  const fs::path path = model.write(directory / "model");
  for (const bool int16 : {true, false}) {
    CAPTURE(int16);
    ConvertOptions options = measured_options("w8a8", "gemma3_text");
    options.recipe.int16_activations_at_end = false;
    options.recipe.int16_activations_where_amplified = int16;
    convert(path, directory / (int16 ? "int16" : "int8"), options);
    const model::ModelSource converted(directory / (int16 ? "int16" : "int8"));
    for (const model::Role role : {model::Role::kGate, model::Role::kUp}) {
      CHECK(converted.linear(role, 0).activations.value().type ==
            (int16 ? ActivationType::kInt16 : ActivationType::kInt8));
      CHECK(converted.linear(role, 1).activations.value().type == ActivationType::kInt8);
    }
    CHECK(converted.linear(model::Role::kDown, 0).activations.value().type == ActivationType::kInt8);
    CHECK(converted.linear(model::Role::kQuery, 0).activations.value().type == ActivationType::kInt8);
  }
}

TEST_CASE("with INT8 activations, matrices that only a prompt's last token passes read INT16, unless disabled") {
  for (const char* golden : {"llama3", "llama"}) {  // one has a tied head, the other has not
    CAPTURE(golden);
    for (const bool int16 : {true, false}) {
      CAPTURE(int16);
      const TemporaryDirectory directory;
      ConvertOptions options = measured_options("w8a8", golden);
      options.recipe.int16_activations_at_end = int16;
      convert(golden_model(golden), directory / "out", options);
      const model::ModelSource converted(directory / "out");
      const bool tied = converted.spec().tied_embeddings;
      const model::Linear head = converted.linear(tied ? model::Role::kEmbedding : model::Role::kHead);
      CHECK(head.activations.value().type == (int16 ? ActivationType::kInt16 : ActivationType::kInt8));
      const std::size_t last = converted.spec().layers.size() - 1;
      for (const model::Role role : {model::Role::kAttentionOutput, model::Role::kGate, model::Role::kDown}) {
        CHECK(converted.linear(role, last).activations.value().type ==
              (int16 ? ActivationType::kInt16 : ActivationType::kInt8));
        CHECK(converted.linear(role, last - 1).activations.value().type == ActivationType::kInt8);
      }
      CHECK(converted.linear(model::Role::kValue, last).activations.value().type == ActivationType::kInt8);
      CHECK(converted.quantization()->int16_activation_modules.size() == (int16 ? 5 : 0));
    }
  }
}

TEST_CASE("statistics of another model are refused") {
  const TemporaryDirectory directory;
  save_statistics(calibrate(golden_model("llama3"), {.text_files = {}, .samples = 1, .length = 8}), directory / "stats",
                  false);
  ConvertOptions options = options_for("w8a8");
  options.statistics = directory / "stats";
  const auto other = test::random_model({.layers = 3}).write(directory / "other");
  CHECK(error_message([&] { convert(other, directory / "out", options); }) == Contains("they are of another model"));
  CHECK(!fs::exists(directory / "out"));
}

TEST_CASE("a model that is quantized already is refused") {
  const TemporaryDirectory directory;
  convert(golden_model("llama"), directory / "once", measured_options("w8a8", "llama"));
  CHECK(error_message([&] { convert(directory / "once", directory / "twice", options_for("w8a8")); }) ==
        Contains("once: is quantized already; convert the original instead"));
  CHECK(!fs::exists(directory / "twice"));
}

TEST_CASE("an exact conversion can be converted again") {
  const TemporaryDirectory directory;
  convert(golden_model("llama"), directory / "once", options_for("f32"));
  CHECK(distance(logits_of(directory / "once"), logits_of(golden_model("llama"))) <= 1e-5);
  CHECK(conversion_error(directory / "once", measured_options("w8a8", "llama")) <= 0.05);
}

TEST_CASE("an existing output is kept unless replacement is requested") {
  const TemporaryDirectory directory;
  convert(golden_model("llama"), directory / "out", options_for("f32"));
  const auto before = files_of(directory / "out");
  CHECK(error_message([&] { convert(golden_model("llama"), directory / "out", options_for("w8a8")); }) ==
        Contains("out: exists;"));
  CHECK(files_of(directory / "out") == before);
  ConvertOptions options = measured_options("w8a8", "llama");
  options.replace = true;
  convert(golden_model("llama"), directory / "out", options);
  CHECK(files_of(directory / "out") != before);
}

TEST_CASE("rounding a rounded model again is reported with the errors of both roundings") {
  const TemporaryDirectory directory;
  const auto note_of = [&](const char* model, const char* scheme) -> std::string {
    ConvertOptions options = options_for(scheme);
    options.recipe.outlier_fraction = 0;
    options.recipe.correct_drift = false;  // the correction changes weights on purpose
    options.replace = true;
    for (const std::string& note : convert(golden_model(model), directory / "out", options).notes) {
      if (note.starts_with("rounded twice: ")) return note;
    }
    return "";
  };
  CHECK(note_of("llama", "w8a8").empty());
  CHECK(note_of("llama.gguf", "f32").empty());
  const std::string note = note_of("llama.gguf", "w8a8");
  CHECK(note == Contains("Weights are off by 0."));
  CHECK(note == Contains(" by this rounding, by about "));
}

TEST_CASE("a directory that ballast did not write is not replaced") {
  const TemporaryDirectory directory;
  fs::create_directory(directory / "out");
  test::write_file(directory / "out" / "thesis.txt", "precious");
  ConvertOptions options = options_for("f32");
  options.replace = true;
  CHECK(error_message([&] { convert(golden_model("llama"), directory / "out", options); }) ==
        Contains("out: is not a model that ballast wrote"));
  CHECK(test::read_file(directory / "out" / "thesis.txt") == "precious");
}

TEST_CASE("a failed conversion leaves no files, and keeps the old output") {
  const TemporaryDirectory directory;
  convert(golden_model("llama"), directory / "out", options_for("f32"));
  const auto before = files_of(directory / "out");
  ConvertOptions options = measured_options("w8a8", "llama");
  options.replace = true;
  struct Cancelled {};
  const auto cancel = [](std::string_view stage, std::size_t done, std::size_t) {
    if (stage == "converting" && done == 2) throw Cancelled{};
  };
  CHECK_THROWS_AS(convert(golden_model("llama"), directory / "out", options, cancel), Cancelled);
  CHECK(files_of(directory / "out") == before);
  test::TinyModel broken = test::read_model(golden_model("llama"));
  broken.at("model.layers.1.mlp.up_proj.weight").values[9] = std::nanf("");
  broken.write(directory / "broken");
  CHECK(error_message([&] { convert(directory / "broken", directory / "out", options); }) ==
        Contains("model.layers.1.mlp.up_proj.weight"));
  CHECK(files_of(directory / "out") == before);
  CHECK(std::distance(fs::directory_iterator(directory.path()), fs::directory_iterator()) == 2);
}

TEST_CASE("a converted model with a flipped bit is refused") {
  const TemporaryDirectory directory;
  convert(golden_model("llama"), directory / "out", measured_options("w8a8", "llama"));
  const fs::path file = directory / "out" / "model.safetensors";
  const std::string bytes = test::read_file(file);
  for (const std::size_t from_end : {1U, 1000U, 10000U}) {
    std::string damaged = bytes;
    char& byte = damaged[damaged.size() - from_end];
    byte = static_cast<char>(byte ^ 4);
    test::write_file(file, damaged);
    CHECK(error_message([&] { logits_of(directory / "out"); }) == Contains("checksum"));
  }
}

TEST_CASE("a conversion copies the tokenizer, and refuses one that does not fit the model") {
  const TemporaryDirectory directory;
  test::TinyModel model = test::random_model();
  model.tokenizer = test::tiny_tokenizer_json();
  convert(model.write(directory / "model"), directory / "out", options_for("f32"));
  CHECK(test::read_file(directory / "out" / "tokenizer.json") ==
        test::read_file(directory / "model" / "tokenizer.json"));
  test::TinyModel small = test::read_model(golden_model("llama"));
  small.tokenizer = test::tiny_tokenizer_json();
  CHECK(error_message([&] { convert(small.write(directory / "small"), directory / "none", options_for("f32")); }) ==
        Contains("they do not belong together"));
  CHECK(!fs::exists(directory / "none"));
}

}  // namespace
}  // namespace ballast
