// Any bytes are a model's chat template and, after the first 0xFF, the body of a request with messages: they give a
// prompt with tokens, or are refused.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "../support/tiny_tokenizer.h"
#include "ballast/error.h"
#include "serve/api/api_error.h"
#include "serve/api/chat_format.h"
#include "serve/api/request_fields.h"
#include "text/chat/chat_prompt.h"
#include "text/tokenizer.h"

namespace {

using ballast::text::Tokenizer;

void check_prompt(const Tokenizer& tokenizer, const ballast::text::ChatPrompt& prompt) {
  const auto size = static_cast<int>(tokenizer.vocab_size());
  for (const int id : ballast::text::encode(tokenizer, prompt)) {
    if (id < 0 || id >= size) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const nlohmann::json tokenizer_json = ballast::test::tiny_tokenizer_json();
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t end = input.find('\xFF');
  if (end == std::string_view::npos) return 0;
  try {
    const ballast::serve::RequestFields fields(input.substr(end + 1));
    const ballast::serve::ChatRequest chat = ballast::serve::read_chat(fields, {.vocab_size = 100});
    const std::unique_ptr<Tokenizer> tokenizer =
        ballast::test::make_tiny_tokenizer(tokenizer_json, {}, std::string(input.substr(0, end)));
    check_prompt(*tokenizer, ballast::text::apply_chat_template(*tokenizer, chat.conversation));
  } catch (const ballast::Error&) {            // NOLINT(bugprone-empty-catch): a refused template or chat
  } catch (const ballast::serve::ApiError&) {  // NOLINT(bugprone-empty-catch): a refused request
  }
  return 0;
}
