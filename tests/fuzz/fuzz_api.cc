// Any bytes are the body of a request: it is read, with every value in its range, or refused with an ApiError whose
// body is JSON.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "serve/api/api_error.h"
#include "serve/api/chat_format.h"
#include "serve/api/completion_format.h"
#include "serve/api/embedding_format.h"
#include "serve/api/infill_format.h"
#include "serve/api/messages_format.h"
#include "serve/api/ollama_format.h"
#include "serve/api/request_fields.h"
#include "serve/api/responses_format.h"

namespace {

using namespace ballast::serve;

constexpr std::size_t kVocabulary = 100;
const ModelFacts kModel = {.vocab_size = kVocabulary};

void check(bool holds) {
  if (!holds) __builtin_trap();
}

void check_generation(const GenerationRequest& request) {
  check(request.choices >= 1 && request.choices <= kMostChoices);
  check(request.options.temperature >= 0 && request.options.top_p > 0 && request.options.top_p <= 1);
  check(request.options.stop.size() <= 16);
  const auto is_token = [](int id) { return id >= 0 && static_cast<std::size_t>(id) < kVocabulary; };
  check(std::ranges::all_of(request.options.stop_tokens, is_token));
  check(std::ranges::all_of(request.options.allowed_tokens, is_token));
  for (const ballast::LogitBias& bias : request.options.logit_bias) {
    check(bias.id >= 0 && static_cast<std::size_t>(bias.id) < kVocabulary && bias.bias >= -100 && bias.bias <= 100);
  }
}

void check_chat(const ChatRequest& request) {
  check(!request.conversation.messages.empty());
  for (const nlohmann::ordered_json& message : request.conversation.messages) check(message.at("role").is_string());
  check(request.conversation.tools.is_null() || !request.conversation.tools.empty());
  check_generation(request.generation);
}

template <class Read>
void try_to(const Read& read) {
  try {
    read();
  } catch (const ApiError& error) {
    check(error.status() == 400);
    check(nlohmann::json::parse(error.body(ErrorForm::kOpenAi)).at("error").at("message").is_string());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  try_to([&] {
    const RequestFields fields(body);
    try_to([&] {
      const CompletionRequest request = read_completion(fields, kModel);
      check(!request.prompts.empty());
      check_generation(request.generation);
      check(answer_tokens(request.limit, 10, 50, 16, 40) <= 40);
    });
    try_to([&] { check_chat(read_chat(fields, kModel)); });
    try_to([&] { check_chat(read_messages_request(fields, kModel, true)); });
    try_to([&] { check_chat(read_responses_request(fields, kModel, "m", nlohmann::ordered_json::array()).chat); });
    try_to([&] {
      if (const auto request = read_ollama_chat(fields, kModel)) check_chat(*request);
    });
    try_to([&] {
      const auto request = read_ollama_generate(fields, kModel);
      if (request) check(request->raw.has_value() || !request->chat.conversation.messages.empty());
    });
    try_to([&] { check_generation(read_infill(fields, kModel).generation); });
    try_to([&] { check(!read_embedding(fields, kVocabulary, 64).inputs.empty()); });
  });
  return 0;
}
