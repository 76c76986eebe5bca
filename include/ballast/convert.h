// Conversion: a checkpoint and a recipe in, a directory with the converted model out, and from there to others' files.
#ifndef BALLAST_CONVERT_H_
#define BALLAST_CONVERT_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/calibrate.h"
#include "ballast/progress.h"
#include "ballast/recipe.h"

namespace ballast {

/// Whose files a conversion writes.
enum class OutputFormat { kBallast, kGguf, kCompressedTensors, kMlx, kAwq, kGptq };

/// "ballast", "gguf", "compressed-tensors", "mlx", "awq", "gptq"; all of them, and back. Throws Error listing what
/// there is.
std::string_view output_format_name(OutputFormat format);
std::vector<std::string> output_format_names();
OutputFormat parse_output_format(std::string_view name);

/// What rounding each matrix of a model costs in each format, as one conversion finds it and the next may use it: those
/// that differ in size alone. Of one thread.
class FormatCosts;
std::shared_ptr<FormatCosts> make_format_costs();

struct ConvertOptions {
  Recipe recipe = recipe_for_scheme("w8a8");

  /// What these files have no place for is left out of the recipe before anything is rounded.
  OutputFormat output_format = OutputFormat::kBallast;

  /// Of `calibrate`; absent: one with `calibration` runs first, where the recipe needs any.
  std::optional<std::filesystem::path> statistics{};

  /// Of its samples, or the statistics' samples, at most so many run through the model while it is rounded. Its ranks
  /// share the work, its callbacks are told of the calibration and of what comes after it; its state folder is not
  /// used.
  CalibrateOptions calibration{.samples = 32};
  std::size_t probe_samples = 1;                ///< on which allocation measures what rounding each matrix costs
  std::shared_ptr<FormatCosts> format_costs{};  ///< null: this conversion's own

  /// Same bytes for any number of ranks, for some more memory.
  bool deterministic = false;

  bool replace = false;  ///< an existing output, once the new one is complete
};

/// How much work goes into a conversion, by name.
struct Preset {
  std::string name;         ///< "balanced"
  std::string description;  ///< what it does and what it costs
  Recipe::Rounding rounding = Recipe::Rounding::kGptq;
  std::size_t samples = 0;
  std::size_t length = 0;  ///< of the samples, in tokens
  std::size_t probe_samples = 0;
};

/// The quickest first.
const std::vector<Preset>& presets();

/// Throws Error listing what there is.
const Preset& preset_by_name(std::string_view name);

/// Recipes that keep floats are not changed.
void apply_preset(const Preset& preset, ConvertOptions& options);

/// Tensors that were treated alike.
struct TensorGroupReport {
  std::string name;                 ///< "layers.*.mlp.down_proj"
  std::string format;               ///< "int8-g64 + 7 columns f16"
  std::size_t outlier_columns = 0;  ///< of each, in 16 bits
  std::size_t tensors = 0;
  std::uint64_t weights = 0;  ///< elements
  std::uint64_t bytes_before = 0;
  std::uint64_t bytes_after = 0;
  // With a target size:
  double cost = 0;       ///< divergence expected from its rounding, nats per token
  double next_gain = 0;  ///< how much of it a further byte for one of them would save
};

struct ConvertReport {
  std::vector<std::string> notes;  ///< what each pass did, one line each
  std::vector<TensorGroupReport> groups;
  std::uint64_t bytes_before = 0;  ///< of the tensor files
  std::uint64_t bytes_after = 0;
  double bits_per_weight = 0;        ///< 8 * bytes_after / number of weights
  std::optional<double> divergence;  ///< that rounding is expected to cost, when there was a target size
};

/// Works block by block: one block's weights are in memory at a time. The directory appears under its name only when it
/// is complete. What is done is kept beside it (".NAME.resume") until then, so that the same call goes on after a kill
/// and gives the same bytes. Same input, same bytes, for any number of threads. Throws Error.
ConvertReport convert(const std::filesystem::path& model, const std::filesystem::path& output,
                      const ConvertOptions& options, const Progress& progress = {});

struct ExportOptions {
  OutputFormat output_format = OutputFormat::kGguf;  ///< any but kBallast
  bool replace = false;                              ///< an existing output, once the new one is complete
};

/// A model that ballast wrote, in the files of another program. Nothing is rounded: what these files have no exact
/// place for is refused, and what was written is read again and compared before it appears under its name. Throws
/// Error.
ConvertReport export_model(const std::filesystem::path& model, const std::filesystem::path& output,
                           const ExportOptions& options, const Progress& progress = {});

/// What a conversion will make and take, as far as that is known before it begins.
struct ConvertPlan {
  /// Tensors that will be treated alike. With a target size formats are chosen while converting: then there are a
  /// smallest and a largest one.
  struct Group {
    std::string name;    ///< "layers.*.mlp.down_proj"
    std::string format;  ///< "int8-g64", "nl4-g128-s8 to int8-g32-s8"
    std::size_t tensors = 0;
    std::uint64_t weights = 0;  ///< elements
    std::uint64_t bytes_before = 0;
    std::uint64_t least_bytes = 0;
    std::uint64_t most_bytes = 0;
  };
  std::vector<Group> groups;
  std::uint64_t bytes_before = 0;  ///< of the tensor files
  std::uint64_t least_bytes = 0;   ///< a header may take a few bytes more
  std::uint64_t most_bytes = 0;
  bool calibrates = false;     ///< a calibration comes first, which tells its own plan
  std::optional<JobPlan> job;  ///< where samples run through the model while it is converted
};

/// The plan of `convert` with these options, from the shapes of the model and some of its norms' gains: that takes
/// a moment for any model. Throws Error where convert() would before it begins.
ConvertPlan plan_conversion(const std::filesystem::path& model, const ConvertOptions& options);

/// The objects that `ballast convert --json` prints, without and with --dry-run.
std::string convert_report_json(const ConvertReport& report);
std::string convert_plan_json(const ConvertPlan& plan);

}  // namespace ballast

#endif  // BALLAST_CONVERT_H_
