#include "serve/api/text_format.h"

#include <algorithm>
#include <string>

#include "files/utf8.h"

namespace ballast::serve {

nlohmann::ordered_json finish_reason(const std::optional<GenerateResult::Finish>& finish) {
  if (!finish) return nullptr;
  return *finish == GenerateResult::Finish::kStop ? "stop" : "length";
}

nlohmann::ordered_json usage_json(const RequestUsage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.generated_tokens},
          {"total_tokens", usage.prompt_tokens + usage.generated_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

nlohmann::ordered_json prompt_logprobs_json(const text::Tokenizer& tokenizer, std::span<const GeneratedToken> scores,
                                            std::size_t top) {
  nlohmann::ordered_json entries = nlohmann::ordered_json::array({nullptr});
  for (const GeneratedToken& token : scores) {
    nlohmann::ordered_json entry = nlohmann::ordered_json::object();
    const auto add = [&](int id, double logprob, std::size_t rank) {
      entry.emplace(
          std::to_string(id),
          nlohmann::ordered_json{{"logprob", logprob}, {"rank", rank}, {"decoded_token", token_text(tokenizer, id)}});
    };
    add(token.id, token.logprob, token.rank);
    const std::size_t count = std::min(top, token.top.size());
    for (std::size_t i = 0; i < count; ++i) add(token.top[i].id, token.top[i].logprob, i + 1);
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::string token_text(const text::Tokenizer& tokenizer, int id) {
  return files::replace_invalid_utf8(tokenizer.token_bytes(id));
}

}  // namespace ballast::serve
