#include <string>

#include "doctest/doctest.h"
#include "error_message.h"
#include "model/tokenizer/tokenizer.h"
#include "tiny_tokenizer.h"

namespace ballast::model {
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
  CHECK(error_message([&] { apply(kSmolLm2 + "{{ x | trim }}", {{"user", "Hi"}}); }) == Contains("plain ChatML"));
}

TEST_CASE("of several templates the default one is taken") {
  const nlohmann::json list = {{{"name", "tools"}, {"template", "x"}}, {{"name", "default"}, {"template", "y"}}};
  const auto tokenizer = test::make_tiny_tokenizer(test::tiny_tokenizer_json(), {{"chat_template", list}});
  CHECK(tokenizer->chat_template() == "y");
}

}  // namespace
}  // namespace ballast::model
