#include "serve/api/generation_fields.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "ballast/error.h"
#include "files/text.h"
#include "serve/api/sampling_defaults.h"

namespace ballast::serve {
namespace {

constexpr std::size_t kMostStops = 16;
constexpr std::size_t kLongestStop = 1024;
constexpr std::size_t kMostIds = 1024;
constexpr std::size_t kMostBadWordTokens = 4096;
constexpr std::size_t kMostAllowedIds = 4096;
constexpr std::size_t kLongestSalt = 1024;
constexpr std::int64_t kLargestCount = 1 << 30;

std::vector<std::string> read_stop_list(const files::JsonReader& value) {
  std::vector<std::string> stops = value.json().is_string() ? std::vector{value.string()} : value.strings();
  // Empty strings stop nothing; clients with input forms send them.
  std::erase(stops, "");
  if (stops.size() > kMostStops) value.fail(files::concat("at most ", kMostStops, " are possible"));
  for (const std::string& stop : stops) {
    if (stop.size() > kLongestStop) value.fail(files::concat("each must have at most ", kLongestStop, " bytes"));
  }
  return stops;
}

/// Limits the length of a list, because every element is checked for every token.
void check_count(const files::JsonReader& value, std::size_t most) {
  if (value.json().size() > most) value.fail(files::concat("at most ", most, " are possible"));
}

float read_bias(const files::JsonReader& value) {
  const double number = value.number();
  if (number < -100 || number > 100) value.fail("must be from -100 to 100");
  return static_cast<float>(number);
}

/// Reads llama-server's form, [[1234, -100], [5, false]]: false forbids the token.
void read_bias_list(const files::JsonReader& value, std::size_t vocab_size, GenerateOptions& options) {
  for (const files::JsonReader& element : value.elements()) {
    const std::vector<files::JsonReader> pair = element.tuple(2);
    const auto id = static_cast<int>(whole_number(pair[0], 0, static_cast<std::int64_t>(vocab_size) - 1));
    if (pair[1].json().is_boolean() && !pair[1].boolean()) {
      options.forbidden_sequences.push_back({id});
    } else {
      options.logit_bias.push_back({.id = id, .bias = read_bias(pair[1])});
    }
  }
}

/// Reads {"1234": -100}: names are ids.
void read_bias_object(const files::JsonReader& value, std::size_t vocab_size, GenerateOptions& options) {
  for (const auto& [name, bias] : value.members()) {
    std::size_t id = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), id);
    if (error != std::errc() || end != name.data() + name.size() || id >= vocab_size) {
      value.fail(files::concat(files::in_quotes(name), " is not the id of a token"));
    }
    options.logit_bias.push_back({.id = static_cast<int>(id), .bias = read_bias(bias)});
  }
}

void read_penalties(const RequestFields& fields, GenerateOptions& options) {
  options.presence_penalty = fields.number("presence_penalty", -2, 2).value_or(0);
  options.frequency_penalty = fields.number("frequency_penalty", -2, 2).value_or(0);
  const std::string_view name = fields.has("repetition_penalty") ? "repetition_penalty" : "repeat_penalty";
  options.repetition_penalty = fields.number(name, 0.01, 100).value_or(1);
  const std::optional<std::int64_t> window = fields.integer("repeat_last_n", -1, kLargestCount);
  if (!window) return;
  options.penalty_window = *window < 0 ? std::numeric_limits<std::size_t>::max() : static_cast<std::size_t>(*window);
}

void read_ids(const RequestFields& fields, std::size_t vocab_size, GenerateOptions& options) {
  const auto read_stops = [&](const files::JsonReader& value) {
    check_count(value, kMostIds);
    return token_ids(value, vocab_size);
  };
  options.stop_tokens = fields.read("stop_token_ids", read_stops).value_or(std::vector<int>());
  const auto read_allowed = [&](const files::JsonReader& value) {
    check_count(value, kMostAllowedIds);
    std::vector<int> ids = token_ids(value, vocab_size);
    if (ids.empty()) value.fail("must not be empty: no token could be chosen");
    return ids;
  };
  options.allowed_tokens = fields.read("allowed_token_ids", read_allowed).value_or(std::vector<int>());
  fields.read("logit_bias", [&](const files::JsonReader& value) {
    check_count(value, kMostIds);
    const auto read = value.json().is_array() ? read_bias_list : read_bias_object;
    read(value, vocab_size, options);
    return true;
  });
}

/// Reads the seed; -1 is a random one, as in vLLM and llama-server.
std::uint64_t read_seed(const RequestFields& fields) {
  const std::optional<std::int64_t> seed =
      fields.integer("seed", std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max());
  return seed && *seed != -1 ? static_cast<std::uint64_t>(*seed) : std::random_device()();
}

std::size_t read_choices(const RequestFields& fields) {
  const std::string_view name = fields.has("n") ? "n" : "n_cmpl";
  return static_cast<std::size_t>(fields.integer(name, 1, kMostChoices).value_or(1));
}

}  // namespace

Delivery read_delivery(const RequestFields& fields) {
  Delivery delivery = {.stream = fields.flag("stream", false)};
  fields.read("stream_options", [&](const files::JsonReader& options) {
    if (!delivery.stream && !options.json().empty()) options.fail("are for streams: set stream, too");
    delivery.include_usage = options.flag("include_usage", false);
    if (options.flag("continuous_usage_stats", false)) options.fail("continuous_usage_stats", "is not supported");
    return true;
  });
  return delivery;
}

std::vector<std::string> read_stops(const RequestFields& fields, std::string_view field) {
  return fields.read(field, read_stop_list).value_or(std::vector<std::string>());
}

