// A model with its tokenizer and its engine: what everything that runs texts shares.
#ifndef BALLAST_ENGINE_LOADED_MODEL_H_
#define BALLAST_ENGINE_LOADED_MODEL_H_

#include <filesystem>
#include <memory>

#include "ballast/model_options.h"
#include "engine/engine.h"
#include "model/model.h"
#include "text/tokenizer.h"

namespace ballast::engine {

struct LoadedModel {
  /// Throws Error.
  explicit LoadedModel(const std::filesystem::path& model_path, const ModelOptions& options = {});

  /// Throws Error when the model came without one.
  const text::Tokenizer& tokenizer() const;

  std::filesystem::path path;
  GenerationDefaults generation_defaults;          ///< empty by ModelOptions::generation_config
  std::unique_ptr<text::Tokenizer> own_tokenizer;  ///< null: there is none
  model::Model model;
  mutable Engine engine;  ///< takes calls from any thread

 private:
  LoadedModel(std::unique_ptr<model::ModelSource> source, const ModelOptions& options);
};

}  // namespace ballast::engine

#endif  // BALLAST_ENGINE_LOADED_MODEL_H_
