#include "engine/loaded_model.h"

#ifdef __linux__
#include <malloc.h>
#endif

#include <utility>

#include "ballast/error.h"
#include "text/tokenizer_check.h"

namespace ballast::engine {

namespace {

// Parsing leaves several times what the tokenizer takes, free but in the process.
std::unique_ptr<text::Tokenizer> tokenizer_without_leavings(const model::ModelSource& source) {
  std::unique_ptr<text::Tokenizer> tokenizer = model::read_tokenizer(source);
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
  return tokenizer;
}

}  // namespace

// The tokenizer comes first: what reading it takes for a moment is gone before the weights come.
LoadedModel::LoadedModel(std::unique_ptr<model::ModelSource> source, const ModelOptions& options)
    : path(source->checkpoint().path()),
      own_tokenizer(tokenizer_without_leavings(*source)),
      model(std::move(source), model::FloatLayout::kPanels, options),
      engine(model) {}

LoadedModel::LoadedModel(const std::filesystem::path& model_path, const ModelOptions& options)
    : LoadedModel(std::make_unique<model::ModelSource>(model_path), options) {}

const text::Tokenizer& LoadedModel::tokenizer() const {
  if (own_tokenizer == nullptr) throw Error(path.string(), text::kNoTokenizer);
  return *own_tokenizer;
}

}  // namespace ballast::engine
