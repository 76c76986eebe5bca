#include "serve/api/generation_fields.h"

#include <algorithm>
#include <charconv>
#include <random>
#include <utility>
#include <vector>

#include "ballast/error.h"
#include "files/text.h"

namespace ballast::serve {
namespace {

constexpr std::size_t kMostStops = 16;
constexpr std::size_t kLongestStop = 1024;
constexpr std::size_t kMostIds = 1024;
constexpr std::int64_t kLargestCount = 1 << 30;

std::vector<std::string> read_stops(const files::JsonReader& value) {
  std::vector<std::string> stops = value.json().is_string() ? std::vector{value.string()} : value.strings();
  if (stops.size() > kMostStops) value.fail(files::concat("at most ", kMostStops, " are possible"));
  for (const std::string& stop : stops) {
    if (stop.empty() || stop.size() > kLongestStop) {
      value.fail(files::concat("each must have 1 to ", kLongestStop, " bytes"));
    }
  }
  return stops;
}

/// Each is looked at for each token.
void check_count(const files::JsonReader& value) {
  if (value.json().size() > kMostIds) value.fail(files::concat("at most ", kMostIds, " are possible"));
}

/// {"1234": -100}: names are ids.
std::vector<LogitBias> read_logit_bias(const files::JsonReader& value, std::size_t vocab_size) {
  check_count(value);
  std::vector<LogitBias> biases;
  for (const auto& [name, bias] : value.members()) {
    std::size_t id = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), id);
    if (error != std::errc() || end != name.data() + name.size() || id >= vocab_size) {
      value.fail(files::concat(files::in_quotes(name), " is no id of a token"));
    }
    const double number = bias.number();
    if (number < -100 || number > 100) bias.fail("must be from -100 to 100");
    biases.push_back({.id = static_cast<int>(id), .bias = static_cast<float>(number)});
  }
  return biases;
}

void refuse_unknown(const RequestFields& fields) {
  fields.read("response_format", [](const files::JsonReader& format) {
    const std::string type = format.text("type");
    if (type != "text")
      format.fail(files::concat("type ", files::in_quotes(type), " is not supported: only \"text\" is"));
    return true;
  });
  fields.read("tools", [](const files::JsonReader& tools) {
    if (!tools.elements().empty()) tools.fail("are not supported");
    return true;
  });
  for (const std::string_view field : {"functions", "guided_json", "guided_regex", "guided_choice", "guided_grammar",
                                       "structured_outputs", "grammar", "json_schema"}) {
    fields.refuse(field, "is not supported");
  }
}

}  // namespace

Delivery read_delivery(const RequestFields& fields) {
  Delivery delivery = {.stream = fields.flag("stream", false)};
  fields.read("stream_options", [&](const files::JsonReader& options) {
    if (!delivery.stream) options.fail("are for streams: set stream, too");
    delivery.include_usage = options.flag("include_usage", false);
    return true;
  });
  return delivery;
}

GenerationRequest read_generation(const RequestFields& fields, std::size_t vocab_size) {
  refuse_unknown(fields);
  GenerationRequest request;
  GenerateOptions& options = request.options;
  options.temperature = fields.number("temperature", 0, 100).value_or(1);
  options.top_p = fields.number("top_p", 0, 1).value_or(1);
  if (options.top_p == 0) throw ApiError(400, "top_p: must be above 0", "top_p");
  // -1 means no limit to many clients.
  options.top_k =
      static_cast<std::size_t>(std::max<std::int64_t>(0, fields.integer("top_k", -1, kLargestCount).value_or(0)));
  options.min_p = fields.number("min_p", 0, 1).value_or(0);
  options.presence_penalty = fields.number("presence_penalty", -2, 2).value_or(0);
  options.frequency_penalty = fields.number("frequency_penalty", -2, 2).value_or(0);
  options.repetition_penalty = fields.number("repetition_penalty", 0.01, 100).value_or(1);
  options.min_tokens = static_cast<std::size_t>(fields.integer("min_tokens", 0, kLargestCount).value_or(0));
  options.ignore_eos = fields.flag("ignore_eos", false);
  const std::optional<std::int64_t> seed =
      fields.integer("seed", std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max());
  options.seed = seed ? static_cast<std::uint64_t>(*seed) : std::random_device()();
  options.stop = fields.read("stop", read_stops).value_or(std::vector<std::string>());
  const auto read_ids = [&](const files::JsonReader& value) {
    check_count(value);
    return value.integers<int>(0, static_cast<int>(vocab_size) - 1);
  };
  options.stop_tokens = fields.read("stop_token_ids", read_ids).value_or(std::vector<int>());
  const auto read_bias = [&](const files::JsonReader& value) { return read_logit_bias(value, vocab_size); };
  options.logit_bias = fields.read("logit_bias", read_bias).value_or(std::vector<LogitBias>());
  request.choices = static_cast<std::size_t>(fields.integer("n", 1, kMostChoices).value_or(1));
  request.salt = fields.text("cache_salt").value_or("");
  return request;
}

std::size_t read_most_tokens(const RequestFields& fields, std::string_view name, std::size_t prompt_tokens,
                             std::size_t context_length, std::size_t fallback) {
  if (prompt_tokens >= context_length) {
    throw ApiError(400, files::concat("the prompt has ", prompt_tokens,
                                      " tokens, which leaves no room in a context of ", context_length))
        .with_code("context_length_exceeded");
  }
  const std::size_t room = context_length - prompt_tokens;
  const std::optional<std::int64_t> most = fields.integer(name, 0, kLargestCount);
  if (!most) return std::min(room, fallback);
  if (static_cast<std::size_t>(*most) > room) {
    throw ApiError(400,
                   files::concat(name, ": ", *most, " more than the prompt's ", prompt_tokens,
                                 " tokens exceed the context of ", context_length),
                   std::string(name))
        .with_code("context_length_exceeded");
  }
  return static_cast<std::size_t>(*most);
}

}  // namespace ballast::serve
