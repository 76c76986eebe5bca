#include "serve/api/field_table.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "files/text.h"
#include "serve/api/api_error.h"

namespace ballast::serve {
namespace {

using enum KnownField::Use;

constexpr std::uint16_t kWithConversation = kChats | kTemplates | kTokenize;
constexpr std::uint16_t kScoring = kReranks | kScores | kClassifications;
constexpr std::uint16_t kWithPrompt = kTexts | kEmbeddings;

constexpr auto kFields = std::to_array<KnownField>({
    // Fields that set the input.
    {"model", kAllEndpoints, kHonoured,
     "a name in `/v1/models`, also an adapter's, or an alias; another one is answered with 404 unless `--any-name`; "
     "none: the first model"},
    {"lora", kTexts, kHonoured, "`[{\"id\": 0, \"scale\": 1}]`: an adapter by its index in `/lora-adapters`"},
    {"prompt", kCompletions | kTokenize, kHonoured, "text; for completions also ids, or a list of either"},
    {"messages", kWithConversation, kHonoured, "`content`: text, a list of parts of text, or null for none"},
    {"input", kEmbeddings | kClassifications, kHonoured, "text or a list of texts; for embeddings also ids"},
    {"query", kReranks, kHonoured, "text"},
    {"text_1", kScores, kHonoured, "a text, or as many as `text_2` has"},
    {"queries", kScores, kHonoured, "newer name of `text_1`"},
    {"text_2", kScores, kHonoured, "a text or a list of texts; `documents` is its newer name"},
    {"text", kTranslations, kHonoured, "a source text or a list of them"},
    {"source", kTranslations, kHonoured,
     "the language of the source text, as the model names it; default: the model's"},
    {"target", kTranslations, kHonoured, "the language of the written text"},
    {"source_language", kCompletions, kHonoured, "for models with an encoder: `source` of translate"},
    {"target_language", kCompletions, kHonoured, "for models with an encoder: `target` of translate"},
    {"beam", kTranslations, kHonoured, "the number of texts that are pursued at once; default: the model's, or 1"},
    {"hypotheses", kTranslations, kHonoured, "texts for each source text, the best first; at most `beam`"},
    {"no_repeat_ngram_size", kTranslations, kHonoured, "no sequence of this many tokens is written twice"},
    {"length_penalty", kTexts | kTranslations, kHonoured,
     "for translate the power of a text's length that divides its score; others ignore it: it belongs to "
     "`use_beam_search`"},
    {"early_stopping", kTexts | kTranslations, kHonoured,
     "for translate true, false or `\"never\"`, as in transformers; others ignore it"},
    {"top_n", kReranks, kHonoured, "the number of results; default all"},
    {"return_documents", kReranks, kHonoured, "true: results have their texts"},
    {"use_activation", kEmbeddings | kScoring, kHonoured,
     "false: scores before the classifier's sigmoid or softmax, and vectors whose length is not 1"},
    {"normalize", kEmbeddings, kHonoured, "the same for vectors"},
    {"content", kTokenize, kHonoured, "llama-server's name of `prompt`"},
    {"tokens", kDetokenize, kHonoured, "ids"},
    {"add_special_tokens", kWithPrompt | kTokenize, kHonoured,
     "adds the tokens around every text, BOS for most models; default true, but false for messages, whose template "
     "adds them"},
    {"add_special", kTokenize, kHonoured, "llama-server's name of `add_special_tokens`; default false with `content`"},
    {"parse_special", kTokenize, kHonoured, "false: special tokens in a text are text"},
    {"return_token_strs", kTokenize, kHonoured, "also `token_strs`, the text of each token"},
    {"with_pieces", kTokenize, kHonoured,
     "`tokens` as `{\"id\", \"piece\"}`, with bytes for pieces that are not UTF-8"},
    {"truncate_prompt_tokens", kWithPrompt | kScoring, kHonoured,
     "tokens that are kept of a longer prompt; -1: as many as leave room for `max_tokens`, at least half of the "
     "context"},
    {"truncation_side", kWithPrompt, kHonoured,
     "`\"left\"` keeps the end (texts), `\"right\"` the beginning (embeddings)"},
    {"chat_template_kwargs", kWithConversation, kHonoured, "an object whose members are passed to the chat template"},
    {"add_generation_prompt", kWithConversation, kHonoured, "false: the prompt ends with the last message"},
    {"continue_final_message", kWithConversation, kHonoured,
     "true: the answer continues the last message; with `add_generation_prompt` true it is refused"},
    {"documents", kWithConversation | kReranks | kScores, kHonoured,
     "a list that is passed to the chat template; for rerank and score the texts, or objects with `text`"},
    {"reasoning_effort", kWithConversation, kHonoured,
     "passed to the chat template, with `enable_thinking`, which is false for `\"none\"`"},
    {"include_reasoning", kChats, kHonoured, "false: the answer is sent without its thinking"},
    {"thinking_token_budget", kChats, kHonoured, "the most tokens that the model thinks with, then its answer begins"},
    {"reasoning_budget_tokens", kChats, kHonoured, "llama-server's name"},
    {"thinking_budget_tokens", kChats, kHonoured, "llama-server's name"},
    {"reasoning_format", kChats, kHonoured,
     "`\"auto\"` and `\"deepseek\"`: thinking in `reasoning_content`; `\"none\"`: in `content`, as the model wrote it"},
    // Fields that set the length.
    {"max_tokens", kTexts | kTranslations, kHonoured,
     "-1, or more than the rest of the context: the rest of the context; default of completions: 16"},
    {"max_completion_tokens", kTexts, kHonoured, "the same; for chats it has precedence"},
    {"n_predict", kTexts, kHonoured, "llama-server's name of `max_tokens`"},
    {"min_tokens", kTexts | kTranslations, kHonoured, "the answer does not end before this number of tokens"},
    {"stop", kTexts, kHonoured, "a text or a list of at most 16; also matches special tokens; empty ones are ignored"},
    {"stop_token_ids", kTexts, kHonoured},
    {"include_stop_str_in_output", kTexts, kHonoured, "true: the answer includes the stop string"},
    {"ignore_eos", kTexts, kHonoured},
    // Fields that choose tokens.
    {"temperature", kTexts, kHonoured, "default 1; 0: always the most likely token"},
    {"top_p", kTexts, kHonoured},
    {"top_k", kTexts, kHonoured, "0 and -1: no limit"},
    {"min_p", kTexts, kHonoured},
    {"seed", kTexts, kHonoured, "missing or -1: a random one"},
    {"presence_penalty", kTexts, kHonoured, "counts tokens of the answer"},
    {"frequency_penalty", kTexts, kHonoured, "counts tokens of the answer"},
    {"repetition_penalty", kTexts | kTranslations, kHonoured, "counts tokens of prompt and answer"},
    {"repeat_penalty", kTexts, kHonoured, "llama-server's name of `repetition_penalty`"},
    {"repeat_last_n", kTexts, kHonoured,
     "the number of last tokens of prompt and answer that all three penalties count; 0: none, -1: all"},
    {"logit_bias", kTexts, kHonoured,
     "`{\"ID\": BIAS}`, or llama-server's `[[ID, BIAS]]`, in which false forbids the token"},
    {"bad_words", kTexts, kHonoured, "texts whose tokens the answer must not contain"},
    {"allowed_token_ids", kTexts, kHonoured, "only these tokens are chosen"},
    // Fields that set the content of the answer.
    {"n", kTexts, kHonoured, "at most 128"},
    {"n_cmpl", kTexts, kHonoured, "llama-server's name of `n`"},
    {"echo", kTexts, kHonoured,
     "the answer begins with the prompt; in a chat with the last message, if it is an assistant's"},
    {"logprobs", kTexts, kHonoured, "for completions at most 20, for chats true"},
    {"top_logprobs", kChats, kHonoured, "at most 20"},
    {"prompt_logprobs", kTexts, kHonoured, "at most 20; for each token of the prompt, in vLLM's form; not in streams"},
    {"skip_special_tokens", kTexts, kHonoured, "false: the answer includes special tokens"},
    {"stream", kTexts, kHonoured},
    {"stream_options", kTexts, kHonoured, "`include_usage`"},
    {"pooling", kEmbeddings, kHonoured, "`\"mean\"`, `\"cls\"` or `\"last\"`"},
    {"encoding_format", kEmbeddings, kHonoured, "`\"float\"` or `\"base64\"`"},
    {"dimensions", kEmbeddings, kHonoured, "the first values of a vector that are kept; at most the model's own size"},
    {"cache_salt", kTexts | kEmbeddings, kHonoured, "prompts with different salts share nothing in the cache"},
    // What an answer must match: one of these.
    {"response_format", kTexts, kHonoured,
     "`json_object`, `json_schema` (`strict` or not, the answer is valid), `structural_tag`, or `text`"},
    {"structured_outputs", kTexts, kHonoured,
     "vLLM's `json`, `regex`, `choice`, `grammar`, `json_object` or `structural_tag`"},
    {"guided_json", kTexts, kHonoured, "older name"},
    {"guided_regex", kTexts, kHonoured, "older name"},
    {"guided_choice", kTexts, kHonoured, "older name"},
    {"guided_grammar", kTexts, kHonoured, "older name"},
    {"guided_json_object", kTexts, kHonoured, "older name"},
    {"structural_tag", kTexts, kHonoured, "older name"},
    {"json_schema", kTexts, kHonoured, "llama-server's name of a schema"},
    {"grammar", kTexts, kHonoured, "llama-server's: a grammar in GBNF"},
    // Tools.
    {"tools", kWithConversation, kHonoured, "functions that the model may call"},
    {"tool_choice", kChats, kHonoured, "`\"auto\"`, `\"none\"`, `\"required\"`, or the name of a function"},
    {"parallel_tool_calls", kChats, kHonoured, "false: at most one call"},
    {"functions", kWithConversation, kHonoured, "older name of `tools`; calls come as `function_call`"},
    {"function_call", kChats, kHonoured, "older name of `tool_choice`"},
    {"suffix", kCompletions, kHonoured, "the text after a gap that the answer fills, for models with tokens for that"},
    // Fields that are not supported.
    {"best_of", kCompletions, kRefused, "send `n`", "[1]"},
    {"use_beam_search", kTexts, kRefused, "", "[false]"},
    {"grammar_lazy", kTexts, kRefused, "", "[false]"},
    {"grammar_triggers", kTexts, kRefused, "", "[[]]"},
    {"web_search_options", kChats, kRefused},
    {"modalities", kChats, kRefused, "", R"([["text"]])"},
    {"audio", kChats, kRefused},
    {"verbosity", kChats, kRefused, "", R"(["medium"])"},
    {"chat_template", kWithConversation, kRefused, "start the server with `--chat-template`"},
    {"thinking_forced_open", kChats, kRefused, "", "[false]"},
    {"prompt_embeds", kCompletions, kRefused},
    {"logprob_token_ids", kTexts, kRefused},
    {"logits_processors", kTexts, kRefused, "", "[[]]"},
    {"return_tokens_as_token_ids", kTexts, kRefused, "", "[false]"},
    {"return_token_ids", kTexts, kRefused, "", "[false]"},
    {"return_tokens", kTexts, kRefused, "", "[false]"},
    {"return_prompt_text", kChats, kRefused, "ask `/apply-template`", "[false]"},
    {"repetition_detection", kTexts, kRefused},
    {"watermarking", kTexts, kRefused, "", "[false]"},
    {"vllm_xargs", kTexts, kRefused, "", "[{}]"},
    {"typical_p", kTexts, kRefused, "", "[1]"},
    {"tfs_z", kTexts, kRefused, "", "[1]"},
    {"top_n_sigma", kTexts, kRefused, "", "[-1, 0]"},
    {"xtc_probability", kTexts, kRefused, "", "[0]"},
    {"dynatemp_range", kTexts, kRefused, "", "[0]"},
    {"dry_multiplier", kTexts, kRefused, "", "[0]"},
    {"mirostat", kTexts, kRefused, "", "[0]"},
    {"adaptive_target", kTexts, kRefused, "", "[-1]"},
    {"samplers", kTexts, kRefused, "the order is that of transformers"},
    {"min_keep", kTexts, kRefused, "", "[0, 1]"},
    {"n_probs", kTexts, kRefused, "send `logprobs`", "[0]"},
    {"post_sampling_probs", kTexts, kRefused, "", "[false]"},
    {"n_indent", kTexts, kRefused, "", "[0]"},
    {"t_max_predict_ms", kTexts, kRefused, "", "[-1, 0]"},
    {"response_fields", kTexts, kRefused, "", "[[]]"},
    {"image_data", kTexts, kRefused, "", "[[]]"},
    {"background", kResponses, kRefused, "", "[false]"},
    {"conversation", kResponses, kRefused, "send `previous_response_id`"},
    {"max_tool_calls", kResponses, kRefused},
    {"truncation", kResponses, kRefused, "", R"(["disabled"])"},
    {"mcp_servers", kMessages, kRefused, "", "[[]]"},
    {"container", kMessages, kRefused},
    {"max_tokens_per_doc", kReranks, kRefused, "send `truncate_prompt_tokens`"},
    {"embed_dtype", kEmbeddings, kRefused, "", R"(["float32"])"},
    {"endianness", kEmbeddings, kRefused, "", R"(["native", "little"])"},
    {"embd_normalize", kEmbeddings, kRefused, "", "[2]"},
    {"padding", kEmbeddings, kRefused, "", R"(["do_not_pad", false])"},
    // Fields that change no answer.
    {"user", kWithPrompt, kIgnored, "the key identifies the user"},
    {"safety_identifier", kTexts, kIgnored, "the key identifies the user"},
    {"request_id", kWithPrompt, kIgnored, "only a name"},
    {"session_id", kTexts, kIgnored, "only a name"},
    {"metadata", kTexts, kIgnored, "only a name"},
    {"store", kTexts, kIgnored, "nothing is stored"},
    {"service_tier", kTexts, kIgnored, "all requests have the same priority"},
    {"priority", kWithPrompt, kIgnored, "all requests have the same priority"},
    {"prompt_cache_key", kTexts, kIgnored, "the cache changes no answer"},
    {"prompt_cache_retention", kTexts, kIgnored, "the cache changes no answer"},
    {"cache_prompt", kTexts, kIgnored, "the cache changes no answer"},
    {"n_cache_reuse", kTexts, kIgnored, "the cache changes no answer"},
    {"id_slot", kTexts, kIgnored, "the cache changes no answer"},
    {"context_management", kMessages, kIgnored, "the whole conversation is the prompt"},
    {"n_keep", kTexts, kIgnored, "no text exceeds the context"},
    {"n_discard", kTexts, kIgnored, "no text exceeds the context"},
    {"kv_transfer_params", kTexts, kIgnored, "keys and values are not transferred"},
    {"ec_transfer_params", kTexts, kIgnored, "keys and values are not transferred"},
    {"prediction", kTexts, kIgnored, "affects speed only"},
    {"backend_sampling", kTexts, kIgnored, "affects speed only"},
    {"stream_interval", kTexts, kIgnored, "each token is sent immediately"},
    {"sse_ping_interval", kTexts, kIgnored, "each token is sent immediately"},
    {"timings_per_token", kTexts, kIgnored, "only adds information to the answer"},
    {"return_progress", kTexts, kIgnored, "only adds information to the answer"},
    {"verbose", kTexts, kIgnored, "only adds information to the answer"},
    {"return_token_offsets", kTexts, kIgnored, "only adds information to the answer"},
    {"routed_experts_prompt_start", kTexts, kIgnored, "only adds information to the answer"},
    {"reasoning_control", kChats, kIgnored, "only adds information to the answer"},
    {"media_io_kwargs", kWithConversation, kIgnored, "messages contain only text"},
    {"mm_processor_kwargs", kWithConversation | kEmbeddings, kIgnored, "messages contain only text"},
    {"return_mm_kwargs", kTexts, kIgnored, "messages contain only text"},
    {"parse_tool_calls", kChats, kIgnored, "calls of offered tools are always parsed"},
    {"preserved_tokens", kTexts, kIgnored, "the reply's format has its tokens"},
    {"guided_decoding_backend", kTexts, kIgnored, "belongs to `guided_json` and similar fields"},
    {"guided_whitespace_pattern", kTexts, kIgnored, "belongs to `guided_json` and similar fields"},
    {"spaces_between_special_tokens", kTexts, kIgnored, "tokens are joined without spaces"},
    {"dynatemp_exponent", kTexts, kIgnored, "belongs to `dynatemp_range`"},
    {"dry_base", kTexts, kIgnored, "belongs to `dry_multiplier`"},
    {"dry_allowed_length", kTexts, kIgnored, "belongs to `dry_multiplier`"},
    {"dry_penalty_last_n", kTexts, kIgnored, "belongs to `dry_multiplier`"},
    {"dry_sequence_breakers", kTexts, kIgnored, "belongs to `dry_multiplier`"},
    {"mirostat_tau", kTexts, kIgnored, "belongs to `mirostat`"},
    {"mirostat_eta", kTexts, kIgnored, "belongs to `mirostat`"},
    {"xtc_threshold", kTexts, kIgnored, "belongs to `xtc_probability`"},
    {"adaptive_decay", kTexts, kIgnored, "belongs to `adaptive_target`"},
});

nlohmann::json neutral_values(const KnownField& field) {
  return field.neutral.empty() ? nlohmann::json::array() : nlohmann::json::parse(field.neutral);
}

/// Returns the values as JSON: "false", "1 or 0".
std::string one_of_text(const nlohmann::json& values, std::string_view mark) {
  std::string text;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0) text += i + 1 == values.size() ? " or " : ", ";
    text += files::concat(mark, values[i].dump(), mark);
  }
  return text;
}

