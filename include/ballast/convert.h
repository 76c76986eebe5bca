// Conversion: turns a checkpoint and a recipe into a directory with the converted model, and exports it to other
// programs' files.
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

/// The program whose files a conversion writes.
enum class OutputFormat { kBallast, kGguf, kCompressedTensors, kMlx, kAwq, kGptq };

/// Return "ballast", "gguf", "compressed-tensors", "mlx", "awq", "gptq"; all of them; and the format of a name. Throw
/// Error listing the names.
std::string_view output_format_name(OutputFormat format);
std::vector<std::string> output_format_names();
OutputFormat parse_output_format(std::string_view name);

/// The costs of rounding each matrix of a model in each format, which one conversion measures and others that differ
/// only in size can reuse. One thread at a time.
class FormatCosts;
std::shared_ptr<FormatCosts> make_format_costs();

struct ConvertOptions {
  Recipe recipe = recipe_for_scheme("w8a8");

  /// Features of the recipe that these files cannot hold are left out before rounding.
  OutputFormat output_format = OutputFormat::kBallast;

  /// Output of `calibrate`; absent: if the recipe needs statistics, a calibration with `calibration` runs first.
  std::optional<std::filesystem::path> statistics{};

  /// At most this many of its samples, or of the statistics' samples, run through the model during rounding. Its ranks
  /// share the work; its `compute` applies to both; its callbacks are called for the calibration and for the
  /// conversion; its state folder is not used.
  CalibrateOptions calibration{.samples = 32};
  std::size_t probe_samples = 1;  ///< samples on which the allocation measures the cost of rounding each matrix
  std::shared_ptr<FormatCosts> format_costs{};  ///< null: measured by this conversion only

  /// Gives the same bytes for any number of ranks, with somewhat more memory.
  bool deterministic = false;

  bool replace = false;  ///< replaces an existing output when the new one is complete
};

/// A named amount of work for a conversion.
struct Preset {
  std::string name;         ///< "balanced"
  std::string description;  ///< its methods and its cost
  Recipe::Rounding rounding = Recipe::Rounding::kGptq;
  std::size_t samples = 0;
  std::size_t length = 0;  ///< of the samples, in tokens
  std::size_t probe_samples = 0;
};

/// Returns the presets, the fastest first.
const std::vector<Preset>& presets();

/// Throws Error listing the presets.
const Preset& preset_by_name(std::string_view name);

/// Sets the options of a preset. Recipes that keep floats are not changed.
void apply_preset(const Preset& preset, ConvertOptions& options);

/// A group of tensors with the same treatment.
struct TensorGroupReport {
  std::string name;                 ///< "layers.*.mlp.down_proj"
  std::string format;               ///< "int8-g64 + 7 columns f16"
  std::size_t outlier_columns = 0;  ///< of each tensor, in 16 bits
  std::size_t tensors = 0;
  std::uint64_t weights = 0;  ///< elements
  std::uint64_t bytes_before = 0;
  std::uint64_t bytes_after = 0;
  // Set if there is a target size:
  double cost = 0;       ///< expected divergence caused by its rounding, nats per token
  double next_gain = 0;  ///< the part of it that one more byte would save
};

struct ConvertReport {
  std::vector<std::string> notes;  ///< one line about each pass
  std::vector<TensorGroupReport> groups;
  std::uint64_t bytes_before = 0;  ///< of the tensor files
  std::uint64_t bytes_after = 0;
  double bits_per_weight = 0;        ///< 8 * bytes_after / number of weights
  std::optional<double> divergence;  ///< expected divergence caused by rounding, if there was a target size
};

/// Converts a model block by block: one block's weights are in memory at a time. The directory gets its name only when
/// it is complete. Until then progress is stored next to it (".NAME.resume"), with which the same call continues after
/// a kill and gives the same bytes. The same input gives the same bytes for any number of threads. Throws Error.
ConvertReport convert(const std::filesystem::path& model, const std::filesystem::path& output,
                      const ConvertOptions& options, const Progress& progress = {});

struct ExportOptions {
  OutputFormat output_format = OutputFormat::kGguf;  ///< any but kBallast
  bool replace = false;                              ///< replaces an existing output when the new one is complete
};

/// Writes a model that ballast wrote as files of another program, without rounding: features that these files cannot
/// hold exactly are refused, and the written files are read again and compared before they get their name. Throws
/// Error.
ConvertReport export_model(const std::filesystem::path& model, const std::filesystem::path& output,
                           const ExportOptions& options, const Progress& progress = {});

/// The expected result and cost of a conversion, as far as known before it begins.
struct ConvertPlan {
  /// A group of tensors with the same treatment. With a target size, formats are chosen during the conversion: then
  /// there are a smallest and a largest format.
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
  std::uint64_t least_bytes = 0;   ///< a header may need a few more bytes
  std::uint64_t most_bytes = 0;
  bool calibrates = false;     ///< a calibration comes first and reports its own plan
  std::optional<JobPlan> job;  ///< set if samples run through the model during the conversion
};

/// Plans `convert` with these options, from the shapes of the model and some of its norms' gains, in a moment for any
/// model. Throws Error if convert() would before it begins.
ConvertPlan plan_conversion(const std::filesystem::path& model, const ConvertOptions& options);

/// Return the objects that `ballast convert --json` prints, without and with --dry-run.
std::string convert_report_json(const ConvertReport& report);
std::string convert_plan_json(const ConvertPlan& plan);

}  // namespace ballast

#endif  // BALLAST_CONVERT_H_
