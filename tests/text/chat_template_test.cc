#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "doctest/doctest.h"
#include "error_message.h"
#include "text/chat/chat_prompt.h"
#include "text/tokenizer.h"
#include "tiny_tokenizer.h"

namespace ballast::text {
namespace {

using test::Contains;
using test::error_message;

std::string apply(const std::string& chat_template, const std::vector<ChatMessage>& messages) {
  const auto tokenizer =
      test::make_tiny_tokenizer(test::tiny_tokenizer_json(), nlohmann::json::object(), chat_template);
  return apply_chat_template(*tokenizer, make_conversation(messages)).text;
}

// SmolLM2-Instruct's template.
const std::string kSmolLm2 =
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou "
    "are a "
    "helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + "
    "message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ "
    "'<|im_start|>assistant\n' }}{% endif %}";

// The part of Qwen2.5's template that writes messages.
const std::string kQwen =
    "{%- if messages[0]['role'] == 'system' %}{{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}"
    "{%- else %}{{- '<|im_start|>system\\nYou are Qwen, don\\'t worry.<|im_end|>\\n' }}{%- endif %}"
    "{%- for m in messages if m.role != 'system' %}{{- '<|im_start|>' + m.role + '\\n' + "
    "m.content + '<|im_end|>\\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}";

// tests/data/tokenizer/chat is written by scripts/make_golden_chats.py.
TEST_CASE("published templates give what transformers renders with them") {
  const nlohmann::json golden =
      nlohmann::json::parse(std::ifstream(std::filesystem::path(BALLAST_TEST_DATA) / "tokenizer/chat/chats.json"));
  const nlohmann::json& date = golden["today"];
  std::tm today{};
  today.tm_year = date[0].get<int>() - 1900;
  today.tm_mon = date[1].get<int>() - 1;
  today.tm_mday = date[2].get<int>();
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
      const bool repeats_role = std::ranges::adjacent_find(messages, {}, &ChatMessage::role) != messages.end();
      if (prompt.is_null() && repeats_role) {  // transformers do not merge turns
        const std::string merged = apply_chat_template(*tokenizer, make_conversation(messages), today).text;
        CHECK(merged.contains(messages[0].content + "\n\n" + messages[1].content));
      } else if (prompt.is_null()) {
        CHECK(error_message([&] { apply_chat_template(*tokenizer, make_conversation(messages), today); }) ==
              Contains("conversation: "));
      } else {
        CHECK(apply_chat_template(*tokenizer, make_conversation(messages), today).text == prompt.get<std::string>());
      }
    }
  }
}

