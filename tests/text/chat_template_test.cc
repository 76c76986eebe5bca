#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "doctest/doctest.h"
#include "error_message.h"
#include "text/tokenizer.h"
#include "tiny_tokenizer.h"

namespace ballast::text {
namespace {

using test::Contains;
using test::error_message;

std::string apply(const std::string& chat_template, const std::vector<ChatMessage>& messages) {
  const auto tokenizer =
      test::make_tiny_tokenizer(test::tiny_tokenizer_json(), nlohmann::json::object(), chat_template);
  return apply_chat_template(*tokenizer, messages);
}

// SmolLM2-Instruct's.
const std::string kSmolLm2 =
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou "
    "are a "
    "helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + "
    "message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ "
    "'<|im_start|>assistant\n' }}{% endif %}";

// The part of Qwen2.5's that writes messages.
const std::string kQwen =
    "{%- if messages[0]['role'] == 'system' %}{{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}"
    "{%- else %}{{- '<|im_start|>system\\nYou are Qwen, don\\'t worry.<|im_end|>\\n' }}{%- endif %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}";

// tests/data/tokenizer/chat is written by scripts/make_golden_chats.py.
TEST_CASE("published templates give what transformers renders with them") {
  const nlohmann::json golden =
      nlohmann::json::parse(std::ifstream(std::filesystem::path(BALLAST_TEST_DATA) / "tokenizer/chat/chats.json"));
  const nlohmann::json& date = golden["today"];
  const auto today = std::chrono::year(date[0].get<int>()) / date[1].get<int>() / date[2].get<int>();
  CHECK(golden["templates"].size() == 20);
  for (const nlohmann::json& entry : golden["templates"]) {
    nlohmann::json config = {{"bos_token", entry["bos"]}, {"eos_token", entry["eos"]}};
    config["added_tokens_decoder"]["262"] = {{"content", entry["bos"]}, {"special", true}};
    config["added_tokens_decoder"]["263"] = {{"content", entry["eos"]}, {"special", true}};
    const auto tokenizer =
        test::make_tiny_tokenizer(test::tiny_tokenizer_json(), config, entry["template"].get<std::string>());
    for (std::size_t i = 0; i < golden["conversations"].size(); ++i) {
      const nlohmann::json& conversation = golden["conversations"][i];
      const nlohmann::json& prompt = entry["prompts"].at(i);
      std::vector<ChatMessage> messages;
      for (const nlohmann::json& message : conversation) messages.push_back({message[0], message[1]});
      CAPTURE(entry["name"].get<std::string>());
      CAPTURE(conversation.dump());
      if (prompt.is_null()) {
        CHECK(error_message([&] { apply_chat_template(*tokenizer, messages, today); }) == Contains("conversation: "));
      } else {
        CHECK(apply_chat_template(*tokenizer, messages, today) == prompt.get<std::string>());
      }
    }
  }
}

TEST_CASE("templates of other families are refused by name") {
  const auto refusal = [](const std::string& chat_template) {
    return error_message([&] { apply(chat_template, {{"user", "Hi"}}); });
  };
  CHECK(refusal("{{ bos_token }}{{ '<start_of_turn>' + role }}") == Contains("it is Gemma's and begins with"));
  CHECK(refusal("{{ '[SYSTEM_PROMPT]' }}[INST]") == Contains("Mistral's with [SYSTEM_PROMPT]"));
  CHECK(refusal("{{ messages }}") == Contains("it is an unknown one and begins with \"{{ messages }}\""));
}

TEST_CASE("ChatML puts every message between its marks and asks for an answer") {
  CHECK(apply(kSmolLm2, {{"system", "Be brief."}, {"user", "Hi"}}) ==
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
}

TEST_CASE("a template's own system message comes first when the conversation has none") {
  CHECK(apply(kSmolLm2, {{"user", "Hi"}}) ==
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  CHECK(apply(kQwen, {{"user", "Hi"}}) ==
        "<|im_start|>system\nYou are Qwen, don't "
        "worry.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
}

TEST_CASE("templates that are not plain ChatML are refused by their beginning") {
  CHECK(error_message([] { apply("", {{"user", "Hi"}}); }) == Contains("the model has none"));
  const std::string other =
      "{{ bos_token }}{% for message in messages %}[INST] {{ message['content'] | trim }} [/INST]";
  CHECK(error_message([&] { apply(other, {{"user", "Hi"}}); }) == Contains("begins with \"{{ bos_token }}{% for"));
  CHECK(error_message([&] { apply(kSmolLm2 + "{{ x | trim }}", {{"user", "Hi"}}); }) ==
        Contains("a variety of ChatML"));
}

TEST_CASE("of several templates the default one is taken") {
  const nlohmann::json list = {{{"name", "tools"}, {"template", "x"}}, {{"name", "default"}, {"template", "y"}}};
  const auto tokenizer = test::make_tiny_tokenizer(test::tiny_tokenizer_json(), {{"chat_template", list}});
  CHECK(tokenizer->chat_template() == "y");
}

}  // namespace
}  // namespace ballast::text
