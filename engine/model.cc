#include "ballast/model.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "ballast/error.h"
#include "engine/model_state.h"
#include "engine/prompt_scorer.h"
#include "engine/sampling.h"
#include "engine/sequence.h"
#include "engine/translator.h"
#include "text/chat/chat_prompt.h"

namespace ballast {

namespace {

/// Checks the number of tokens of a new sequence.
void check_count(const model::Model& model, std::span<const int> ids) {
  if (ids.empty()) throw Error("token ids", "there are none");
  if (ids.size() > model.context_length()) {
    throw Error("token ids", std::to_string(ids.size()) + " do not fit the model's context of " +
                                 std::to_string(model.context_length()));
  }
}

/// Checks the size of the logits before memory is allocated.
void check_logits(const model::Model& model, std::span<const int> ids) {
  if (!model.spec().has_head) {
    throw Error(model.source().checkpoint().path().string(), model::kNoHead);
  }
  check_count(model, ids);
}

/// Runs ids as a new sequence and passes a row of logits for each to the reader.
void run_whole(const model::Model& model, engine::Engine& engine, std::span<const int> ids, const Adapter& adapter,
               engine::LogitsReader& reader) {
  engine::Sequence sequence(model, {.type = CacheOptions::Type::kF32}, ids.size(), adapter);
  sequence.append(ids);
  sequence.want(ids.size(), reader);
  engine.step(sequence);
}

/// Stores all rows.
class LogitsKeeper : public engine::LogitsReader {
 public:
  LogitsKeeper(std::size_t rows, std::size_t vocab_size) : vocab_size_(vocab_size), values_(rows * vocab_size) {}

  void read(std::size_t first, std::span<const float> rows) override {
    std::ranges::copy(rows, values_.begin() + static_cast<std::ptrdiff_t>(first * vocab_size_));
  }
  std::vector<float>& values() { return values_; }

 private:
  std::size_t vocab_size_;
  std::vector<float> values_;
};

}  // namespace

Model::Model(const std::filesystem::path& path, const ModelOptions& options)
    : state_(std::make_shared<const State>(path, options)) {}
Model::~Model() = default;
Model::Model(const Model&) = default;
Model& Model::operator=(const Model&) = default;
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;

const std::filesystem::path& Model::path() const {
  return state_->path;
}

const ModelSpec& Model::spec() const {
  return state_->model.spec();
}

std::size_t Model::context_length() const {
  return state_->model.context_length();
}

std::optional<ExpertFigures> Model::expert_figures() const {
  return state_->model.expert_figures();
}

bool Model::has_tokenizer() const {
  return state_->own_tokenizer != nullptr;
}

std::vector<int> Model::encode(std::string_view text, bool special_tokens) const {
  const text::Tokenizer& tokenizer = state_->tokenizer();
  std::vector<int> ids = tokenizer.encode(text);
  if (!special_tokens) return ids;
  const std::vector<int>& leading = tokenizer.leading_special_tokens();
  ids.insert(ids.begin(), leading.begin(), leading.end());
  // For generation, no special tokens are added after the text, because it is to be continued.
  if (!spec().causal || !spec().has_head) ids.insert(ids.end(), tokenizer.suffix().begin(), tokenizer.suffix().end());
  return ids;
}

std::string Model::decode(std::span<const int> ids) const {
  return text::decode(state_->tokenizer(), ids);
}

std::string Model::token_bytes(int id) const {
  return state_->tokenizer().token_bytes(id);
}

std::vector<int> Model::stop_tokens() const {
  return engine::end_tokens(*state_);
}

const GenerationDefaults& Model::generation_defaults() const {
  return state_->generation_defaults;
}

std::string Model::chat_prompt(std::span<const ChatMessage> messages, const std::string& template_arguments) const {
  return text::apply_chat_template(state_->tokenizer(), text::make_conversation(messages, template_arguments)).text;
}

Adapter Model::load_adapter(const AdapterFiles& files) const {
  return state_->model.load_adapter(files);
}

Tensor Model::logits(std::span<const int> ids, const Adapter& adapter) const {
  const std::size_t vocab_size = spec().vocab_size;
  check_logits(state_->model, ids);
  LogitsKeeper keeper(ids.size(), vocab_size);
  run_whole(state_->model, state_->engine, ids, adapter, keeper);
  engine::require_finite(keeper.values());
  return {.shape = {static_cast<std::int64_t>(ids.size()), static_cast<std::int64_t>(vocab_size)},
          .values = std::move(keeper.values())};
}

std::vector<double> Model::log_probabilities(std::span<const int> ids, const Adapter& adapter) const {
  if (!spec().causal) throw Error(state_->path.string(), "is an encoder: every token of it sees those after it");
  check_logits(state_->model, ids);
  engine::PromptScorer scorer(ids, /*top=*/0, spec().vocab_size);
  run_whole(state_->model, state_->engine, ids, adapter, scorer);
  scorer.check();
  std::vector<double> scores;
  for (const GeneratedToken& token : scorer.scores()) scores.push_back(token.logprob);
  return scores;
}

Tensor Model::activations(std::span<const int> ids, std::size_t layer) const {
  const ModelSpec& spec = this->spec();
  if (layer > spec.layers.size()) {
    throw Error("layer " + std::to_string(layer), "the model has " + std::to_string(spec.layers.size()));
  }
  check_count(state_->model, ids);
  return {.shape = {static_cast<std::int64_t>(ids.size()), static_cast<std::int64_t>(spec.hidden_size)},
          .values = state_->model.residual_stream(ids, layer)};
}

const TranslateOptions& Model::translate_defaults() const {
  return state_->translate_defaults;
}

std::vector<Translation> Model::translate(std::span<const std::string> texts, const TranslateOptions& options,
                                          const Progress& progress) const {
  return engine::translate_texts(*state_, texts, options, progress);
}

std::vector<Translation> Model::translate(std::span<const std::vector<int>> sources, const TranslateOptions& options,
                                          const Progress& progress) const {
  return engine::translate(*state_, sources, options, progress);
}

}  // namespace ballast
