// Conversion: a checkpoint and a recipe in, a directory with the converted model out.
#ifndef BALLAST_CONVERT_H_
#define BALLAST_CONVERT_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ballast/progress.h"
#include "ballast/recipe.h"

namespace ballast {

struct ConvertOptions {
  Recipe recipe = recipe_for_scheme("w8a8");
  std::optional<std::filesystem::path> statistics{};  ///< needed for outliers; absent: a short calibration runs first
  bool replace = false;                               ///< an existing output, once the new one is complete
};

/// Tensors that were treated alike.
struct TensorGroupReport {
  std::string name;    ///< "layers.*.mlp.down_proj"
  std::string format;  ///< "int8-g64 + 7 outlier columns in f16"
  std::size_t tensors = 0;
  std::uint64_t weights = 0;  ///< elements
  std::uint64_t bytes_before = 0;
  std::uint64_t bytes_after = 0;
};

struct ConvertReport {
  std::vector<std::string> notes;  ///< what each pass did, one line each
  std::vector<TensorGroupReport> groups;
  std::uint64_t bytes_before = 0;  ///< of the tensor files
  std::uint64_t bytes_after = 0;
  double bits_per_weight = 0;  ///< 8 * bytes_after / number of weights
};

/// Works block by block: one block's weights are in memory at a time. The directory appears under its name only when it
/// is complete. Same input, same bytes, for any number of threads. Throws Error.
ConvertReport convert(const std::filesystem::path& model, const std::filesystem::path& output,
                      const ConvertOptions& options, const Progress& progress = {});

/// The object that `ballast convert --json` prints.
std::string convert_report_json(const ConvertReport& report);

}  // namespace ballast

#endif  // BALLAST_CONVERT_H_
