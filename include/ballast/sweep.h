// Many recipes for one model, each measured: what a choice of size and speed rests on.
#ifndef BALLAST_SWEEP_H_
#define BALLAST_SWEEP_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
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

struct SweepOptions {
  std::vector<SweepRecipe> recipes{};
  std::filesystem::path text_file{};  ///< scored as by evaluate()
  std::size_t context = 512;
  std::size_t chunks = 0;  ///< 0: all of the text

  std::optional<std::filesystem::path> statistics{};  ///< absent: one calibration, made for all recipes
  CalibrateOptions calibration{};                     ///< samples are shortened to what the model can read

  std::optional<BenchmarkOptions> benchmark = BenchmarkOptions{};  ///< absent: speed is not measured
  bool keep_models = false;                                        ///< in DIRECTORY/models, under the recipes' names

  /// That share the samples of the calibration, then the recipes, then the chunks of each evaluation; null: this
  /// process does it alone. All must see the same directory. Speeds are measured by one process only.
  Ranks* ranks = nullptr;
};

/// How many of a model's weights are stored in a format, and what they take.
struct SweepFormat {
  std::string name;  ///< "int4-g32-asym"
  std::uint64_t weights = 0;
  std::uint64_t bytes = 0;
};

struct SweepRow {
  std::string name;
  std::string recipe{};                ///< JSON
  std::vector<SweepFormat> formats{};  ///< the most weights first
  std::optional<Evaluation> evaluation{};
  std::optional<Benchmark> benchmark{};
  std::string error{};  ///< why what is absent above is absent; empty when all went well
};

struct Sweep {
  std::string model;  ///< name of the directory or file
  std::uint64_t original_bytes = 0;
  double original_bits_per_weight = 0;
  std::string text{};         ///< name of the file
  std::string calibration{};  ///< "128 samples of 512 tokens of text.txt"
  std::size_t context = 0;
  std::string program{};         ///< version and build that measured
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

/// Converts `model` by each recipe, compares what comes out with the original and times it. `directory` keeps each
/// result under a key made of everything that it depends on (the model's content, statistics, recipe, text, program),
/// so that the same call continues where it was stopped, and one with another recipe measures only that; speeds once
/// measured are kept. A recipe that fails leaves its message in its row and the others go on. Throws Error for what
/// concerns all of them, and when `directory` holds something else. The same on every rank.
Sweep sweep(const std::filesystem::path& model, const std::filesystem::path& directory, const SweepOptions& options,
            const Progress& progress = {});

/// Everything, as one JSON object; times that the work took are left out, so that it can be compared.
std::string sweep_json(const Sweep& sweep);

/// A line per recipe, with the columns that read_peers() wants.
std::string sweep_csv(const Sweep& sweep);

/// Reads CSV whose first line names the columns: `name`, `file_mb` and `kl`, and where they are known `program` and
/// speeds like `pp512`; other columns are passed over, and so are lines that tell an `error`. Throws Error naming the
/// line.
std::vector<SweepPeer> read_peers(const std::filesystem::path& path);

}  // namespace ballast

#endif  // BALLAST_SWEEP_H_
