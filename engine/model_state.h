// What handles of a model share.
#ifndef BALLAST_ENGINE_MODEL_STATE_H_
#define BALLAST_ENGINE_MODEL_STATE_H_

#include <filesystem>
#include <memory>
#include <string>

#include "ballast/model.h"
#include "engine/engine.h"
#include "model/model.h"
#include "text/tokenizer.h"

namespace ballast {

struct Model::State {
  explicit State(const std::filesystem::path& model_path);

  /// Throws Error when the model came without one.
  const text::Tokenizer& tokenizer() const;

  std::filesystem::path path;
  std::unique_ptr<text::Tokenizer> own_tokenizer;  ///< null: there is none
  model::Model model;
  mutable engine::Engine engine;  ///< takes calls from any thread

 private:
  explicit State(std::unique_ptr<model::ModelSource> source);
};

}  // namespace ballast

#endif  // BALLAST_ENGINE_MODEL_STATE_H_
