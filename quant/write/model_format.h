// The seam between converting a model and the files that it becomes.
#ifndef BALLAST_QUANT_WRITE_MODEL_FORMAT_H_
#define BALLAST_QUANT_WRITE_MODEL_FORMAT_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ballast/recipe.h"
#include "ballast/spec.h"
#include "files/checkpoint.h"
#include "quant/write/converted_module.h"

namespace ballast::quant {

/// What a converted model's files say besides its tensors.
struct ModelMetadata {
  const files::Checkpoint& original;  ///< whose tokenizer the model keeps
  const nlohmann::json& config;       ///< the original's, in Hugging Face's words
  const ModelSpec& spec;              ///< after all passes
  const Recipe& recipe;
  std::span<const int> prefix;                     ///< tokens before every sequence
  std::optional<std::vector<int>> massive_tokens;  ///< that calibration found; absent: nobody looked
};

/// Writes one model. What an ecosystem calls a tensor, in which order it keeps rows, and which matrices lie fused or
/// split in its files is known to its writer alone.
class ModelWriter {
 public:
  virtual ~ModelWriter() = default;

  /// All modules of a block, once, in the order of the plan; of the embeddings before the blocks and the head after
  /// them likewise. Throws Error when the disk is full or fails.
  virtual void write(std::span<const ConvertedModule> block) = 0;

  /// Completes the tensor files and adds all others, when every module of the plan was written. Returns the bytes of
  /// the tensor files.
  virtual std::uint64_t finish(const ModelMetadata& metadata) = 0;
};

/// A kind of files that models are written to: what they can hold, and what that takes. All answers come from plans, so
/// that formats can be chosen before anything is rounded. Thread-safe.
class ModelFormat {
 public:
  virtual ~ModelFormat() = default;

  /// The recipe without what these files have no place for, with formats that they hold. Throws Error where it asks for
  /// something that they cannot say and that cannot be left out.
  virtual Recipe fitting(const Recipe& recipe) const = 0;

  /// What a matrix whose format is free may become; of these, only what holds() says.
  virtual std::vector<WeightFormat> candidates() const = 0;

  /// Whether matrices that read the same input must have one format: who reads the files fuses them.
  virtual bool ties_formats() const { return false; }

  /// Whether the experts of a layer have one format for each role, because they lie in one tensor.
  virtual bool stacks_experts() const { return false; }

  /// What open() writes, where that is a single file that takes the output's name itself; empty: a directory.
  virtual std::string file_name() const { return {}; }

  /// Whether a module can be held as it is planned: its format, and columns in 16 bits if it has any.
  virtual bool holds(const ModulePlan& module) const = 0;

  /// The format in which these files have the same values as a module that is rounded already, or of floats, if nothing
  /// else stands in the way; none: there is none. Throws Error where they cannot say what its matrices read.
  virtual std::optional<WeightFormat> exact_format(const ModulePlan& module, bool /*int8_activations*/) const {
    if (!holds(module)) return {};
    return module.format;
  }

  /// Throws Error where the files cannot say modules beside each other that each can be held.
  virtual void check_together(std::span<const ModulePlan> /*model*/) const {}

  /// What the type of a module's weights is called: "int4-g32-asym + 7 columns f16".
  virtual std::string describe(const ModulePlan& module) const = 0;

  /// Bytes of a module's tensors. Each column in 16 bits takes as many as the next.
  virtual std::uint64_t bytes(const ModulePlan& module) const = 0;

  /// Bytes of all tensor files of a model: those of its modules, and of headers.
  virtual std::uint64_t file_bytes(std::span<const ModulePlan> model) const = 0;

  /// Begins to write the model into an existing directory. Throws Error.
  virtual std::unique_ptr<ModelWriter> open(const std::filesystem::path& directory,
                                            std::span<const ModulePlan> model) const = 0;
};

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_WRITE_MODEL_FORMAT_H_