/// Returns the text of a message after "is not supported".
std::string advice(const KnownField& field, const nlohmann::json& neutral) {
  std::string note(field.note);
  std::erase(note, '`');
  const std::string leave = neutral.empty() ? "leave it out" : "leave it out, or send " + one_of_text(neutral, "");
  return note.empty() ? leave : note;
}

std::string endpoints_text(std::uint16_t endpoints) {
  if (endpoints == kAllEndpoints) return "all";
  constexpr auto kNames = std::to_array<std::pair<Endpoints, std::string_view>>({{kCompletions, "completions"},
                                                                                 {kChats, "chats"},
                                                                                 {kTemplates, "`/apply-template`"},
                                                                                 {kEmbeddings, "embeddings"},
                                                                                 {kTokenize, "`/tokenize`"},
                                                                                 {kDetokenize, "`/detokenize`"},
                                                                                 {kResponses, "responses"},
                                                                                 {kMessages, "messages"},
                                                                                 {kReranks, "rerank"},
                                                                                 {kScores, "score"},
                                                                                 {kClassifications, "classify"},
                                                                                 {kTranslations, "translate"}});
  std::string text;
  for (const auto& [endpoint, name] : kNames) {
    if ((endpoints & endpoint) != 0) text += files::concat(text.empty() ? "" : ", ", name);
  }
  return text;
}

