#include "ballast/convert.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "ballast/calibrate.h"
#include "ballast/error.h"
#include "kernels/float_matrix.h"
#include "model/checkpoint/safetensors_writer.h"
#include "model/model.h"
#include "model/model_source.h"
#include "model/quantized_tensor.h"
#include "model/tensor_groups.h"
#include "model/tokenizer/tokenizer.h"
#include "model/tokenizer/tokenizer_check.h"
#include "model/written_spec.h"
#include "quant/passes.h"
#include "quant/working_block.h"

namespace ballast {

namespace {

using model::QuantizedPart;
using model::TensorPlan;
using nlohmann::json;
using quant::WorkingBlock;
using quant::WorkingLinear;
using quant::WorkingNorm;
using quant::WorkingVector;

// What travels beside the weights when it exists.
constexpr std::array kCompanions = {"tokenizer.json",
                                    "tokenizer_config.json",
                                    "special_tokens_map.json",
                                    "chat_template.jinja",
                                    "generation_config.json",
                                    "vocab.json",
                                    "merges.txt",
                                    "added_tokens.json",
                                    "tokenizer.model",
                                    "vocab.txt"};

// A calibration that finds the outlier channels of a model whose user gave no statistics: on SmolLM2-135M the channels
// it picks give the same KL as those of 128 samples within 5 %.
constexpr std::size_t kOwnSamples = 16;
constexpr std::size_t kOwnLength = 256;

DType dtype_of(WeightFormat::Kind kind) {
  switch (kind) {
    case WeightFormat::Kind::kF16:
      return DType::kF16;
    case WeightFormat::Kind::kBF16:
      return DType::kBF16;
    default:
      return DType::kF32;
  }
}

/// Values in the type in which they are stored.
std::vector<std::byte> encode(std::span<const float> values, DType dtype) {
  std::vector<std::byte> bytes(values.size() * dtype_info(dtype).block_bytes);
  const kernels::FloatType type = dtype == DType::kF16    ? kernels::FloatType::kF16
                                  : dtype == DType::kBF16 ? kernels::FloatType::kBF16
                                                          : kernels::FloatType::kF32;
  kernels::from_float(values.data(), values.size(), type, bytes.data());
  return bytes;
}

Shape matrix_shape(const WorkingLinear& linear) {
  return {static_cast<std::int64_t>(linear.rows), static_cast<std::int64_t>(linear.cols)};
}

class Conversion {
 public:
  Conversion(const std::filesystem::path& model, const ConvertOptions& options, const Progress& progress)
      : model_(model), options_(options), progress_(progress), source_(model) {
    if (source_.quantization()) {
      throw Error(model.string(), "is quantized already; convert the original instead, rounding twice loses accuracy");
    }
  }

  ConvertReport run(const std::filesystem::path& output) {
    check_tokenizer();
    check_replaceable(output);
    model::AtomicDirectory directory(output, options_.replace);
    load_statistics_if_needed();
    const quant::WorkingBlockLoader loader(source_, statistics_ ? &*statistics_ : nullptr, options_.recipe.untie_head);

    std::vector<TensorPlan> plan;
    for_each_block(loader, false, "planning", [&](const WorkingBlock& block) { plan_block(block, plan); });
    model::SafetensorsWriter writer(directory.path(), std::move(plan), {{"format", "pt"}});
    const auto passes =
        for_each_block(loader, true, "converting", [&](const WorkingBlock& block) { write_block(block, writer); });
    writer.finish();
    write_companions(directory.path());
    directory.commit();

    ConvertReport report;
    report.groups = groups_.finish();
    if (unties_head()) report.notes.push_back(untied_head_note(report.groups));
    for (const auto& pass : passes) report.notes.push_back(pass->note());
    report.bytes_before = source_.checkpoint().file_bytes();
    report.bytes_after = writer.file_bytes();
    std::uint64_t weights = 0;
    for (const TensorGroupReport& group : report.groups) weights += group.weights;
    report.bits_per_weight = 8.0 * static_cast<double>(report.bytes_after) / static_cast<double>(weights);
    return report;
  }

 private:
  bool unties_head() const { return options_.recipe.untie_head && source_.spec().tied_embeddings; }

  std::string untied_head_note(const std::vector<TensorGroupReport>& groups) const {
    const auto head = std::ranges::find(groups, source_.name(model::Role::kHead), &TensorGroupReport::name);
    return "untie_head: the head is a matrix of its own now and takes " + std::to_string(head->bytes_after) +
           " bytes more";
  }

  // Replacing must not cost anybody a directory that holds something else.
  void check_replaceable(const std::filesystem::path& output) const {
    if (!options_.replace || !std::filesystem::exists(output)) return;
    if (std::filesystem::is_directory(output) &&
        (std::filesystem::is_empty(output) || std::filesystem::exists(output / "recipe.json"))) {
      return;
    }
    throw Error(output.string(), "is not a model that ballast wrote: it is not replaced, choose another name");
  }

