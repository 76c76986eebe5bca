// The folder of a sweep's results, so that no step is repeated.
#ifndef BALLAST_EVAL_SWEEP_SWEEP_FOLDER_H_
#define BALLAST_EVAL_SWEEP_SWEEP_FOLDER_H_

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "ballast/sweep.h"

namespace ballast::eval {

/// DIRECTORY/runs/KEY.json: the measurements of a recipe. models/NAME and calibration.stats: outputs, each with a file
/// NAME.key next to it when it is complete, which has the key of its inputs. reference/: the original's logits.
class SweepFolder {
 public:
  /// Creates the folders. Throws Error if `directory` is neither empty nor a sweep's, or cannot be written.
  explicit SweepFolder(std::filesystem::path directory);

  std::filesystem::path statistics() const { return directory_ / "calibration.stats"; }
  std::filesystem::path model(const std::string& recipe_name) const;
  std::filesystem::path reference() const { return directory_ / "reference"; }

  /// Removes files that are needed only until a sweep is complete, and the models unless they are kept.
  void clean(bool keep_models) const;

  /// Returns the row stored under the key, or nullopt. Throws Error if store() did not write the file.
  std::optional<SweepRow> load(const std::string& key) const;

  /// Stores everything but name and error. Written completely or not at all.
  void store(const std::string& key, const SweepRow& row) const;

  /// Returns whether `output` is complete and was made under `key`.
  bool holds(const std::filesystem::path& output, const std::string& key) const;

  /// Must be called before `output` is written, and complete() afterwards.
  void begin(const std::filesystem::path& output) const;
  void complete(const std::filesystem::path& output, const std::string& key) const;

  /// Removes an output with its key.
  void remove(const std::filesystem::path& output) const;

 private:
  std::filesystem::path run_file(const std::string& key) const { return directory_ / "runs" / (key + ".json"); }

  std::filesystem::path directory_;
};

}  // namespace ballast::eval

#endif  // BALLAST_EVAL_SWEEP_SWEEP_FOLDER_H_