std::string use_text(const KnownField& field) {
  const std::string note = field.note.empty() ? "" : files::concat(": ", field.note);
  if (field.use == kHonoured) return "honoured" + note;
  if (field.use == kIgnored) return "ignored" + note;
  const std::string neutral = one_of_text(neutral_values(field), "`");
  return "refused" + (neutral.empty() ? "" : " except for " + neutral) + note;
}

}  // namespace

std::span<const KnownField> known_fields() {
  return kFields;
}

void check_fields(const RequestFields& fields, Endpoints endpoint) {
  for (const KnownField& field : kFields) {
    if (field.use != kRefused || (field.endpoints & endpoint) == 0) continue;
    fields.read(field.name, [&](const files::JsonReader& value) {
      const nlohmann::json neutral = neutral_values(field);
      if (std::ranges::find(neutral, value.json()) == neutral.end()) {
        throw ApiError(400, files::concat(field.name, ": is not supported: ", advice(field, neutral)),
                       std::string(field.name));
      }
      return true;
    });
  }
}

std::string field_table_rows() {
  std::string rows;
  std::string names;
  for (auto field = kFields.begin(); field != kFields.end(); ++field) {
    names += files::concat(names.empty() ? "" : ", ", "`", field->name, "`");
    const auto next = field + 1;
    // Consecutive fields with the same endpoints and text share a row.
    if (next != kFields.end() && next->endpoints == field->endpoints && use_text(*next) == use_text(*field)) continue;
    rows += files::concat("| ", names, " | ", endpoints_text(field->endpoints), " | ", use_text(*field), " |\n");
    names.clear();
  }
  return rows;
}

}  // namespace ballast::serve
