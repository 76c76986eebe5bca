#include "serve/api/text_format.h"

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

std::string token_text(const text::Tokenizer& tokenizer, int id) {
  return files::replace_invalid_utf8(tokenizer.token_bytes(id));
}

}  // namespace ballast::serve
