#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "ballast/error.h"
#include "ballast/generate.h"
#include "engine/draft_model.h"
#include "engine/generation.h"
#include "engine/head_drafter.h"
#include "engine/model_state.h"
#include "engine/output_processor.h"
#include "engine/prompt_scorer.h"
#include "engine/sequence.h"
#include "engine/source_text.h"
#include "engine/speculation.h"
#include "kernels/clock.h"
#include "text/chat/chat_prompt.h"
#include "text/constraint/constraint_grammar.h"
#include "text/constraint/reply_constraint.h"
#include "text/reply/offered_tool.h"
#include "text/reply/reply_parser.h"
#include "text/reply/tool_constraint.h"

namespace ballast {

using kernels::Clock;
using kernels::seconds_since;

void set_defaults(const GenerationDefaults& defaults, GenerateOptions& options) {
  options.temperature = defaults.temperature.value_or(options.temperature);
  options.top_k = defaults.top_k.value_or(options.top_k);
  options.top_p = defaults.top_p.value_or(options.top_p);
  options.min_p = defaults.min_p.value_or(options.min_p);
  options.repetition_penalty = defaults.repetition_penalty.value_or(options.repetition_penalty);
}

namespace {

/// Returns what a reply may be: thinking, and an answer that follows the constraint or calls of tools.
Constraint constrain_chat(const Constraint& answer, const std::vector<text::OfferedTool>& tools,
                          const text::ReplyParser& reply, const text::Tokenizer& tokenizer) {
  Constraint constraint = answer;
  if (answer && !tools.empty()) {
    const text::ToolConstraint with_calls =
        text::tool_constraint(reply.format(), tokenizer, tools, {}, text::constraint_format(answer));
    const nlohmann::ordered_json tag = {{"type", "structural_tag"}, {"format", with_calls.format}};
    constraint = {.kind = Constraint::Kind::kStructuralTag, .text = tag.dump()};
    if (with_calls.has_thinking) return constraint;
  }
  return text::constrain_reply(constraint, reply.format(), reply.state(), tokenizer);
}

}  // namespace

struct Generator::State {
  explicit State(std::shared_ptr<const Model::State> shared_model) : shared(std::move(shared_model)) {}

  // Returns the number of tokens allowed by the options and the rest of the context after the prompt.
  std::size_t most_tokens(std::size_t prompt, const GenerateOptions& options) const {
    const model::Model& model = shared->model;
    const std::size_t context = model.context_length();
    if (prompt == 0) throw Error("prompt", "is empty");
    if (!model.spec().causal) throw Error(shared->path.string(), "is an encoder: it does not continue text");
    if (!model.spec().has_head) throw Error(shared->path.string(), model::kNoHead);
    if (options.cache.window > 0) return options.max_tokens;
    if (prompt >= context) {
      throw Error("prompt", std::to_string(prompt) + " tokens leave no room in the model's context of " +
                                std::to_string(context));
    }
    return std::min(options.max_tokens, context - prompt);
  }

  void use_draft(const std::shared_ptr<const Model::State>& model) {
    draft_model.emplace(*shared, *model);
    draft = model;
  }

  /// Returns what computes drafts for a text; null: nothing does.
  engine::Drafter* drafter_for(engine::Sequence& text, const CacheOptions& options) {
    if (draft_model) {
      if (draft_model->cache() != options) draft_state.reset();
      draft_model->use_cache(options);
      return &*draft_model;
    }
    if (shared->model.draft_head() == nullptr) return nullptr;
    if (!head_drafter) head_drafter.emplace(shared->model);
    draft_state.reset();
    text.keep_hidden(engine::HeadDrafter::kKeptTokens);
    return &*head_drafter;
  }

  /// Returns the sequence of a text that is to be written from a source text, of which only `start` is known.
  engine::Sequence& sequence_after(std::span<const int> source, std::span<const int> start,
                                   const CacheOptions& options) {
    sequence.emplace(shared->model, options, shared->model.context_length());
    const model::TokenSpan text = source;
    sequence->set_source(shared->engine.encode({&text, 1}, sequence->state().cache().type()).front());
    sequence->append(start);
    return *sequence;
  }

