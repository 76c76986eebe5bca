// A model with its tokenizer and its engine, shared by everything that runs texts.
#ifndef BALLAST_ENGINE_LOADED_MODEL_H_
#define BALLAST_ENGINE_LOADED_MODEL_H_

#include <filesystem>
#include <memory>
#include <vector>

#include "ballast/constraint.h"
#include "ballast/model_options.h"
#include "ballast/translate.h"
#include "engine/engine.h"
#include "model/model.h"
#include "text/constraint/constraint_compiler.h"
#include "text/tokenizer.h"

namespace ballast::engine {

struct LoadedModel {
  /// Throws Error.
  explicit LoadedModel(const std::filesystem::path& model_path, const ModelOptions& options = {});

  /// Throws Error if the model has no tokenizer.
  const text::Tokenizer& tokenizer() const;

  /// Returns a constraint for this model's tokens, from the cache if it was compiled before; null for none. Any thread.
  /// Throws Error if the model has no tokenizer, and as text::ConstraintCompiler::compile().
  std::shared_ptr<const text::CompiledConstraint> compile(const Constraint& constraint) const;

  std::filesystem::path path;
  GenerationDefaults generation_defaults;          ///< empty if disabled by ModelOptions::generation_config
  TranslateOptions translate_defaults;             ///< likewise
  std::unique_ptr<text::Tokenizer> own_tokenizer;  ///< null: the model has none
  model::Model model;
  mutable Engine engine;                                          ///< may be called from any thread
  std::unique_ptr<text::ConstraintCompiler> constraint_compiler;  ///< null without a tokenizer

 private:
  LoadedModel(std::unique_ptr<model::ModelSource> source, const ModelOptions& options);
};

/// Returns the tokens that end a text: the model's, and the tokenizer's.
std::vector<int> end_tokens(const LoadedModel& model);

/// Returns the tokenizer of a model, with the chat template that the options name; null if the model has none. Throws
/// Error.
std::unique_ptr<text::Tokenizer> load_tokenizer(const model::ModelSource& source, const ModelOptions& options);

}  // namespace ballast::engine

#endif  // BALLAST_ENGINE_LOADED_MODEL_H_
