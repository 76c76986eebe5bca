#include "quant/write/model_format.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ballast/convert.h"
#include "error_message.h"
#include "file_bytes.h"
#include "fixed_recipe.h"
#include "model/source/model_source.h"
#include "model/structure/block_structure.h"
#include "quant/conversion/conversion.h"
#include "quant/conversion/saved_block.h"
#include "quant/quantize/quantize.h"
#include "quant/write/ballast_format.h"
#include "temporary_directory.h"
#include "tiny_model.h"

namespace ballast::quant {
namespace {

using model::Role;
using test::Contains;
using test::error_message;
using test::golden_model;
using test::TemporaryDirectory;
namespace fs = std::filesystem;

std::shared_ptr<const model::ModelSource> open_golden(const std::string& name) {
  return std::make_shared<const model::ModelSource>(golden_model(name));
}

ConvertOptions short_options(const std::string& scheme) {
  ConvertOptions options;
  options.recipe = test::fixed_recipe(scheme);
  options.calibration.samples = 8;
  options.calibration.length = 16;
  return options;
}

/// The input of a toy format's writer, in place of a file.
struct Written {
  std::vector<ModulePlan> plan;
  std::map<ModuleId, ConvertedModule> modules;
  std::map<std::size_t, std::vector<std::uint8_t>> fused;  ///< codes of q, k and v of each layer
  std::vector<int> prefix;
  bool finished = false;
};

const formats::CodeMatrix& integers_of(const ConvertedModule& module) {
  return *module.quantized;
}

class ToyWriter : public ModelWriter {
 public:
  explicit ToyWriter(Written& written) : written_(written) {}

  void write(std::span<const ConvertedModule> block) override {
    for (const ConvertedModule& module : block) {
      written_.modules[module.plan.id] = module;
      const Role role = module.plan.id.role;
      if (role != Role::kQuery && role != Role::kKey && role != Role::kValue) continue;
      std::vector<std::uint8_t>& fused = written_.fused[module.plan.id.layer];
      const std::vector<std::uint8_t>& codes = integers_of(module).codes;
      fused.insert(fused.end(), codes.begin(), codes.end());
    }
  }

  std::uint64_t finish(const ModelMetadata& metadata) override {
    written_.prefix.assign(metadata.prefix.begin(), metadata.prefix.end());
    written_.finished = true;
    return 0;
  }

 private:
  Written& written_;
};

/// A toy format: 5 and 8 bits in groups of 32, no columns in 16 bits, a header of 100 bytes per module.
class ToyFormat : public ModelFormat {
 public:
  explicit ToyFormat(Written& written) : written_(&written) {}

  Recipe fitting(const Recipe& recipe) const override { return recipe; }
  std::vector<WeightFormat> candidates() const override {
    return {{.bits = 5, .group_size = 32, .symmetric = false}, {.bits = 8, .group_size = 32}};
  }
  bool holds(const ModulePlan& module) const override {
    const WeightFormat& format = module.format;
    return !module.is_quantized() ||
           (format.group_size == 32 && module.outlier_columns == 0 && (format.bits == 5 || format.bits == 8));
  }
  std::string describe(const ModulePlan& module) const override { return module.is_quantized() ? "toy" : "F32"; }
  std::uint64_t bytes(const ModulePlan& module) const override {
    return 100 + module.rows * module.cols * (module.is_quantized() ? module.format.bits : 32) / 8;
  }
  std::uint64_t file_bytes(std::span<const ModulePlan> model) const override {
    std::uint64_t sum = 0;
    for (const ModulePlan& module : model) sum += bytes(module);
    return sum;
  }
  std::unique_ptr<ModelWriter> open(const fs::path& /*directory*/, std::span<const ModulePlan> model) const override {
    written_->plan.assign(model.begin(), model.end());
    return std::make_unique<ToyWriter>(*written_);
  }