  // The cache keeps the common beginning with the new context: a chat does not read its history again.
  engine::Sequence& sequence_for(std::span<const int> prompt, const CacheOptions& options, const Adapter& adapter) {
    if (!sequence || sequence->options() != options || sequence->state().adapter() != adapter.get()) {
      sequence.emplace(shared->model, options, shared->model.context_length(), adapter);
    }
    sequence->replace(prompt);
    return *sequence;
  }

  /// Writes a text from a source text.
  GenerateResult write_from(std::span<const int> source, const engine::TextStart& begin, const GenerateOptions& options,
                            const OnGenerateStep& on_step) {
    std::vector<int> start = {begin.token};
    const std::vector<int>& first = begin.first.empty() ? shared->translate_defaults.first_tokens : begin.first;
    start.insert(start.end(), first.begin(), first.end());
    GenerateOptions own = options;
    std::ranges::copy(shared->translate_defaults.forbidden_sequences, std::back_inserter(own.forbidden_sequences));
    GenerateResult result =
        run(start, text::StreamDecoder::Begin::kOfText, text::ReplyParser(), own, own.constraint, on_step, source);
    result.prompt_tokens = source.size();
    return result;
  }

  /// `source`: what an encoder reads; empty if the model has none.
  GenerateResult run(std::span<const int> prompt, text::StreamDecoder::Begin begin, const text::ReplyParser& reply,
                     const GenerateOptions& options, const Constraint& constraint, const OnGenerateStep& on_step,
                     std::span<const int> source = {}) {
    engine::check_draft_tokens(options.draft_tokens);
    GenerateResult result;
    result.prompt_tokens = prompt.size();
    const std::size_t limit = most_tokens(prompt.size(), options);
    engine::OutputProcessor output(shared->own_tokenizer.get(), shared->model.spec().stop_tokens, begin, reply, options,
                                   shared->compile(constraint));
    output.see(prompt);
    engine::Sequence& own = shared->model.spec().encoder ? sequence_after(source, prompt, options.cache)
                                                         : sequence_for(prompt, options.cache, options.adapter);
    result.cached_tokens = own.run();
    // Room for a page of text, so that a token of an ordinary answer needs no allocation.
    constexpr std::size_t kPage = 4096;
    result.text.reserve(kPage);
    result.tokens.reserve(std::min(limit, kPage));
    own.reserve(std::min(limit, kPage) + options.draft_tokens);
    own.want(1);
    std::optional<engine::Speculation> speculation;
    own.keep_hidden(0);
    if (options.draft_tokens > 0) {
      own.reserve_logits((1 + options.draft_tokens) * shared->model.spec().vocab_size);
      speculation.emplace(options.draft_tokens, drafter_for(own, options.cache));
    }

    Clock::time_point start = Clock::now();
    shared->engine.step(own);
    result.prompt_seconds = seconds_since(start);
    start = Clock::now();
    engine::Generation(shared->engine, own, output, speculation ? &*speculation : nullptr, draft_state, limit, on_step,
                       result)
        .run();
    result.seconds = seconds_since(start);
    return result;
  }

  void check_scored(std::span<const int> ids, std::size_t first, const CacheOptions& cache) const {
    const ModelSpec& spec = shared->model.spec();
    if (!spec.causal) throw Error(shared->path.string(), "is an encoder: every token of it sees those after it");
    if (spec.encoder) throw Error(shared->path.string(), "writes texts from a source text, which scores do not have");
    if (!spec.has_head) throw Error(shared->path.string(), model::kNoHead);
    if (first == 0 || first >= ids.size()) {
      throw Error("token ids", "must include one before those to score and one to score: there are " +
                                   std::to_string(ids.size()) + ", to score from " + std::to_string(first));
    }
    const std::size_t context = shared->model.context_length();
    // The last token does not run: it needs no room, and no step would report an invalid id.
    if (cache.window == 0 && ids.size() - 1 > context) {
      throw Error("token ids",
                  std::to_string(ids.size()) + " do not fit the model's context of " + std::to_string(context));
    }
    if (ids.back() < 0 || static_cast<std::size_t>(ids.back()) >= spec.vocab_size) {
      throw Error("token id " + std::to_string(ids.back()), "is not in the vocabulary");
    }
  }

