// The interface between the conversion of a model and its output files.
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

/// The contents of a converted model's files other than its tensors.
struct ModelMetadata {
  const files::Checkpoint& original;  ///< the source of the model's tokenizer
  const nlohmann::json& config;       ///< the original's, in Hugging Face's words
  const ModelSpec& spec;              ///< after all passes
  const Recipe& recipe;
  std::span<const int> prefix;                     ///< tokens before every sequence
  std::optional<std::vector<int>> massive_tokens;  ///< found by calibration; absent: not searched
};

/// Writes one model. Only the writer knows an ecosystem's names of tensors, its order of rows, and which matrices are
/// fused or split in its files.
class ModelWriter {
 public:
  virtual ~ModelWriter() = default;

  /// Writes all modules of a block, once, in the order of the plan; the embeddings before the blocks and the head after
  /// them in the same way. Throws Error if the disk is full or fails.
  virtual void write(std::span<const ConvertedModule> block) = 0;

  /// Completes the tensor files and adds all others, when every module of the plan was written. Returns the bytes of
  /// the tensor files.
  virtual std::uint64_t finish(const ModelMetadata& metadata) = 0;
};

/// A format of output files: which matrices it can store, and in how many bytes. All answers depend only on plans, so
/// that formats can be chosen before rounding. Thread-safe.
class ModelFormat {
 public:
  virtual ~ModelFormat() = default;

  /// Returns the recipe without features that these files cannot hold, with formats that they hold. Throws Error if it
  /// requires something that they cannot express and that cannot be left out.
  virtual Recipe fitting(const Recipe& recipe) const = 0;

  /// Returns the possible formats of a matrix whose format is free; only those for which holds() is true can be used.
  virtual std::vector<WeightFormat> candidates() const = 0;

  /// Returns whether matrices that read the same input must have one format, because readers of the files fuse them.
  virtual bool ties_formats() const { return false; }

  /// Returns whether rows of a vocabulary's matrix may be stored as matrices of their own, in several formats.
  virtual bool splits_vocabulary() const { return false; }

  /// Returns whether the experts of a layer have one format for each role, because they are in one tensor.
  virtual bool stacks_experts() const { return false; }

  /// Returns whether readers of the files find a draft head in them.
  virtual bool holds_draft_head() const { return false; }

  /// Returns the name of the file in open()'s directory if the output is only that file; empty: the output is a
  /// directory.
  virtual std::string file_name() const { return {}; }

  /// Returns whether a module can be held as planned: its format, and 16-bit columns if it has any.
  virtual bool holds(const ModulePlan& module) const = 0;

  /// Returns the format in which these files hold the same values as a module that is already rounded, or of floats, if
  /// nothing else prevents it; nullopt: there is none. Throws Error if they cannot express its matrices' inputs.
  virtual std::optional<WeightFormat> exact_format(const ModulePlan& module, ActivationType /*activations*/) const {
    if (!holds(module)) return {};
    return module.format;
  }

  /// Throws Error if the files cannot hold these modules together, although they can hold each.
  virtual void check_together(std::span<const ModulePlan> /*model*/) const {}

  /// Returns the name of the type of a module's weights: "int4-g32-asym + 7 columns f16".
  virtual std::string describe(const ModulePlan& module) const = 0;

  /// Returns the bytes of a module's tensors. All columns in 16 bits take the same number of bytes.
  virtual std::uint64_t bytes(const ModulePlan& module) const = 0;

  /// Returns the bytes of all tensor files of a model, including headers.
  virtual std::uint64_t file_bytes(std::span<const ModulePlan> model) const = 0;

  /// Begins to write the model into an existing directory. Throws Error.
  virtual std::unique_ptr<ModelWriter> open(const std::filesystem::path& directory,
                                            std::span<const ModulePlan> model) const = 0;
};

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_WRITE_MODEL_FORMAT_H_