 private:
  Written* written_;
};

TEST_CASE("formats are chosen among those that the files can hold, with the bytes that they take there") {
  const TemporaryDirectory directory;
  Written written;
  const ToyFormat format(written);
  ConvertOptions options = short_options("w4a16");
  options.recipe.outlier_fraction = 0.01;  // ballast's own format would measure columns
  const auto bytes_with = [&](int bits) {
    ConvertOptions fixed = options;
    fixed.recipe.outlier_fraction = 0;
    fixed.recipe.linears = fixed.recipe.embedding = fixed.recipe.head = {.bits = bits, .group_size = 32};
    convert_to(format, open_golden("llama3"), directory / std::to_string(bits), fixed, {});
    return format.file_bytes(written.plan);
  };
  options.recipe.target_bytes = (bytes_with(5) + bytes_with(8)) / 2;
  const ConvertReport report = convert_to(format, open_golden("llama3"), directory / "chosen", options, {});
  CHECK(written.finished);
  CHECK(format.file_bytes(written.plan) <= options.recipe.target_bytes);
  CHECK(format.file_bytes(written.plan) > 0.95 * static_cast<double>(options.recipe.target_bytes));
  std::set<int> bits;
  for (const auto& [id, module] : written.modules) {
    CHECK(format.holds(module.plan));
    if (module.quantized) bits.insert(integers_of(module).format.bits);
    CHECK(module.quantized.has_value() == module.plan.is_quantized());
  }
  CHECK(bits == std::set<int>{5, 8});
  CHECK(report.divergence.has_value());
}

TEST_CASE("a writer gets every module of the plan by role, those of a block together") {
  const TemporaryDirectory directory;
  for (const char* golden : {"llama3", "gpt2", "qwen2"}) {
    CAPTURE(golden);
    Written written;
    ConvertOptions options = short_options("w8a16");
    options.recipe.linears = options.recipe.embedding = options.recipe.head = {.bits = 8, .group_size = 32};
    options.recipe.outlier_fraction = 0;
    convert_to(ToyFormat(written), open_golden(golden), directory / golden, options, {});
    CHECK(written.plan.size() == written.modules.size());
    const model::ModelSource source(golden_model(golden));
    CHECK(written.fused.size() == source.spec().layers.size());
    for (const ModulePlan& plan : written.plan) {
      CAPTURE(plan.name);
      const ConvertedModule& module = written.modules.at(plan.id);
      CHECK(plan.name == module.plan.name);
      CHECK(plan.rows == module.plan.rows);
      CHECK(plan.cols == module.plan.cols);
      CHECK(plan.bias == !module.bias.empty());
      if (module.quantized) {
        CHECK(integers_of(module).rows == plan.rows);
        CHECK(integers_of(module).cols == plan.cols);
      } else {
        CHECK(module.values.size() == plan.rows * plan.cols);
      }
    }
  }
}

TEST_CASE("features that the files cannot hold are refused before the work begins") {
  const TemporaryDirectory directory;
  Written written;
  ConvertOptions options = short_options("w4a16");
  const auto stage = [](std::string_view name, std::size_t, std::size_t) { FAIL("began with " << name); };
  CHECK(error_message([&] {
          convert_to(ToyFormat(written), open_golden("llama3"), directory / "out", options, stage);
        }) == Contains("cannot be stored as int"));
  options.recipe.linears = {.bits = 7, .group_size = 32};
  CHECK(error_message([&] { convert(golden_model("llama3"), directory / "out", options, stage); }) ==
        Contains("cannot be stored as int7-g32"));
  CHECK(written.plan.empty());
  CHECK(!fs::exists(directory / "out"));
}

/// Returns a block with all parts that a module may have.
std::vector<ConvertedModule> sample_modules() {
  WorkingBlock block;
  block.layer = 1;
  block.norms.push_back({.role = Role::kMlpNorm, .name = "norm", .gain = {1, 2, 3}, .bias = {4, 5, 6}});
  const auto add = [&](Role role, const char* name, const WeightFormat& format) {
    WorkingLinear& linear = block.linears.emplace_back();
    linear.part.role = role;
    linear.name = name;
    linear.rows = 2;
    linear.cols = 35;
    for (int i = 0; i < 70; ++i) linear.values.push_back(0.25F * static_cast<float>(i % 9 - 4));
    linear.absmax = 1;
    linear.format = format;
    return block.linears.size() - 1;
  };
  block.linears[add(Role::kUp, "up", {.bits = 5, .group_size = 32, .symmetric = false})].bias = {7, 8};
  block.linears.back().outlier_columns = {3, 34};
  block.linears[add(Role::kGate, "gate", {.bits = 4, .group_size = 32, .scale_bits = 8})].absmax = 1e6F;
  add(Role::kDown, "down", {.kind = WeightFormat::Kind::kBF16});
  block.vectors.push_back({.role = Role::kRouterCorrection, .name = "correction", .values = {9, 10}});
  quantize(block, Recipe::Rounding::kNearest);
  return take_modules(std::move(block), true);
}

std::map<std::string, std::string> files_with(const std::vector<ConvertedModule>& modules) {
  const TemporaryDirectory directory;
  const model::ModelSource source(golden_model("llama"));
  const Recipe recipe = test::fixed_recipe("w4a16");
  std::vector<ModulePlan> plan;
  for (const ConvertedModule& module : modules) plan.push_back(module.plan);
  const BallastFormat format(recipe);
  const auto writer = format.open(directory.path(), plan);
  writer->write(modules);
  const std::uint64_t bytes = writer->finish({.original = source.checkpoint(),
                                              .config = source.config(),
                                              .spec = source.spec(),
                                              .recipe = recipe,
                                              .prefix = {},
                                              .massive_tokens = {}});
  CHECK(bytes == fs::file_size(directory / "model.safetensors"));
  CHECK(bytes == format.file_bytes(plan));
  return test::files_of(directory.path());
}

TEST_CASE("ballast's files take the planned bytes") {
  const std::vector<ConvertedModule> modules = sample_modules();
  const BallastFormat format(test::fixed_recipe("w4a16"));
  CHECK(format.bytes(modules[0].plan) == 2 * 3 * 4);
  // The parts are codes, scales, zeros, outlier columns and weights, and the bias.
  CHECK(format.bytes(modules[1].plan) == 2 * 22 + 2 * 2 * 2 + 2 * 2 + 2 * 4 + 2 * 2 * 2 + 2 * 4);
  CHECK(format.bytes(modules[2].plan) == 2 * 18 + 2 * 2 + 2 * 2);
  CHECK(format.bytes(modules[3].plan) == 2 * 35 * 2);
  CHECK(format.bytes(modules[4].plan) == 2 * 4);
  CHECK(format.describe(modules[0].plan) == "F32");
  CHECK(format.describe(modules[1].plan) == "int5-g32-asym + 2 columns f16");
  CHECK(format.describe(modules[3].plan) == "bf16");
  files_with(modules);
}

TEST_CASE("a restored block is written like one that was not saved") {
  const std::vector<ConvertedModule> modules = sample_modules();
  const std::string saved = save_modules(modules);
  std::vector<ModulePlan> plan;
  for (const ConvertedModule& module : modules) {
    plan.push_back(module.plan);
    plan.back().half_type = DType::kF16;  // the type of a plan that has not seen the weights
    if (!plan.back().is_quantized()) plan.back().format.kind = WeightFormat::Kind::kF16;
  }
  CHECK(files_with(restore_modules(saved, plan)) == files_with(modules));
}

TEST_CASE("matrices in every kind of codes are restored to the last bit") {
  for (const WeightFormat& format :
       {parse_format("int5-g32-asym-s8"), affine_format(3, 64), block_format(DType::kQ4_K)}) {
    CAPTURE(format_name(format));
    WorkingBlock block;
    WorkingLinear& linear = block.linears.emplace_back();
    linear.name = "up";
    linear.rows = 3;
    linear.cols = 256;
    for (int i = 0; i < 3 * 256; ++i) linear.values.push_back(0.01F * static_cast<float>(i * i % 31 - 15));
    linear.absmax = 1;
    linear.format = format;
    quantize(block, Recipe::Rounding::kScaleSearch);
    const std::vector<ConvertedModule> modules = take_modules(std::move(block), false);
    const std::vector<ConvertedModule> restored = restore_modules(save_modules(modules), {modules.front().plan});
    const kernels::QuantizedMatrix before = modules.front().quantized->packed();
    const kernels::QuantizedMatrix after = restored.front().quantized->packed();
    std::vector<float> expected(256), row(256);
    for (std::size_t r = 0; r < 3; ++r) {
      before.decode_row(r, expected.data());
      after.decode_row(r, row.data());
      CHECK(row == expected);
    }
  }
}

TEST_CASE("a damaged saved block, or one of another job, is refused") {
  const std::vector<ConvertedModule> modules = sample_modules();
  const std::string saved = save_modules(modules);
  std::vector<ModulePlan> plan;
  for (const ConvertedModule& module : modules) plan.push_back(module.plan);
  const auto refusal = [&](const std::string& bytes, const std::vector<ModulePlan>& expected) {
    return error_message([&] { restore_modules(bytes, expected); });
  };
  const auto damaged = Contains("saved progress: a block is damaged and was dropped: give the command again");
  for (std::size_t size = 0; size < saved.size(); size += 7) CHECK(refusal(saved.substr(0, size), plan) == damaged);
  CHECK(refusal(saved + "x", plan) == damaged);
  std::vector<ModulePlan> other = plan;
  other[1].cols = 36;
  CHECK(refusal(saved, other) == damaged);
  other = plan;
  other.pop_back();
  CHECK(refusal(saved, other) == damaged);
  other = plan;
  other[0].bias = false;
  CHECK(refusal(saved, other) == damaged);
}

}  // namespace
}  // namespace ballast::quant
