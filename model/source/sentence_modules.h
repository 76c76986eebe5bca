// The files beside a checkpoint that say how sentence-transformers makes vectors of texts with it.
#ifndef BALLAST_MODEL_SOURCE_SENTENCE_MODULES_H_
#define BALLAST_MODEL_SOURCE_SENTENCE_MODULES_H_

#include <cstddef>
#include <filesystem>
#include <optional>
#include <vector>

#include "ballast/spec.h"
#include "model/weights.h"

namespace ballast::model {

/// What modules.json in `directory` and the files that it names come to, for a model of `hidden_size`; empty without
/// that file. Throws Error for modules that do something else.
std::optional<TextVectorSpec> read_sentence_modules(const std::filesystem::path& directory, std::size_t hidden_size);

/// The files of a model with dense modules that say what is done, relative to its directory; none without any.
std::vector<std::filesystem::path> dense_module_files(const std::filesystem::path& directory,
                                                      const TextVectorSpec& spec);

/// A model's dense modules, in floats. Immutable: any number of threads may use it.
class TextDense {
 public:
  TextDense() = default;

  /// Reads the weights. Throws Error.
  TextDense(const std::filesystem::path& directory, const TextVectorSpec& spec, const ComputeOptions& compute);

  bool empty() const { return specs_.empty(); }

  /// Values of a vector that has passed all of them.
  std::size_t output_size(std::size_t hidden_size) const {
    return specs_.empty() ? hidden_size : specs_.back().outputs;
  }

  /// Turns a pooled vector into what follows it.
  void apply(std::vector<float>& vector) const;

 private:
  std::vector<TextDenseSpec> specs_;
  std::vector<Linear> linears_;
};

}  // namespace ballast::model

#endif  // BALLAST_MODEL_SOURCE_SENTENCE_MODULES_H_
