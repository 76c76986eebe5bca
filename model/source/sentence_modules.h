// The files beside a checkpoint that define how sentence-transformers computes vectors of texts with it.
#ifndef BALLAST_MODEL_SOURCE_SENTENCE_MODULES_H_
#define BALLAST_MODEL_SOURCE_SENTENCE_MODULES_H_

#include <cstddef>
#include <filesystem>
#include <optional>
#include <vector>

#include "ballast/spec.h"
#include "files/json_reader.h"
#include "model/block/weights.h"

namespace ballast::model {

/// Reads modules.json in `directory` and the files that it names, for a model of `hidden_size`. Returns nullopt if
/// there is no such file. Throws Error for modules that compute something else.
std::optional<TextVectorSpec> read_sentence_modules(const std::filesystem::path& directory, std::size_t hidden_size);

/// Returns the function of the scores of a CrossEncoder, if config_sentence_transformers.json in `directory` names it.
std::optional<ClassifierSpec::Function> read_cross_encoder_function(const std::filesystem::path& directory);

/// Reads a reranker that is a decoder: modules.json in `directory` names LogitScore. Nullopt: it does not. Throws Error
/// for a token that is not in the vocabulary, and if the configuration gives templates what is not supported.
std::optional<ClassifierSpec> read_token_classifier(const std::filesystem::path& directory, const ModelSpec& spec);

/// Throws Error for arguments of a chat template (TokenScoreSpec::template_arguments) that have wrong types.
void check_template_arguments(const files::JsonReader& arguments);

/// Returns the files that define the modules of a model with dense modules, relative to its directory; empty for a
/// model without dense modules.
std::vector<std::filesystem::path> dense_module_files(const std::filesystem::path& directory,
                                                      const TextVectorSpec& spec);

/// The dense modules of a model, with weights in floats. Immutable: any number of threads may use it.
class TextDense {
 public:
  TextDense() = default;

  /// Reads the weights. Throws Error.
  TextDense(const std::filesystem::path& directory, const TextVectorSpec& spec, const ComputeOptions& compute);

  bool empty() const { return specs_.empty(); }

  /// Returns the size of a vector after all modules.
  std::size_t output_size(std::size_t hidden_size) const {
    return specs_.empty() ? hidden_size : specs_.back().outputs;
  }

  /// Applies all modules to a pooled vector.
  void apply(std::vector<float>& vector) const;

 private:
  std::vector<TextDenseSpec> specs_;
  std::vector<Linear> linears_;
};

}  // namespace ballast::model

#endif  // BALLAST_MODEL_SOURCE_SENTENCE_MODULES_H_