  // A tokenizer that does not belong to the embedding would give a model that talks nonsense without any error.
  void check_tokenizer() const {
    const auto tokenizer = model::load_tokenizer(source_.checkpoint());
    if (tokenizer == nullptr) return;  // tiny test models have none
    model::check_tokenizer(*tokenizer, source_.spec().vocab_size, source_.config(), model_.string());
  }

  void load_statistics_if_needed() {
    if (options_.statistics) {
      statistics_ = load_statistics(*options_.statistics);
    } else if (options_.recipe.outlier_fraction > 0) {
      CalibrateOptions own;
      own.samples = kOwnSamples;
      own.length = std::min(kOwnLength, source_.spec().context_length);
      statistics_ = calibrate(model_, own, progress_);
    }
  }

  // Runs fresh passes over all blocks, one in memory at a time, and returns them for their notes.
  template <typename Visit>
  std::vector<std::unique_ptr<quant::Pass>> for_each_block(const quant::WorkingBlockLoader& loader, bool values,
                                                           std::string_view stage, const Visit& visit) {
    quant::FormatChooser formats(options_.recipe, source_.spec());
    written_spec_ = source_.spec();
    if (unties_head()) written_spec_.tied_embeddings = false;
    auto passes = quant::make_passes(options_.recipe, written_spec_);
    for (std::size_t i = 0; i < loader.count(); ++i) {
      WorkingBlock block = loader.load(i, values);
      formats.choose(block);
      for (const auto& pass : passes) pass->run(block);
      visit(block);
      if (i > 0 && i <= source_.spec().layers) source_.release_block(i - 1);
      if (progress_) progress_(stage, i + 1, loader.count());
    }
    formats.check_exceptions();
    return passes;
  }

  // Norms and biases are few and sensitive: they keep 32 bits beside integers.
  DType small_type() const { return dtype_of(options_.recipe.linears.kind); }

  static TensorPlan vector_plan(const std::string& name, const std::vector<float>& values, DType dtype) {
    return {name, dtype, {static_cast<std::int64_t>(values.size())}};
  }

  void plan_block(const WorkingBlock& block, std::vector<TensorPlan>& plan) const {
    for (const WorkingNorm& norm : block.norms) {
      plan.push_back(vector_plan(model::tensor_name(norm.name, "weight"), norm.gain, small_type()));
      if (written_spec_.norm.bias && !norm.bias.empty()) {
        plan.push_back(vector_plan(model::tensor_name(norm.name, "bias"), norm.bias, small_type()));
      }
    }
    for (const WorkingLinear& linear : block.linears) {
      if (linear.quantized) {
        for (const QuantizedPart& part : model::quantized_parts(linear.name, linear.quantized->view())) {
          plan.push_back(part.plan);
        }
      } else {
        plan.push_back({linear.name + ".weight", dtype_of(linear.format.kind), matrix_shape(linear)});
      }
      if (!linear.bias.empty()) plan.push_back(vector_plan(linear.name + ".bias", linear.bias, small_type()));
    }
    for (const WorkingVector& vector : block.vectors) {
      plan.push_back(vector_plan(vector.name, vector.values, small_type()));
    }
  }

  void write_block(const WorkingBlock& block, model::SafetensorsWriter& writer) {
    for (const WorkingNorm& norm : block.norms) {
      std::uint64_t bytes = write_floats(writer, model::tensor_name(norm.name, "weight"), norm.gain, small_type());
      std::size_t weights = norm.gain.size();
      if (written_spec_.norm.bias && !norm.bias.empty()) {
        bytes += write_floats(writer, model::tensor_name(norm.name, "bias"), norm.bias, small_type());
        weights += norm.bias.size();
      }
      report_small(norm.name, weights, norm.bytes_before, bytes);
    }
    for (const WorkingLinear& linear : block.linears) write_linear(linear, writer);
    for (const WorkingVector& vector : block.vectors) {
      const std::uint64_t bytes = write_floats(writer, vector.name, vector.values, small_type());
      report_small(vector.name, vector.values.size(), vector.bytes_before, bytes);
    }
  }

  void report_small(const std::string& name, std::size_t weights, std::uint64_t before, std::uint64_t after) {
    report_tensor({.name = name,
                   .format = std::string(dtype_info(small_type()).name),
                   .tensors = 1,
                   .weights = weights,
                   .bytes_before = before,
                   .bytes_after = after});
  }

