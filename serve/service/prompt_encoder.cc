#include "serve/service/prompt_encoder.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <variant>

#include "engine/source_text.h"
#include "files/text.h"
#include "serve/api/api_error.h"
#include "serve/api/chat_format.h"
#include "text/chat/tool_text.h"
#include "text/constraint/constraint_grammar.h"
#include "text/constraint/reply_constraint.h"
#include "text/reply/offered_tool.h"

namespace ballast::serve {
namespace {

/// Cuts `ids` to `most`: keeps the last ones if `keep_end` is set, else the first ones.
void cut(std::vector<int>& ids, std::size_t most, bool keep_end) {
  if (ids.size() <= most) return;
  if (keep_end) ids.erase(ids.begin(), ids.end() - static_cast<std::ptrdiff_t>(most));
  ids.resize(most);
}

void add_leading(const text::Tokenizer& tokenizer, std::vector<int>& ids) {
  const std::vector<int>& leading = tokenizer.leading_special_tokens();
  ids.insert(ids.begin(), leading.begin(), leading.end());
}

void check_length(const std::vector<int>& ids, std::size_t most, std::string_view whose) {
  if (ids.size() <= most) return;
  throw ApiError(400, files::concat("there are more than the ", most, " tokens that ", whose))
      .with_code("context_length_exceeded");
}

/// Returns the result of encode() for a client's text; throws if a token has no row in the model's embedding.
template <typename Encode>
auto readable(const Encode& encode) {
  try {
    return encode();
  } catch (const Error& error) {
    throw ApiError(400, error.what());
  }
}

}  // namespace

const text::Tokenizer& PromptEncoder::tokenizer() const {
  if (model_.loaded.own_tokenizer == nullptr) throw ApiError(400, "the model has no tokenizer");
  return *model_.loaded.own_tokenizer;
}

ModelFacts PromptEncoder::facts() const {
  return {.vocab_size = model_.loaded.model.spec().vocab_size, .defaults = model_.loaded.generation_defaults};
}

std::vector<int> PromptEncoder::tokens_of(const RequestFields& fields) const {
  const TokenLimit limit = tokenize_limit();
  const bool vllm = fields.has("prompt");
  const std::optional<std::string> text = fields.text(vllm ? "prompt" : "content");
  if (!text && fields.has("messages")) {
    std::vector<int> ids = count(read_conversation(fields));
    if (fields.flag("add_special_tokens", false)) add_leading(tokenizer(), ids);
    return ids;
  }
  if (!text) throw ApiError(400, "prompt: is missing", "prompt");
  const bool special = vllm ? fields.flag("add_special_tokens", true) : fields.flag("add_special", false);
  if (fields.flag("parse_special", true)) {
    return encode(*text, {.add_special_tokens = special}, std::numeric_limits<std::size_t>::max(), limit);
  }
  const text::ByteRange whole = {.begin = 0, .end = text->size()};
  std::vector<int> ids = readable([&] { return tokenizer().encode(*text, std::span(&whole, 1), limit.most); });
  check_length(ids, limit.most, limit.whose);
  if (special) add_leading(tokenizer(), ids);
  return ids;
}

text::ChatPrompt PromptEncoder::apply(const text::Conversation& conversation) const {
  if (model_.loaded.model.spec().encoder) {
    throw ApiError(400, "the model answers no conversation: use /v1/completions or /translate", "model");
  }
  try {
    // A template may write calls and results, and not the tools that are offered.
    const bool takes_them = conversation.tools.empty() ? tokenizer().chat_template().contains("tool")
                                                       : text::template_takes_tools(tokenizer());
    if (mentions_tools(conversation) && !takes_them) {
      return text::apply_chat_template(tokenizer(), text::with_tools_as_text(conversation));
    }
    return text::apply_chat_template(tokenizer(), conversation);
  } catch (const Error& error) {
    throw ApiError(400, error.what(), "messages");
  }
}

PromptEncoder::TokenLimit PromptEncoder::tokenize_limit() const {
  return {.most = most_tokenized_, .whose = "/tokenize takes (--max-tokenize)"};
}

/// Returns the number of tokens beyond which a prompt is not encoded: it does not fit, or the rest is cut off. If its
/// end is to be kept, it must be encoded completely.
PromptEncoder::TokenLimit PromptEncoder::prompt_limit(const PromptOptions& options, std::size_t most) const {
  const std::size_t context = model_.scheduler.context_length();
  if (!options.truncate) return {.most = context, .whose = "the context holds"};
  if (!options.keep_end) return {.most = most, .whose = {}, .refuses = false};
  return {.most = std::max(context, most_tokenized_), .whose = "a prompt that is cut may have (--max-tokenize)"};
}

std::vector<int> PromptEncoder::encode(const Prompt& prompt, const PromptOptions& options, std::size_t kept) const {
  return encode(prompt, options, kept, prompt_limit(options, kept));
}

/// The special tokens around a text are kept when it is cut.
std::vector<int> PromptEncoder::encode(const Prompt& prompt, const PromptOptions& options, std::size_t kept,
                                       const TokenLimit& limit) const {
  const auto* given = std::get_if<std::vector<int>>(&prompt);
  std::vector<int> ids =
      given != nullptr ? *given
                       : readable([&] { return tokenizer().encode(std::get<std::string>(prompt), {}, limit.most); });
  if (given == nullptr && limit.refuses) check_length(ids, limit.most, limit.whose);
  if (given == nullptr && options.add_special_tokens) {
    const ModelSpec& spec = model_.loaded.model.spec();
    const bool has_suffix = options.makes_vector || !spec.causal || !spec.has_head;  // else the text continues
    const std::vector<int> suffix = has_suffix ? tokenizer().suffix() : std::vector<int>();
    const std::size_t around = tokenizer().leading_special_tokens().size() + suffix.size();
    cut(ids, kept - std::min(kept, around), options.keep_end);
    add_leading(tokenizer(), ids);
    ids.insert(ids.end(), suffix.begin(), suffix.end());
  }
  cut(ids, kept, options.keep_end);
  return ids;
}

void PromptEncoder::set_source(const Prompt& prompt, GenerationRequest& request) const {
  const engine::LoadedModel& loaded = model_.loaded;
  if (const auto* given = std::get_if<std::vector<int>>(&prompt)) {
    request.source = *given;
  } else {
    request.source = readable(
        [&] { return engine::encode_source(loaded, std::get<std::string>(prompt), request.options.source_language); });
  }
  if (request.source.empty()) throw ApiError(400, "prompt: has no tokens", "prompt");
  check_length(request.source, loaded.model.context_length(), "the context holds");
  const engine::TextStart start =
      readable([&] { return engine::start_in_language(loaded, request.options.target_language); });
  request.begin = text::StreamDecoder::Begin::kOfText;
  std::ranges::copy(loaded.translate_defaults.forbidden_sequences,
                    std::back_inserter(request.options.forbidden_sequences));
  request.prompt = {start.token};
  const std::vector<int>& first = start.first.empty() ? loaded.translate_defaults.first_tokens : start.first;
  request.prompt.insert(request.prompt.end(), first.begin(), first.end());
}

engine::EncodedText PromptEncoder::encode_pair(const TextPair& pair, std::size_t kept) const {
  return readable([&] { return engine::encode_pair(model_.loaded.model.spec(), tokenizer(), pair, kept); });
}

void PromptEncoder::set_chat_prompt(ChatRequest& asked) const {
  const text::ChatPrompt prompt = apply(asked.conversation);
  const std::size_t most = most_prompt_tokens(asked.prompt_options, asked.limit);
  const TokenLimit limit = prompt_limit(asked.prompt_options, most);
  const auto encoded = [&](std::size_t longest) {
    return readable([&] { return text::encode(tokenizer(), prompt, longest); });
  };
  std::vector<int> ids = encoded(limit.most);
  if (!asked.prompt_options.truncate && ids.size() > limit.most) {
    throw prompt_too_long(encoded(std::max(limit.most, most_tokenized_)).size(), limit.most);
  }
  if (limit.refuses) check_length(ids, limit.most, limit.whose);
  if (asked.prompt_options.add_special_tokens) add_leading(tokenizer(), ids);
  cut(ids, most, asked.prompt_options.keep_end);
  asked.generation.prompt = std::move(ids);
  if (asked.parses_reply) {
    set_reply(prompt, asked);
  } else {
    asked.generation.options.constraint = asked.answer.constraint;
  }
  compile(asked.generation.options.constraint, constraint_field(asked));
}

/// Returns the format of the reply: that in which tools are described, if the chat template does not describe them.
std::string_view PromptEncoder::reply_format_of(const text::Conversation& conversation) const {
  const bool needs_format = model_.reply_format == text::kAutoReplyFormat && !conversation.tools.empty();
  return needs_format && !text::template_takes_tools(tokenizer()) ? text::kToolTextFormat : model_.reply_format;
}

/// Sets how the reply is parsed, and what it must match, after thinking and around calls.
void PromptEncoder::set_reply(const text::ChatPrompt& prompt, ChatRequest& asked) const {
  GenerationRequest& generation = asked.generation;
  const std::vector<text::OfferedTool> tools = text::read_tools(asked.conversation.tools);
  generation.reply = text::make_reply_parser(tokenizer(), prompt, reply_format_of(asked.conversation), tools);
  try {
    generation.options.constraint = reply_constraint(asked, tools);
  } catch (const Error& error) {
    throw ApiError(400, error.what(), constraint_field(asked));
  }
}

/// Returns what the whole reply must match, thinking and calls included.
Constraint PromptEncoder::reply_constraint(const ChatRequest& asked,
                                           const std::vector<text::OfferedTool>& tools) const {
  const text::ReplyParser& parser = asked.generation.reply;
  Constraint answer = asked.answer.constraint;
  nlohmann::ordered_json ending_thinking;
  if (!tools.empty()) {
    const nlohmann::ordered_json own = answer ? text::constraint_format(answer) : nlohmann::ordered_json();
    const text::ToolConstraint calls =
        text::tool_constraint(parser.format(), tokenizer(), tools, asked.tools.choice, own, asked.thinking_tokens);
    if (!calls.format.is_null()) {
      const nlohmann::ordered_json tag = {{"type", "structural_tag"}, {"format", calls.format}};
      answer = {.kind = Constraint::Kind::kStructuralTag, .text = tag.dump()};
      if (calls.has_thinking) return answer;
      ending_thinking = calls.ending_thinking;
    }
  }
  std::optional<std::size_t> thinking_tokens = asked.thinking_tokens;
  if (answer && asked.conversation.arguments.value("enable_thinking", true) == false) thinking_tokens = 0;
  return text::constrain_reply(answer, parser.format(), parser.state(), tokenizer(), thinking_tokens, ending_thinking);
}

std::vector<int> PromptEncoder::count(const text::Conversation& conversation) const {
  const text::ChatPrompt chat = apply(conversation);
  const TokenLimit limit = tokenize_limit();
  std::vector<int> ids = readable([&] { return text::encode(tokenizer(), chat, limit.most); });
  check_length(ids, limit.most, limit.whose);
  return ids;
}

void PromptEncoder::set_infill_prompt(const text::InfillRequest& gap, GenerationRequest& request) const {
  const std::size_t context = model_.scheduler.context_length();
  const auto prompt = readable([&] { return text::make_infill_prompt(tokenizer(), gap, context); });
  if (!prompt) throw ApiError(400, "the model's vocabulary has no tokens to fill in a gap with");
  check_length(prompt->ids, context, "the context holds");
  request.prompt = prompt->ids;
  add_leading(tokenizer(), request.prompt);
  request.options.stop_tokens.insert(request.options.stop_tokens.end(), prompt->ends.begin(), prompt->ends.end());
}

void PromptEncoder::check_tokenized(const std::vector<int>& ids, std::string_view whose) const {
  check_length(ids, most_tokenized_, whose);
}

void PromptEncoder::compile(const Constraint& constraint, const std::string& field) const {
  try {
    model_.loaded.compile(constraint);
  } catch (const Error& error) {
    throw ApiError(400, files::concat(field, ": ", error.what()), field);
  }
}

std::size_t PromptEncoder::most_prompt_tokens(const PromptOptions& options, const AnswerLimit& limit) const {
  if (!options.truncate) return std::numeric_limits<std::size_t>::max();
  if (*options.truncate > 0) return static_cast<std::size_t>(*options.truncate);
  const auto context = static_cast<std::int64_t>(model_.scheduler.context_length());
  const std::int64_t answer =
      std::clamp<std::int64_t>(limit.tokens.value_or(1), 1, std::max<std::int64_t>(1, context / 2));
  return static_cast<std::size_t>(context - answer);
}

void PromptEncoder::check_lengths(GenerationRequest& request, const AnswerLimit& limit, std::size_t usual,
                                  bool may_be_empty) const {
  const Scheduler& scheduler = model_.scheduler;
  if (!model_.loaded.model.spec().causal) {
    throw ApiError(400, "the model is an encoder, which does not generate text: use /v1/embeddings", "model");
  }
  if (!model_.loaded.model.spec().has_head) {
    throw ApiError(400, files::concat("the model ", model::kNoHead, ": use /v1/embeddings"), "model");
  }
  if (model_.loaded.model.spec().encoder && request.source.empty()) {
    throw ApiError(400, "the model writes texts from source texts: use /v1/completions or /translate", "model");
  }
  if (request.prompt.empty()) throw ApiError(400, "prompt: has no tokens", "prompt");
  const std::size_t most = scheduler.most_tokens(request.choices, request.prompt.size());
  request.options.max_tokens =
      answer_tokens(limit, request.prompt.size(), scheduler.context_length(), std::min(usual, most), most);
  if (request.options.max_tokens == 0 && !may_be_empty) {
    throw ApiError(400, files::concat(limit.field, ": 0 is for prompts that are echoed"), std::string(limit.field));
  }
}

void PromptEncoder::forbid_words(const RequestFields& fields, GenerationRequest& request) const {
  if (!fields.has("bad_words")) return;
  std::vector<std::vector<int>> words = read_bad_words(fields, tokenizer());
  std::ranges::move(words, std::back_inserter(request.options.forbidden_sequences));
}

}  // namespace ballast::serve
