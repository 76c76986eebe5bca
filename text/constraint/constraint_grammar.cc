#include "text/constraint/constraint_grammar.h"

#include <algorithm>
#include <string_view>

#include "ballast/error.h"
#include "files/strict_json.h"
#include "files/text.h"
#include "files/utf8.h"
#include "text/constraint/grammar_limits.h"
#include "text/constraint/grammar_text.h"
#include "text/constraint/json_schema_grammar.h"
#include "text/constraint/regex_grammar.h"

namespace ballast::text {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kTagContext = "structural tag";
constexpr std::size_t kMostChoices = 10'000;

std::string choice_grammar(const std::vector<std::string>& choices) {
  if (choices.empty()) throw Error("choice", "has no texts to choose from");
  if (choices.size() > kMostChoices) throw Error("choice", files::concat("has more than ", kMostChoices, " texts"));
  std::string grammar = "root ::= ";
  for (const std::string& choice : choices) {
    if (choice.empty()) throw Error("choice", "has an empty text");
    if (!files::is_utf8(choice)) throw Error("choice", "has a text that is not UTF-8");
    if (&choice != &choices.front()) grammar += " | ";
    grammar += grammar_literal(choice);
  }
  if (grammar.size() > kMostGrammarBytes) throw Error("choice", "is too large");
  return grammar + "\n";
}

/// Checks and replaces one format of a structural tag and those in it.
class TagChecker {
 public:
  explicit TagChecker(const Constraint& constraint) : constraint_(constraint) {}

  void check(ordered_json& value) {
    if (value.is_array()) {
      for (ordered_json& item : value) check(item);
    }
    if (!value.is_object()) return;
    const std::string type =
        value.contains("type") && value["type"].is_string() ? value["type"].get<std::string>() : "";
    if (type == "json_schema") return replace_schema(value);
    if (type == "qwen_xml_parameter") return check_schema(value);
    if (type == "regex") return replace_regex(value);
    if (type == "grammar") return check_grammar(value);
    for (auto& [key, item] : value.items()) check(item);
  }

  std::vector<LengthRules> take_lengths() { return std::move(lengths_); }

 private:
  JsonSchemaGrammar grammar_of_schema(const ordered_json& format, bool unrolls_lengths) const {
    if (!format.contains("json_schema")) throw Error(kTagContext, "a format json_schema has no `json_schema`");
    const std::string schema = format["json_schema"].dump(-1, ' ', false, ordered_json::error_handler_t::replace);
    const auto option = [&](const char* name, bool usual) {
      return format.contains(name) && format[name].is_boolean() ? format[name].get<bool>() : usual;
    };
    return json_schema_grammar(schema, {.closed = option("closed", constraint_.closed),
                                        .compact = option("compact", constraint_.compact),
                                        .unrolls_lengths = unrolls_lengths});
  }

  void check_schema(const ordered_json& format) const { grammar_of_schema(format, true); }

  void replace_schema(ordered_json& format) {
    const bool is_json = !format.contains("style") || format["style"] == "json";
    if (!is_json) return check_schema(format);
    for (const char* option : {"any_order", "excludes"}) {
      if (format.contains(option) && format[option] != false && !format[option].empty()) {
        throw UnsupportedError(kTagContext, files::concat("`", option, "` of a format json_schema is not supported"));
      }
    }
    JsonSchemaGrammar grammar = grammar_of_schema(format, false);
    if (!grammar.lengths.empty()) {
      lengths_.push_back(std::move(grammar.lengths));
      constexpr std::string_view kRoot = "root";
      grammar.text.insert(kRoot.size(), files::concat("[temperature=", lengths_.size(), "]"));
    }
    format = {{"type", "grammar"}, {"grammar", std::move(grammar.text)}};
  }

  static void replace_regex(ordered_json& format) {
    if (!format.contains("pattern") || !format["pattern"].is_string()) {
      throw Error(kTagContext, "a format regex has no `pattern`");
    }
    const std::string pattern = format["pattern"].get<std::string>();
    format = {{"type", "grammar"},
              {"grammar", "root ::= " + regex_grammar(pattern, RegexUse::kWholeText, kTagContext) + "\n"}};
  }

  static void check_grammar(const ordered_json& format) {
    if (!format.contains("grammar") || !format["grammar"].is_string()) {
      throw Error(kTagContext, "a format grammar has no `grammar`");
    }
    check_grammar_limits(format["grammar"].get<std::string>());
  }

  const Constraint& constraint_;
  std::vector<LengthRules> lengths_;
};

constexpr std::string_view kAnyObject = R"({"type": "object"})";

JsonSchemaGrammar grammar_of(const Constraint& constraint) {
  const JsonGrammarOptions options = {.closed = constraint.closed, .compact = constraint.compact};
  switch (constraint.kind) {
    case Constraint::Kind::kJsonObject:
      return json_schema_grammar(kAnyObject, options);
    case Constraint::Kind::kJsonSchema:
      return json_schema_grammar(constraint.text, options);
    case Constraint::Kind::kRegex:
      return {"root ::= " + regex_grammar(constraint.text, RegexUse::kWholeText, "regex") + "\n", {}};
    case Constraint::Kind::kChoice:
      return {choice_grammar(constraint.choices), {}};
    case Constraint::Kind::kGrammar:
      check_grammar_limits(constraint.text);
      return {constraint.text, {}};
    case Constraint::Kind::kNone:
    case Constraint::Kind::kStructuralTag:
      break;
  }
  throw Error("constraint", "has no grammar");
}

}  // namespace

JsonSchemaGrammar constraint_grammar(const Constraint& constraint) {
  return grammar_of(constraint);
}

CheckedTag checked_structural_tag(const Constraint& constraint) {
  constexpr std::size_t kDeepest = 192;  // schemas may have 128
  constexpr std::size_t kMostBytes = std::size_t{1} << 19;
  if (constraint.text.size() > kMostBytes) {
    throw Error(kTagContext, files::concat("has ", constraint.text.size(), " bytes, must have at most ", kMostBytes));
  }
  const nlohmann::json checked = files::parse_strict_json(constraint.text, kTagContext, 0, kDeepest);
  if (!checked.is_object()) throw Error(kTagContext, "must be an object");
  ordered_json tag = ordered_json::parse(constraint.text);
  if (!tag.contains("format")) throw Error(kTagContext, "has no `format`");
  TagChecker checker(constraint);
  checker.check(tag["format"]);
  return {.json = tag.dump(), .lengths = checker.take_lengths()};
}

ordered_json constraint_format(const Constraint& constraint) {
  if (constraint.kind == Constraint::Kind::kNone) return {{"type", "any_text"}};
  if (constraint.kind == Constraint::Kind::kStructuralTag) {
    checked_structural_tag(constraint);
    return ordered_json::parse(constraint.text)["format"];
  }
  if (constraint.kind == Constraint::Kind::kJsonObject || constraint.kind == Constraint::Kind::kJsonSchema) {
    const bool is_any = constraint.kind == Constraint::Kind::kJsonObject;
    grammar_of(constraint);  // throws for a schema that is refused
    return {{"type", "json_schema"},
            {"json_schema", ordered_json::parse(is_any ? kAnyObject : std::string_view(constraint.text))},
            {"closed", constraint.closed},
            {"compact", constraint.compact}};
  }
  return {{"type", "grammar"}, {"grammar", grammar_of(constraint).text}};
}

}  // namespace ballast::text
