#include "engine/loaded_model.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "ballast/error.h"
#include "files/text_file.h"
#include "files/utf8.h"
#include "kernels/scratch.h"
#include "model/source/generation_config.h"
#include "model/source/translate_defaults.h"
#include "text/tokenizer_check.h"

namespace ballast::engine {

namespace {

// Of compiled constraints: a schema takes 0.1 to 10 MB with a vocabulary of 150,000 tokens.
constexpr std::size_t kConstraintCacheBytes = std::size_t{128} << 20;

std::string read_chat_template(const std::filesystem::path& file) {
  std::string chat_template = files::read_text_file(file);
  if (!files::is_utf8(chat_template)) throw Error(file.string(), "is not UTF-8");
  if (chat_template.starts_with(files::kByteOrderMark)) chat_template.erase(0, files::kByteOrderMark.size());
  return chat_template;
}

}  // namespace

std::unique_ptr<text::Tokenizer> load_tokenizer(const model::ModelSource& source, const ModelOptions& options) {
  std::unique_ptr<text::Tokenizer> tokenizer = model::read_tokenizer(source);
  if (tokenizer == nullptr) return tokenizer;
  if (options.tell) {
    for (const std::string& line : tokenizer->warnings())
      options.tell(source.checkpoint().path().string() + ": " + line);
  }
  tokenizer->forget_files();
  if (!options.chat_template.empty()) tokenizer->set_chat_template(read_chat_template(options.chat_template));
  kernels::give_back_free_memory();  // parsing needs several times the tokenizer's size
  return tokenizer;
}

// The tokenizer is read first, so that its temporary memory is free before the weights are loaded.
LoadedModel::LoadedModel(std::unique_ptr<model::ModelSource> source, const ModelOptions& options)
    : path(source->checkpoint().path()),
      generation_defaults(options.generation_config ? model::read_generation_defaults(source->checkpoint())
                                                    : GenerationDefaults{}),
      translate_defaults(
          options.generation_config && source->spec().encoder
              ? model::read_translate_defaults(source->checkpoint(), source->config(), source->spec().vocab_size)
              : TranslateOptions{}),
      own_tokenizer(load_tokenizer(*source, options)),
      model(std::move(source), model::FloatLayout::kPanels, options),
      engine(model) {
  if (own_tokenizer == nullptr) return;
  constraint_compiler =
      std::make_unique<text::ConstraintCompiler>(*own_tokenizer, model.spec().vocab_size, kConstraintCacheBytes);
}

LoadedModel::LoadedModel(const std::filesystem::path& model_path, const ModelOptions& options)
    : LoadedModel(std::make_unique<model::ModelSource>(model_path), options) {}

const text::Tokenizer& LoadedModel::tokenizer() const {
  if (own_tokenizer == nullptr) throw Error(path.string(), text::kNoTokenizer);
  return *own_tokenizer;
}

std::vector<int> end_tokens(const LoadedModel& model) {
  std::vector<int> ids = model.model.spec().stop_tokens;
  if (model.own_tokenizer == nullptr) return ids;
  const std::optional<int> eos = model.own_tokenizer->eos();
  if (eos && std::ranges::find(ids, *eos) == ids.end()) ids.push_back(*eos);
  return ids;
}

std::shared_ptr<const text::CompiledConstraint> LoadedModel::compile(const Constraint& constraint) const {
  if (!constraint) return nullptr;
  if (constraint_compiler == nullptr) throw Error(path.string(), text::kNoTokenizer);
  return constraint_compiler->compile(constraint);
}

}  // namespace ballast::engine
