// Measures many recipes for one model, for choosing size and speed.
#ifndef BALLAST_SWEEP_H_
#define BALLAST_SWEEP_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/benchmark.h"
#include "ballast/calibrate.h"
#include "ballast/convert.h"
#include "ballast/evaluate.h"
#include "ballast/progress.h"
#include "ballast/ranks.h"

namespace ballast {

struct SweepRecipe {
  std::string name;             ///< unique in its sweep: "w8a8", "w4a16@92MB"
  ConvertOptions conversion{};  ///< with the sweep's statistics instead of its own
};

/// The scheme of a size that is named without one: its activations cost no accuracy.
inline constexpr std::string_view kSizedScheme = "w4a16";

/// Returns the recipe that a name describes: a scheme, or a scheme and the size of the tensor files, "w4a8@92MB".
/// `preset` gives the amount of work. Throws Error.
SweepRecipe sweep_recipe(std::string_view name, const Preset& preset);

/// Returns the recipe of a file, named like the file. The preset sets everything except the rounding. Throws Error.
SweepRecipe read_sweep_recipe(const std::filesystem::path& path, const Preset& preset);

/// Returns recipes for a model with `weights` weights, from 8 bits per weight to fewer than 5.
std::vector<SweepRecipe> default_sweep_recipes(std::uint64_t weights, const Preset& preset);

struct SweepOptions {
  std::vector<SweepRecipe> recipes{};
  std::filesystem::path text_file{};  ///< scored like evaluate()
  std::size_t context = 512;
  std::size_t chunks = 0;  ///< 0: all of the text

  std::optional<std::filesystem::path> statistics{};  ///< absent: one calibration for all recipes
  CalibrateOptions calibration{};                     ///< samples are shortened to the model's context
  ComputeOptions compute{};  ///< of every model that is loaded; replaces those in the options above and below

  std::optional<BenchmarkOptions> benchmark = BenchmarkOptions{};  ///< absent: speed is not measured
  bool keep_models = false;                                        ///< in DIRECTORY/models, under the recipes' names

  /// Ranks that share the samples of the calibration, then the recipes, then the chunks of each evaluation; null: one
  /// process. All must see the same directory. Speeds are measured by one process only.
  Ranks* ranks = nullptr;
};

/// The number of weights in a format, and their bytes.
struct SweepFormat {
  std::string name;  ///< "int4-g32-asym"
  std::uint64_t weights = 0;
  std::uint64_t bytes = 0;
};

struct SweepRow {
  std::string name;
  std::string recipe{};                ///< JSON
  std::vector<SweepFormat> formats{};  ///< the format with the most weights first
  std::optional<Evaluation> evaluation{};
  std::optional<Benchmark> benchmark{};
  std::string error{};  ///< why a result above is absent; empty if all went well
};

struct Sweep {
  std::string model;  ///< name of the directory or file
  std::uint64_t original_bytes = 0;
  double original_bits_per_weight = 0;
  std::string text{};         ///< name of the file
  std::string calibration{};  ///< "128 samples of 512 tokens of text.txt"
  std::size_t context = 0;
  std::string program{};         ///< version and build of the program
  std::vector<SweepRow> rows{};  ///< in the order of the recipes
};

/// Another program's quantization of the same model, measured elsewhere on the same text.
struct SweepPeer {
  std::string program;  ///< "llama.cpp"
  std::string name;     ///< "Q4_K_M"
  double file_mb = 0;   ///< 10^6 bytes
  double kl = 0;
  std::map<std::string, double> speeds{};  ///< tokens per second by test: "pp512"
};

/// Converts `model` by each recipe, compares the results with the original and measures their speed. `directory` stores
/// each result under a hash of everything that it depends on (the model's content, statistics, recipe, text, program),
/// so that the same call continues after an interruption, and one with another recipe measures only that; measured
/// speeds are kept. A recipe that fails has its message in its row, and the others continue. Throws Error for problems
/// that concern all recipes, and if `directory` holds other files. The result is the same on every rank.
Sweep sweep(const std::filesystem::path& model, const std::filesystem::path& directory, const SweepOptions& options,
            const Progress& progress = {});

/// Returns all results as one JSON object, without times, so that it can be compared.
std::string sweep_json(const Sweep& sweep);

/// Returns a line per recipe, with the columns that read_peers() needs.
std::string sweep_csv(const Sweep& sweep);

/// Reads CSV whose first line names the columns: `name`, `file_mb` and `kl`, and optionally `program` and speeds like
/// `pp512`. Other columns are ignored, and so are lines with an `error`. Throws Error naming the line.
std::vector<SweepPeer> read_peers(const std::filesystem::path& path);

}  // namespace ballast

#endif  // BALLAST_SWEEP_H_