  std::vector<GeneratedToken> score(std::span<const int> ids, std::size_t first, std::size_t top,
                                    const CacheOptions& cache, const Adapter& adapter) {
    check_scored(ids, first, cache);
    engine::Sequence& own = sequence_for(ids.first(first), cache, adapter);
    own.append(ids.subspan(first, ids.size() - first - 1));
    engine::PromptScorer scorer(ids.subspan(first - 1), top, shared->model.spec().vocab_size);
    own.want(ids.size() - first, scorer);
    shared->engine.step(own);
    scorer.check();
    return std::move(scorer.scores());
  }

  std::shared_ptr<const Model::State> shared;
  std::optional<engine::Sequence> sequence;
  std::shared_ptr<const Model::State> draft;  ///< null: none
  std::optional<engine::DraftModel> draft_model;
  std::optional<engine::HeadDrafter> head_drafter;
  engine::DraftState draft_state;
};

Generator::Generator(const Model& model) : state_(std::make_unique<State>(model.state_)) {}

Generator::Generator(const Model& model, const Model& draft) : Generator(model) {
  state_->use_draft(draft.state_);
}

Generator::~Generator() = default;
Generator::Generator(Generator&&) noexcept = default;
Generator& Generator::operator=(Generator&&) noexcept = default;

GenerateResult Generator::generate(std::span<const int> prompt, const GenerateOptions& options,
                                   const OnGenerateStep& on_step) {
  if (const std::optional<EncoderSpec>& encoder = state_->shared->model.spec().encoder) {
    return state_->write_from(prompt, {.token = encoder->start_token, .first = {}}, options, on_step);
  }
  return state_->run(prompt, text::StreamDecoder::Begin::kWithinText, text::ReplyParser(), options, options.constraint,
                     on_step);
}

GenerateResult Generator::generate(std::string_view prompt, const GenerateOptions& options,
                                   const OnGenerateStep& on_step) {
  const text::Tokenizer& tokenizer = state_->shared->tokenizer();
  if (state_->shared->model.spec().encoder) {
    const std::vector<int> source =
        engine::encode_source(*state_->shared, std::string(prompt), options.source_language);
    return state_->write_from(source, engine::start_in_language(*state_->shared, options.target_language), options,
                              on_step);
  }
  if (!options.source_language.empty() || !options.target_language.empty()) {
    throw Error(state_->shared->path.string(), "has no encoder that reads a source text: name no languages");
  }
  std::vector<int> ids = tokenizer.encode(prompt);
  const std::vector<int>& leading = tokenizer.leading_special_tokens();
  ids.insert(ids.begin(), leading.begin(), leading.end());
  return generate(std::span<const int>(ids), options, on_step);
}

GenerateResult Generator::chat(std::span<const ChatMessage> messages, const GenerateOptions& options,
                               const OnGenerateStep& on_step) {
  if (state_->shared->model.spec().encoder) {
    throw Error(state_->shared->path.string(), "writes texts from source texts: it answers no conversation");
  }
  const text::Tokenizer& tokenizer = state_->shared->tokenizer();
  text::Conversation conversation = text::make_conversation(messages, options.template_arguments);
  conversation.tools = text::parse_tools(options.tools);
  const text::ChatPrompt prompt = text::apply_chat_template(tokenizer, conversation);
  const std::vector<text::OfferedTool> tools = text::read_tools(conversation.tools);
  const text::ReplyParser reply = text::make_reply_parser(tokenizer, prompt, options.reply_format, tools);
  return state_->run(text::encode(tokenizer, prompt), text::StreamDecoder::Begin::kOfText, reply, options,
                     constrain_chat(options.constraint, tools, reply, tokenizer), on_step);
}

std::vector<GeneratedToken> Generator::score(std::span<const int> ids, std::size_t first, std::size_t top,
                                             const CacheOptions& cache, const Adapter& adapter) {
  return state_->score(ids, first, top, cache, adapter);
}

}  // namespace ballast