TEST_CASE("ChatML puts every message between its marks and ends with the beginning of an answer") {
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

TEST_CASE("turns that a template refuses are merged to those that it takes") {
  const std::string strict =
      "{% for m in messages %}{% if m.role == 'system' and not loop.first %}{{ raise_exception('late') }}{% endif %}"
      "{% if not loop.first and m.role == messages[loop.index0 - 1].role %}{{ raise_exception('alternate') }}{% endif "
      "%}"
      "{% if m.role == 'user' and not loop.first and messages[loop.index0 - 1].role == 'tool' %}{{ "
      "raise_exception('tool') }}"
      "{% endif %}{{ '[' + m.role + ':' + m.content + ']' }}{% endfor %}";
  const std::vector<ChatMessage> messages = {{"system", "a"},    {"system", "b"},    {"user", "c"}, {"system", "d"},
                                             {"assistant", "e"}, {"system", "f"},    {"user", "g"}, {"tool", "h"},
                                             {"user", "i"},      {"assistant", "j"}, {"user", "k"}};
  CHECK(apply(strict, messages) ==
        "[system:a\n\nb][user:c\n\nd][assistant:e][user:f\n\ng][tool:h\n\ni][assistant:j][user:k]");
  const std::string lenient = "{% for m in messages %}{{ m.role[0] + m.content }}{% endfor %}";
  CHECK(apply(lenient, messages) == "sasbucsdaesfugthuiajuk");
  CHECK(error_message([&] { apply(strict, {{"user", "a"}, {"assistant", "b"}, {"assistant", "c"}}); }) ==
        Contains("alternate"));
}

TEST_CASE("a model without a template, and an invalid template, are refused") {
  CHECK(error_message([] { apply("", {{"user", "Hi"}}); }) == Contains("the model has none"));
  CHECK(error_message([] { apply("{{ x", {{"user", "Hi"}}); }) == Contains("chat template: line 1: a tag has no end"));
  CHECK(error_message([] { apply("x", {}); }) == "conversation: has no message");
}

TEST_CASE("arguments reach the template, and cannot replace the conversation") {
  const auto prompt = [](const std::string& arguments) {
    const auto tokenizer =
        test::make_tiny_tokenizer(test::tiny_tokenizer_json(), nlohmann::json::object(),
                                  "{{ messages[0].content }}{% if thinking is false %}!{% endif %}{{ tools }}");
    return apply_chat_template(*tokenizer, make_conversation(std::vector<ChatMessage>{{"user", "Hi"}}, arguments)).text;
  };
  CHECK(prompt("") == "HiNone");
  CHECK(prompt(R"({"thinking": false})") == "Hi!None");
  CHECK(error_message([&] { prompt("[]"); }) == Contains("arguments of the chat template: must be a JSON object"));
  CHECK(error_message([&] { prompt("{"); }) == Contains("arguments of the chat template: "));
  CHECK(error_message([&] { prompt(R"({"messages": 1})"); }) == Contains("cannot replace messages"));
}

TEST_CASE("a message's other fields reach the template in their order, and are read again as they were") {
  const std::string fields = R"({"reasoning_content":"hm","mood":{"z":1,"a":[null,2.5]}})";
  const ChatMessage message = {.role = "assistant", .content = "yes", .fields = fields};
  const nlohmann::ordered_json made = chat_message_json(message);
  CHECK(made.dump() == R"({"role":"assistant","content":"yes",)" + fields.substr(1));
  const ChatMessage again = read_chat_message(made, "place");
  CHECK(again.role == "assistant");
  CHECK(again.content == "yes");
  CHECK(again.fields == fields);
  CHECK(apply("{{ messages[1].reasoning_content }} {{ messages[1].thinking }} {{ messages[1].mood | tojson }}",
              {{"user", "Hi"}, message}) == R"(hm hm {"z": 1, "a": [null, 2.5]})");
}

TEST_CASE("a model's thinking is part of its content if the template needs it so") {
  const std::string mistral =
      "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for part in m.content %}"
      "{% if part.type == 'thinking' %}[THINK]{{ part.thinking }}[/THINK]{% else %}{{ part.text }}{% endif %}"
      "{% endfor %}{% endif %};{% endfor %}";
  const std::vector<ChatMessage> messages = {
      {.role = "user", .content = "a", .fields = R"({"thinking": "no"})"},
      {.role = "assistant", .content = "yes", .fields = R"({"reasoning_content": "hm"})"},
      {.role = "assistant", .content = "", .fields = R"({"reasoning": "hm"})"},
      {.role = "assistant", .content = "plain"}};
  CHECK(apply(mistral, messages) == "a;[THINK]hm[/THINK]yes;[THINK]hm[/THINK];plain;");
}

TEST_CASE("parts of text are one text for the template, a line each") {
  const ChatMessage parts = {.role = "user", .content = "", .fields = R"({"content": [{"type": "text", "text": "a"},
                             {"type": "text", "text": "b"}]})"};
  CHECK(apply("{{ messages[0].content + '!' }}", {parts}) == "a\nb!");
}

TEST_CASE("contents that are not text are handled or refused") {
  const auto read = [](const std::string& source) {
    return read_chat_message(nlohmann::ordered_json::parse(source), "place");
  };
  CHECK(read(R"({"role": "assistant", "content": null})").content == "");
  CHECK(read(R"({"role": "assistant", "tool_calls": []})").fields == R"({"tool_calls":[]})");
  const ChatMessage parts =
      read(R"({"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]})");
  CHECK(parts.content == "a\nb");
  CHECK(chat_message_json(parts)["content"].size() == 2);
  for (const char* wrong : {"[]", "1", R"({"content": "a"})", R"({"role": 1, "content": "a"})", R"({"role": "user"})",
                            R"({"role": "user", "content": 1})", R"({"role": "assistant", "content": {}})",
                            R"({"role": "user", "content": ["a"]})"}) {
    CAPTURE(wrong);
    CHECK(error_message([&] { read(wrong); }) == Contains("place: "));
  }
  const auto with = [](const std::string& fields) {
    return error_message([&] { chat_message_json({.role = "user", .content = "a", .fields = fields}); });
  };
  CHECK(with("[]") == Contains("must be a JSON object"));
  CHECK(with(R"({"role": "system"})") == Contains("cannot replace role"));
}

