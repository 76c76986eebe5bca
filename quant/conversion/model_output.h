// The destination of a converted model's files.
#ifndef BALLAST_QUANT_CONVERSION_MODEL_OUTPUT_H_
#define BALLAST_QUANT_CONVERSION_MODEL_OUTPUT_H_

#include <filesystem>

#include "files/atomic_output.h"
#include "quant/write/model_format.h"

namespace ballast::quant {

/// Throws Error if `output` must not be replaced, because it is a directory with other contents.
void check_replaceable(const ModelFormat& format, const std::filesystem::path& output, bool replace);

/// A directory, or a single file, that gets its name when it is complete.
class ModelOutput {
 public:
  /// Throws Error as files::AtomicDirectory does.
  ModelOutput(const ModelFormat& format, const std::filesystem::path& output, bool replace)
      : format_(format), directory_(output, replace) {}

  /// Returns the directory for the format's writer.
  const std::filesystem::path& directory() const { return directory_.path(); }

  /// Returns the path under which the files so far can be read as a model.
  std::filesystem::path model() const { return directory() / format_.file_name(); }

  void commit();

 private:
  const ModelFormat& format_;
  files::AtomicDirectory directory_;
};

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_CONVERSION_MODEL_OUTPUT_H_
