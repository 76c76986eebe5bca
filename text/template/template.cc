#include "text/template/template.h"

#include <algorithm>

#include "ballast/error.h"
#include "files/utf8.h"
#include "text/template/interpreter.h"
#include "text/template/syntax/syntax_tree.h"
#include "text/template/values/print.h"

namespace ballast::text::jinja {
namespace {

constexpr std::string_view kContext = "chat template";
constexpr std::size_t kLongestSource = 4'000'000;  // bytes

Rendered rendered(const Text& text) {
  Rendered result;
  bool within = false;
  for (const char32_t character : text) {
    const bool is_users = (character & kUserMark) != 0;
    if (is_users && !within) result.from_user.push_back({result.text.size(), result.text.size()});
    files::append_utf8(unmarked(character), result.text);
    if (is_users) result.from_user.back().end = result.text.size();
    within = is_users;
  }
  return result;
}

// Some templates build special tokens from a message's role: '<|' + message.role + '|>'.
bool is_plain_role(const std::string& role) {
  return std::ranges::all_of(role, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-'; });
}

Value message_value(const nlohmann::ordered_json& message) {
  if (!message.is_object()) return from_json(message, Origin::kUser);
  Dict dict;
  for (const auto& [key, value] : message.items()) {
    const bool is_role = key == "role" && value.is_string() && is_plain_role(value.get_ref<const std::string&>());
    dict.set(key, from_json(value, is_role ? Origin::kTemplate : Origin::kUser));
  }
  return {std::move(dict)};
}

Dict values_of(const Variables& variables) {
  Dict values;
  for (const auto& [name, value] : variables.trusted.items()) values.set(name, from_json(value, Origin::kTemplate));
  for (const auto& [name, value] : variables.from_user.items()) {
    if (name == "messages" && value.is_array()) {
      std::vector<Value> messages;
      for (const nlohmann::ordered_json& message : value) messages.push_back(message_value(message));
      values.set(name, Value::list(std::move(messages)));
    } else {
      values.set(name, from_json(value, Origin::kUser));
    }
  }
  return values;
}

}  // namespace

struct Template::Tree {
  Body body;
};

Template::Template(std::string_view source) {
  if (source.size() > kLongestSource) throw Error(kContext, "is longer than any that is known");
  if (!files::is_utf8(source)) throw Error(kContext, "is not UTF-8");
  try {
    tree_ = std::make_unique<const Tree>(Tree{parse_template(source)});
  } catch (const TemplateProblem& problem) {
    throw Error(kContext, problem.what());
  }
}

Template::~Template() = default;
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;

Rendered Template::render(const Variables& variables, Limits limits) const {
  const Budget budget(limits);
  int line = 1;
  try {
    Interpreter interpreter(values_of(variables), variables.now);
    try {
      return rendered(interpreter.run(tree_->body));
    } catch (const TemplateProblem&) {
      line = interpreter.line();
      throw;
    }
  } catch (const TemplateProblem& problem) {
    throw Error(kContext, "line " + std::to_string(line) + ": " + problem.what());
  }
}

}  // namespace ballast::text::jinja