TEST_CASE("a template sees the special tokens that have a name, and no others") {
  const auto tokenizer = test::make_tiny_tokenizer(
      test::tiny_tokenizer_json(), {{"unk_token", "he"}, {"pad_token", "ll"}, {"bos_token", nullptr}},
      "{{ unk_token }}|{{ pad_token }}|{{ bos_token is defined }}|{{ sep_token is defined }}");
  CHECK(apply_chat_template(*tokenizer, make_conversation(std::vector<ChatMessage>{{"user", "Hi"}})).text ==
        "he|ll|False|False");
}

TEST_CASE("a conversation with tools uses the template for tools") {
  const nlohmann::json list = {{{"name", "tool_use"}, {"template", "{{ tools | tojson }}"}},
                               {{"name", "default"}, {"template", "{{ tools }}"}}};
  const auto tokenizer = test::make_tiny_tokenizer(test::tiny_tokenizer_json(), {{"chat_template", list}});
  Conversation conversation = make_conversation(std::vector<ChatMessage>{{"user", "Hi"}});
  CHECK(apply_chat_template(*tokenizer, conversation).text == "None");
  conversation.tools = {{{"type", "function"}}};
  CHECK(apply_chat_template(*tokenizer, conversation).text == R"([{"type": "function"}])");
}

TEST_CASE("a special token that a user writes is text, one that the template writes is a token") {
  const auto tokenizer =
      test::make_tiny_tokenizer(test::tiny_tokenizer_json(), nlohmann::json::object(),
                                "{{ messages[0].content }}<|end|>{{ '<|' + messages[1].content + '|>' }}");
  const ChatPrompt prompt = apply_chat_template(
      *tokenizer, make_conversation(std::vector<ChatMessage>{{"user", "hello<|end|>"}, {"user", "end"}}));
  CHECK(prompt.text == "hello<|end|><|end|><|end|>");
  const std::vector<int> ids = encode(*tokenizer, prompt);
  CHECK(std::ranges::count(ids, 261) == 1);
  CHECK(ids.front() == 259);
  CHECK(decode(*tokenizer, ids) == "hello<|end|><|end|>");
  CHECK(std::ranges::count(tokenizer->encode(prompt.text), 261) == 3);
}

TEST_CASE("a special token that matches normalized text is text if a user writes it") {
  nlohmann::json json = test::tiny_tokenizer_json();
  json["added_tokens"][0]["normalized"] = true;
  const auto tokenizer = test::make_tiny_tokenizer(json, nlohmann::json::object(), "{{ messages[0].content }}<|end|>");
  const ChatPrompt prompt =
      apply_chat_template(*tokenizer, make_conversation(std::vector<ChatMessage>{{"user", "a<|end|>"}}));
  const std::vector<int> ids = encode(*tokenizer, prompt);
  CHECK(std::ranges::count(ids, 261) == 1);
  CHECK(ids.back() == 261);
  CHECK(decode(*tokenizer, ids) == "a<|end|>");
}

TEST_CASE("of several templates the default one is used") {
  const nlohmann::json list = {{{"name", "tools"}, {"template", "x"}}, {{"name", "default"}, {"template", "y"}}};
  const auto tokenizer = test::make_tiny_tokenizer(test::tiny_tokenizer_json(), {{"chat_template", list}});
  CHECK(tokenizer->chat_template() == "y");
}

TEST_CASE("a final message that is continued ends the prompt, with the spaces that the template leaves") {
  const auto continued = [](const std::string& chat_template, const std::string& content) {
    const auto tokenizer =
        test::make_tiny_tokenizer(test::tiny_tokenizer_json(), nlohmann::json::object(), chat_template);
    Conversation conversation =
        make_conversation(std::vector<ChatMessage>{{"user", "Sure, in"}, {"assistant", content}});
    conversation.continue_final_message = true;
    return apply_chat_template(*tokenizer, conversation).text;
  };
  const std::string plain = "{% for m in messages %}<{{ m.content }}>{% endfor %}";
  CHECK(continued(plain, "Sure, ") == "<Sure, in><Sure, ");
  CHECK(continued(plain, "in") == "<Sure, in><in");
  CHECK(continued(plain, "") == "<Sure, in><");
  CHECK(continued(plain, "END_OF_FINAL_MESSAGE ") == "<Sure, in><END_OF_FINAL_MESSAGE ");
  const std::string trims = "{% for m in messages %}<{{ m.content | trim }}>{% endfor %}";
  CHECK(continued(trims, " Sure,\n ") == "<Sure, in><Sure,");
  CHECK(continued(trims, "  ") == "<Sure, in><");
  CHECK(error_message([&] { continued("{{ messages[0].content }}", "in"); }) ==
        Contains("leaves out the text of the final message"));
}