GenerationRequest read_generation(const RequestFields& fields, const ModelFacts& model) {
  GenerationRequest request;
  GenerateOptions& options = request.options;
  options.temperature = fields.number("temperature", 0, 100).value_or(1);
  options.top_p = fields.number("top_p", 0, 1).value_or(1);
  if (options.top_p == 0) throw ApiError(400, "top_p: must be above 0", "top_p");
  // Many clients send -1 for no limit.
  options.top_k =
      static_cast<std::size_t>(std::max<std::int64_t>(0, fields.integer("top_k", -1, kLargestCount).value_or(0)));
  options.min_p = fields.number("min_p", 0, 1).value_or(0);
  options.min_tokens = static_cast<std::size_t>(fields.integer("min_tokens", 0, kLargestCount).value_or(0));
  options.ignore_eos = fields.flag("ignore_eos", false);
  options.seed = read_seed(fields);
  options.stop = read_stops(fields, "stop");
  options.show_stop = fields.flag("include_stop_str_in_output", false);
  options.show_special_tokens = !fields.flag("skip_special_tokens", true);
  read_penalties(fields, options);
  read_ids(fields, model.vocab_size, options);
  set_defaults(fields, model.defaults, options);
  request.choices = read_choices(fields);
  request.salt = fields.text("cache_salt").value_or("");
  // The prefix cache stores the salt.
  if (request.salt.size() > kLongestSalt) {
    throw ApiError(400, files::concat("cache_salt: must have at most ", kLongestSalt, " bytes"), "cache_salt");
  }
  return request;
}

std::optional<std::size_t> read_prompt_logprobs(const RequestFields& fields, const Delivery& delivery) {
  const std::optional<std::int64_t> top = fields.integer("prompt_logprobs", 0, kMostTopLogprobs);
  if (!top) return std::nullopt;
  if (delivery.stream) throw ApiError(400, "prompt_logprobs: are not possible in a stream", "prompt_logprobs");
  return static_cast<std::size_t>(*top);
}

std::vector<std::vector<int>> read_bad_words(const RequestFields& fields, const text::Tokenizer& tokenizer) {
  std::vector<std::vector<int>> sequences;
  std::size_t tokens = 0;
  const auto add = [&](std::vector<int> ids) {
    if (ids.empty() || std::ranges::find(sequences, ids) != sequences.end()) return;
    tokens += ids.size();
    sequences.push_back(std::move(ids));
  };
  // Within a text a word may have other tokens than at the beginning, where some tokenizers add a space.
  const std::vector<int> before = tokenizer.encode("\n");
  fields.read("bad_words", [&](const files::JsonReader& value) {
    for (std::string& word : value.strings()) {
      if (word.empty() || word.size() > kLongestStop) {
        value.fail(files::concat("each must have 1 to ", kLongestStop, " bytes"));
      }
      // As in vLLM, a word is matched with spaces before it and without.
      if (const std::size_t begin = word.find_first_not_of(' '); begin != std::string::npos) word.erase(0, begin);
      add(tokenizer.encode(word));
      add(tokenizer.encode(" " + word));
      const std::vector<int> within = tokenizer.encode("\n" + word);
      if (std::ranges::mismatch(within, before).in2 == before.end()) {
        add({within.begin() + static_cast<std::ptrdiff_t>(before.size()), within.end()});
      }
      if (tokens > kMostBadWordTokens) value.fail(files::concat("have more than ", kMostBadWordTokens, " tokens"));
    }
    return true;
  });
  return sequences;
}

std::size_t kept_tokens(const PromptOptions& options, std::size_t most) {
  if (!options.truncate) return std::numeric_limits<std::size_t>::max();
  return *options.truncate < 0 ? most : static_cast<std::size_t>(*options.truncate);
}

PromptOptions read_prompt_options(const RequestFields& fields, const PromptOptions& usual) {
  PromptOptions options = usual;
  options.add_special_tokens = fields.flag("add_special_tokens", usual.add_special_tokens);
  if (const auto kept = fields.integer("truncate_prompt_tokens", -1, kLargestCount)) options.truncate = kept;
  if (options.truncate == 0) {
    throw ApiError(400, "truncate_prompt_tokens: 0 leaves nothing of a prompt", "truncate_prompt_tokens");
  }
  fields.read("truncation_side", [&](const files::JsonReader& value) {
    const std::string& side = value.string();
    if (side != "left" && side != "right") value.fail("must be \"left\" or \"right\"");
    options.keep_end = side == "left";
    return true;
  });
  return options;
}

AnswerLimit read_answer_limit(const RequestFields& fields, std::span<const std::string_view> names) {
  AnswerLimit limit = {.field = names.front()};
  for (const std::string_view name : names) {
    const auto tokens = fields.integer(name, -1, std::numeric_limits<std::int64_t>::max());
    if (!tokens || limit.tokens) continue;
    limit = {.field = name, .tokens = tokens};
  }
  return limit;
}

ApiError prompt_too_long(std::size_t tokens, std::size_t context_length) {
  const std::size_t most = context_length - 1;  // one token is for the answer
  return ApiError(400, files::concat("prompt is too long: ", tokens, " tokens > ", most, " maximum in a context of ",
                                     context_length))
      .with_code("context_length_exceeded");
}

std::size_t answer_tokens(const AnswerLimit& limit, std::size_t prompt_tokens, std::size_t context_length,
                          std::size_t usual, std::size_t most) {
  if (prompt_tokens >= context_length) throw prompt_too_long(prompt_tokens, context_length);
  const std::size_t room = context_length - prompt_tokens;
  if (!limit.tokens) return std::min(room, usual);
  if (*limit.tokens < 0 || std::cmp_greater(*limit.tokens, room)) return std::min(room, most);
  return static_cast<std::size_t>(*limit.tokens);
}

}  // namespace ballast::serve
