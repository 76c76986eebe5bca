#include "serve/service/request_memory.h"

#include <algorithm>
#include <string>

namespace ballast::serve {
namespace {

// A sampler's state, an entry of the queue, and other objects of fixed size.
constexpr std::size_t kBytesOfText = 8 << 10;
constexpr std::size_t kBytesOfRequest = 2 << 10;

// A token's text: about 4 bytes, in the answer, in its JSON and in the send buffer.
constexpr std::size_t kBytesOfToken = 24;

// A token and its log-probability: as numbers, as JSON that is sent ({"token": " the", "logprob": -0.123456789,
// "bytes": [32, 116, 104, 101]}); and as JSON that is being made, of one text at a time.
constexpr std::size_t kBytesOfLogprob = sizeof(TokenLogprob) + 100;
constexpr std::size_t kBytesOfLogprobJson = 400;

struct TokensBytes {
  std::size_t kept = 0;
  std::size_t being_made = 0;
};

TokensBytes bytes_of(std::size_t tokens, const std::optional<std::size_t>& logprobs) {
  TokensBytes bytes = {.kept = tokens * kBytesOfToken};
  if (!logprobs) return bytes;
  const std::size_t entries = tokens * (1 + *logprobs);
  bytes.kept += tokens * (sizeof(GeneratedToken) + sizeof(std::size_t)) + entries * kBytesOfLogprob;
  bytes.being_made = entries * kBytesOfLogprobJson;
  return bytes;
}

/// Options are copied for each text: by the request, the sampler and the search for stop strings.
std::size_t bytes_of(const GenerateOptions& options) {
  std::size_t bytes = sizeof(GenerateOptions) + options.logit_bias.size() * sizeof(LogitBias) +
                      (options.stop_tokens.size() + options.allowed_tokens.size()) * sizeof(int);
  for (const std::vector<int>& sequence : options.forbidden_sequences) {
    bytes += sizeof(std::vector<int>) + sequence.size() * sizeof(int);
  }
  for (const std::string& stop : options.stop) bytes += sizeof(std::string) + stop.size();
  return 3 * bytes;
}

}  // namespace

std::size_t body_bytes(std::string_view body, std::size_t copies) {
  constexpr std::size_t kElement = 48;  // of a growing list
  constexpr std::size_t kMember = 112;  // of an object
  constexpr std::size_t kContainer = 80;
  std::size_t bytes = 0;
  bool within_text = false;
  for (std::size_t i = 0; i < body.size(); ++i) {
    const char c = body[i];
    if (c == '"') within_text = !within_text;
    if (within_text) {
      i += c == '\\' ? 1 : 0;
    } else if (c == ',') {
      bytes += kElement;
    } else if (c == ':') {
      bytes += kMember;
    } else if (c == '[' || c == '{') {
      bytes += kContainer;
    }
  }
  return bytes + copies * body.size();
}

std::size_t generation_bytes(std::span<const GenerationRequest> requests, const AnswerShape& shape) {
  std::size_t kept = 0;
  std::size_t most_being_made = 0;
  for (const GenerationRequest& request : requests) {
    const std::size_t prompt = request.prompt.size();
    const std::size_t generated = request.options.max_tokens;
    TokensBytes text = bytes_of(shape.stream && !shape.repeats_answer ? 0 : generated, shape.logprobs);
    if (shape.repeats_answer) text.kept += 2 * text.being_made;  // as JSON from the first token on, and in the events
    if (shape.echo) {
      const TokensBytes echoed = bytes_of(prompt, shape.logprobs);
      text.kept += echoed.kept;
      text.being_made += echoed.being_made;
    }
    if (shape.prompt_logprobs) {
      const TokensBytes scored = bytes_of(prompt, shape.prompt_logprobs);
      text.kept += scored.kept;
      text.being_made += scored.being_made;
    }
    const std::size_t ids = sizeof(int) * (2 * prompt + generated);
    const std::size_t each = kBytesOfText + bytes_of(request.options) + ids + text.kept;
    kept += kBytesOfRequest + sizeof(int) * 2 * prompt + request.choices * each;
    most_being_made = std::max(most_being_made, text.being_made);
  }
  return kept + most_being_made;
}

std::size_t embedding_bytes(std::span<const GenerationRequest> requests, std::size_t size, bool base64) {
  constexpr std::size_t kBytesOfText64 = 16;  // with the JSON around it, which is copied once
  constexpr std::size_t kBytesOfNumber = 48;
  std::size_t bytes = 0;
  for (const GenerationRequest& request : requests) {
    bytes += kBytesOfRequest + kBytesOfText + sizeof(int) * 4 * request.prompt.size() +
             size * (sizeof(float) + (base64 ? kBytesOfText64 : kBytesOfNumber));
  }
  return bytes;
}

}  // namespace ballast::serve