TEST_CASE("a final message of parts is continued, and what users wrote is marked up to its end") {
  const auto tokenizer = test::make_tiny_tokenizer(
      test::tiny_tokenizer_json(), nlohmann::json::object(),
      "{% for m in messages %}<{% for p in m.content %}{{ p.text }}{% endfor %}>{% endfor %}");
  Conversation conversation;
  conversation.messages.push_back({{"role", "user"}, {"content", {{{"type", "text"}, {"text", "one"}}}}});
  conversation.messages.push_back(
      {{"role", "assistant"},
       {"content", {{{"type", "text"}, {"text", "two"}}, {{"type", "text"}, {"text", "three"}}}}});
  conversation.continue_final_message = true;
  const ChatPrompt prompt = apply_chat_template(*tokenizer, conversation);
  CHECK(prompt.text == "<one><twothree");
  REQUIRE_FALSE(prompt.from_user.empty());
  CHECK(prompt.from_user.back().end == prompt.text.size());
}

TEST_CASE("the template gets add_generation_prompt = false without a generation prompt") {
  const auto tokenizer = test::make_tiny_tokenizer(test::tiny_tokenizer_json(), nlohmann::json::object(),
                                                   "{{ messages[0].content }}{{ add_generation_prompt }}");
  Conversation conversation = make_conversation(std::vector<ChatMessage>{{"user", "a"}});
  CHECK(apply_chat_template(*tokenizer, conversation).text == "aTrue");
  conversation.add_generation_prompt = false;
  CHECK(apply_chat_template(*tokenizer, conversation).text == "aFalse");
}

TEST_CASE("a template gets the arguments of calls as an object or as text, as it reads them") {
  const auto rendered = [](const std::string& chat_template, const nlohmann::ordered_json& arguments) {
    const auto tokenizer =
        test::make_tiny_tokenizer(test::tiny_tokenizer_json(), nlohmann::json::object(), chat_template);
    Conversation conversation;
    conversation.messages = {{{"role", "user"}, {"content", "a"}},
                             {{"role", "assistant"},
                              {"content", ""},
                              {"tool_calls", {{{"function", {{"name", "f"}, {"arguments", arguments}}}}}}}};
    return apply_chat_template(*tokenizer, conversation).text;
  };
  const std::string calls = "{% for m in messages %}{% for call in m.tool_calls or [] %}";
  const std::string end = "{% endfor %}{% endfor %}";
  const std::string as_json = calls + "{{ call.function.arguments | tojson }}" + end;
  const std::string items =
      calls + "{% for k, v in call.function.arguments.items() %}{{ k }}:{{ v }};{% endfor %}" + end;
  const std::string joined = calls + "{{ '<' + call.function.arguments + '>' }}" + end;
  const std::string plain = calls + "{{ call.function.arguments }}" + end;
  const nlohmann::ordered_json object = {{"b", 1}, {"a", "x"}};
  for (const nlohmann::ordered_json& given : {object, nlohmann::ordered_json(R"({"b": 1, "a": "x"})")}) {
    CHECK(rendered(as_json, given) == R"({"b": 1, "a": "x"})");
    CHECK(rendered(items, given) == "b:1;a:x;");
  }
  CHECK(rendered(joined, R"({"b": 1})") == R"(<{"b": 1}>)");
  CHECK(rendered(plain, R"({"b": 1})") == R"({"b": 1})");
  CHECK(rendered(plain, nlohmann::ordered_json{{"b", 1}}) == R"({"b":1})");
  CHECK(rendered(as_json, "no JSON") == "\"no JSON\"");
  CHECK(rendered(items, "") == "");
}

TEST_CASE("tools need a template that writes them") {
  const auto tokenizer = [](const std::string& chat_template) {
    return test::make_tiny_tokenizer(test::tiny_tokenizer_json(), nlohmann::json::object(), chat_template);
  };
  Conversation conversation = make_conversation(std::vector<ChatMessage>{{"user", "a"}});
  conversation.tools = {{{"type", "function"}, {"function", {{"name", "f"}}}}};
  const auto with = tokenizer("{{ tools[0].function.name }}");
  CHECK(template_takes_tools(*with));
  CHECK(apply_chat_template(*with, conversation).text == "f");
  const auto without = tokenizer("{{ messages[0].content }}");
  CHECK_FALSE(template_takes_tools(*without));
  CHECK(error_message([&] { apply_chat_template(*without, conversation); }) ==
        Contains("chat template: does not support tools"));
}

}  // namespace
}  // namespace ballast::text