  void report_tensor(TensorGroupReport row) {
    groups_.add(
        std::move(row), [](const auto& a, const auto& b) { return a.format == b.format; },
        [](TensorGroupReport& group, const TensorGroupReport& tensor) {
          group.weights += tensor.weights;
          group.bytes_before += tensor.bytes_before;
          group.bytes_after += tensor.bytes_after;
        });
  }

  void write_linear(const WorkingLinear& linear, model::SafetensorsWriter& writer) {
    std::uint64_t bytes = 0;
    std::string format = format_name(linear.format);
    if (linear.quantized) {
      for (const QuantizedPart& part : model::quantized_parts(linear.name, linear.quantized->view())) {
        writer.write(part.plan.name, part.bytes);
        bytes += part.bytes.size();
      }
      formats_[linear.name] = format;
      if (const std::size_t outliers = linear.outlier_columns.size(); outliers > 0) {
        format += " + " + std::to_string(outliers) + " columns " +
                  (linear.quantized->outlier_type == DType::kF16 ? "f16" : "bf16");
      }
    } else {
      bytes += write_floats(writer, linear.name + ".weight", linear.values, dtype_of(linear.format.kind));
    }
    if (!linear.bias.empty()) bytes += write_floats(writer, linear.name + ".bias", linear.bias, small_type());
    report_tensor({.name = linear.name,
                   .format = format,
                   .tensors = 1,
                   .weights = linear.rows * linear.cols,
                   .bytes_before = linear.bytes_before,
                   .bytes_after = bytes});
  }

  static std::uint64_t write_floats(model::SafetensorsWriter& writer, const std::string& name,
                                    std::span<const float> values, DType dtype) {
    if (dtype == DType::kF32) {
      writer.write(name, std::as_bytes(values));
      return values.size_bytes();
    }
    const std::vector<std::byte> bytes = encode(values, dtype);
    writer.write(name, bytes);
    return bytes.size();
  }

  void write_companions(const std::filesystem::path& directory) const {
    json config = source_.config();
    config.erase("torch_dtype");
    config["dtype"] = small_type() == DType::kBF16 ? "bfloat16" : small_type() == DType::kF16 ? "float16" : "float32";
    config["tie_word_embeddings"] = written_spec_.tied_embeddings;
    config[model::kWrittenSpecField] = model::written_spec(written_spec_);
    if (statistics_) {
      json massive = json::array();
      for (const MassiveToken& token : statistics_->massive_tokens) massive.push_back(token.token);
      config[model::kWrittenSpecField][model::kMassiveTokensField] = massive;
    }
    if (!formats_.empty()) {
      config["quantization_config"] = {
          {"quant_method", "ballast"},
          {"version", model::kQuantizationVersion},
          {"activations", options_.recipe.activations == Recipe::Activations::kInt8 ? "int8" : "float"},
          {"activation_groups", options_.recipe.activation_groups},
          {"tensors", formats_}};
    }
    model::write_file_atomically(directory / "config.json", config.dump(2) + "\n", false);
    model::write_file_atomically(directory / "recipe.json", recipe_json(options_.recipe), false);
    if (source_.checkpoint().kind() == model::Checkpoint::Kind::kGguf) {
      const auto tokenizer = model::load_tokenizer(source_.checkpoint());
      if (tokenizer == nullptr) return;
      for (const model::TokenizerFile& file : tokenizer->files()) {
        model::write_file_atomically(directory / file.name, file.content, false);
      }
      return;
    }
    for (const char* name : kCompanions) {
      std::error_code error;
      if (!std::filesystem::exists(model_ / name)) continue;
      std::filesystem::copy_file(model_ / name, directory / name, error);
      if (error) throw Error((directory / name).string(), error.message());
    }
  }

  std::filesystem::path model_;
  const ConvertOptions& options_;
  const Progress& progress_;
  model::ModelSource source_;
  std::optional<Statistics> statistics_;
  ModelSpec written_spec_;  ///< behind all passes
  std::map<std::string, std::string> formats_;
  model::GroupedTensors<TensorGroupReport> groups_;
};

}  // namespace

ConvertReport convert(const std::filesystem::path& model, const std::filesystem::path& output,
                      const ConvertOptions& options, const Progress& progress) {
  return Conversion(model, options, progress).run(output);
}

std::string convert_report_json(const ConvertReport& report) {
  json groups = json::array();
  for (const TensorGroupReport& group : report.groups) {
    groups.push_back({{"name", group.name},
                      {"format", group.format},
                      {"tensors", group.tensors},
                      {"weights", group.weights},
                      {"bytes_before", group.bytes_before},
                      {"bytes_after", group.bytes_after}});
  }
  return json{{"notes", report.notes},
              {"groups", groups},
              {"bytes_before", report.bytes_before},
              {"bytes_after", report.bytes_after},
              {"bits_per_weight", report.bits_per_weight}}
      .dump();
}

}  // namespace ballast
