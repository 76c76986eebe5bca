// Where the files of a converted model appear.
#ifndef BALLAST_QUANT_CONVERSION_MODEL_OUTPUT_H_
#define BALLAST_QUANT_CONVERSION_MODEL_OUTPUT_H_

#include <filesystem>

#include "files/atomic_output.h"
#include "quant/write/model_format.h"

namespace ballast::quant {

/// Throws Error where `output` is something that must not be replaced: that would cost somebody a directory that holds
/// something else.
void check_replaceable(const ModelFormat& format, const std::filesystem::path& output, bool replace);

/// A directory, or a single file, that appears under its name when it is complete.
class ModelOutput {
 public:
  /// Throws Error as files::AtomicDirectory does.
  ModelOutput(const ModelFormat& format, const std::filesystem::path& output, bool replace)
      : format_(format), directory_(output, replace) {}

  /// Where the format's writer writes.
  const std::filesystem::path& directory() const { return directory_.path(); }

  /// What is written there so far, as a model.
  std::filesystem::path model() const { return directory() / format_.file_name(); }

  void commit();

 private:
  const ModelFormat& format_;
  files::AtomicDirectory directory_;
};

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_CONVERSION_MODEL_OUTPUT_H_
