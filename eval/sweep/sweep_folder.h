// Where a sweep keeps what it has done, so that no step is done twice.
#ifndef BALLAST_EVAL_SWEEP_SWEEP_FOLDER_H_
#define BALLAST_EVAL_SWEEP_SWEEP_FOLDER_H_

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "ballast/sweep.h"

namespace ballast::eval {

/// DIRECTORY/runs/KEY.json: what was measured of a recipe. models/NAME and calibration.stats: outputs, each with a file
/// NAME.key beside it once it is complete, which says what it was made from. reference/: the original's logits.
class SweepFolder {
 public:
  /// Makes the folders. Throws Error when `directory` is not empty and not a sweep's, or cannot be written.
  explicit SweepFolder(std::filesystem::path directory);

  std::filesystem::path statistics() const { return directory_ / "calibration.stats"; }
  std::filesystem::path model(const std::string& recipe_name) const;
  std::filesystem::path reference() const { return directory_ / "reference"; }

  /// Removes what only a sweep that is not complete needs, and the models unless they are to be kept.
  void clean(bool keep_models) const;

  /// Absent when nothing was stored under the key. Throws Error when the file is not what store() writes.
  std::optional<SweepRow> load(const std::string& key) const;

  /// Everything but name and error. Written whole or not at all.
  void store(const std::string& key, const SweepRow& row) const;

  /// Whether `output` is complete and was made under `key`.
  bool holds(const std::filesystem::path& output, const std::string& key) const;

  /// To be called before `output` is written and after it is complete.
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
