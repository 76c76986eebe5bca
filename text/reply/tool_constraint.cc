#include "text/reply/tool_constraint.h"

#include <optional>
#include <string_view>
#include <utility>

#include "ballast/error.h"
#include "files/text.h"
#include "text/reply/argument_values.h"
#include "text/reply/call_marks.h"

namespace ballast::text {
namespace {

using nlohmann::ordered_json;
using Nodes = std::vector<ordered_json>;

// With more optional arguments than these, of which none is required, only their marks are constrained: the
// alternatives grow with the square.
constexpr std::size_t kMostOptionalFirst = 24;

// Elements within more others than these are any text, and so are those after this many within others: schemas that
// refer to each other in several ways have exponentially many.
constexpr std::size_t kDeepestConstrained = 8;
constexpr std::size_t kMostConstrained = 1'000;

ordered_json sequence(Nodes elements) {
  if (elements.size() == 1) return std::move(elements.front());
  return {{"type", "sequence"}, {"elements", std::move(elements)}};
}

ordered_json one_of(Nodes elements) {
  if (elements.size() == 1) return std::move(elements.front());
  return {{"type", "or"}, {"elements", std::move(elements)}};
}

ordered_json any_number_of(ordered_json content) {
  return {{"type", "star"}, {"content", std::move(content)}};
}

ordered_json maybe(ordered_json content) {
  return {{"type", "optional"}, {"content", std::move(content)}};
}

ordered_json expression(std::string_view pattern) {
  return {{"type", "regex"}, {"pattern", pattern}};
}

ordered_json schema_node(ordered_json schema) {
  return {{"type", "json_schema"}, {"json_schema", std::move(schema)}};
}

Nodes operator+(Nodes a, Nodes b) {
  a.insert(a.end(), std::make_move_iterator(b.begin()), std::make_move_iterator(b.end()));
  return a;
}

/// Writes the formats of one syntax in the tokens of one vocabulary.
class ConstraintWriter {
 public:
  ConstraintWriter(const ReplyFormat& format, const Tokenizer& tokenizer, const std::vector<OfferedTool>& tools,
                   const ToolChoice& choice)
      : format_(format), syntax_(format.calls.front()), tokenizer_(tokenizer), choice_(choice) {
    for (const OfferedTool& tool : tools) {
      if (choice.kind != ToolChoice::Kind::kNamed || tool.name == choice.name) tools_.push_back(&tool);
    }
  }

  /// Returns one call or several, and nothing else.
  ordered_json calls() const { return calls_after({expression("\\n{0,2}")}); }

  /// Returns calls that may end the thinking, whose last white space is thinking; null if none may.
  ordered_json calls_ending_thinking() const { return syntax_.ends_thinking ? calls_after({}) : ordered_json(nullptr); }

  /// Returns text with any number of calls in it.
  ordered_json text_with_calls() const {
    const std::vector<MarkPart> mark = split_mark(syntax_.open, tokenizer_);
    const bool is_token = mark.size() == 1 && mark.front().token;
    const ordered_json pattern = is_token ? ordered_json(*mark.front().token) : ordered_json(syntax_.open);
    return {{"type", is_token ? "token_dispatch" : "dispatch"},
            {"rules", ordered_json::array({ordered_json::array({pattern, sequence(section())})})},
            {"loop", choice_.parallel}};
  }

  /// Returns harmony's messages: thinking, then a call or what `answer` says.
  ordered_json messages(bool may_answer, const ordered_json& answer, std::optional<std::size_t> thinking_tokens) const {
    ordered_json thought = any_text({});
    if (thinking_tokens) thought["max_tokens"] = *thinking_tokens;
    const ordered_json thinking =
        sequence(text("<|channel|>") + Nodes{one_of({constant("analysis"), constant("commentary")})} +
                 text("<|message|>") + Nodes{thought} + text("<|end|><|start|>assistant"));
    Nodes ends;
    for (const OfferedTool* tool : tools_) {
      const std::string to = std::string(format_.recipient) + tool->name;
      ends.push_back(sequence(Nodes{one_of({sequence(text("<|channel|>commentary " + to + " <|constrain|>json")),
                                            sequence(text(" " + to + "<|channel|>commentary json"))})} +
                              text("<|message|>") + Nodes{schema_node(schema_of(*tool))}));
    }
    if (may_answer) {
      ends.push_back(sequence(text("<|channel|>final<|message|>") + Nodes{answer.is_null() ? any_text({}) : answer}));
    }
    return sequence({thinking_tokens ? maybe(thinking) : any_number_of(thinking), one_of(std::move(ends))});
  }

 private:
  ordered_json calls_after(Nodes space) const {
    const ordered_json one = sequence(text(syntax_.open) + section());
    ordered_json first = sequence(std::move(space) + Nodes{one});
    if (!choice_.parallel || repeats_in_section() || syntax_.open_is_call) return first;
    return sequence({first, any_number_of(sequence({maybe(constant("\n")), one}))});
  }

  static ordered_json constant(std::string_view value) { return {{"type", "const_string"}, {"value", value}}; }

  static ordered_json any_text(Nodes excludes) {
    ordered_json node = {{"type", "any_text"}};
    if (!excludes.empty()) node["excludes"] = std::move(excludes);
    return node;
  }

  /// Returns fixed text with its special tokens.
  Nodes text(std::string_view written) const {
    Nodes nodes;
    for (const MarkPart& part : split_mark(written, tokenizer_)) {
      if (part.token) {
        nodes.push_back({{"type", "token"}, {"token", *part.token}});
      } else {
        std::string visible = part.text;
        std::erase(visible, kUnwrittenSpace);
        if (!visible.empty()) nodes.push_back(constant(visible));
      }
    }
    return nodes;
  }

  /// Returns any text up to fixed text, and that.
  Nodes text_up_to(std::string_view end) const {
    const std::vector<MarkPart> parts = split_mark(end, tokenizer_);
    const bool is_token = !parts.empty() && parts.front().token.has_value();  // no text contains it
    const std::size_t begin = end.find_first_not_of("\n\t");
    return Nodes{any_text(is_token ? Nodes() : Nodes{std::string(end.substr(begin))})} + text(end);
  }

  bool follows_schema(const OfferedTool& tool) const { return choice_.kind != ToolChoice::Kind::kAuto || tool.strict; }

  ordered_json schema_of(const OfferedTool& tool) const {
    if (!follows_schema(tool) || tool.parameters.is_null()) return {{"type", "object"}};
    ordered_json schema = tool.parameters;
    if (!schema.contains("type") && !schema.contains("$ref")) schema["type"] = "object";
    return schema;
  }

  bool is_list() const { return syntax_.arguments == CallArguments::kJsonByName || syntax_.writes_list; }

  bool repeats_in_section() const { return is_list() || (!syntax_.next.empty() && !syntax_.open_is_call); }

  /// Returns what follows the mark of calls.
  Nodes section() const {
    Nodes choices;
    for (const OfferedTool* tool : tools_) choices.push_back(sequence(call(*tool)));
    const ordered_json one = one_of(std::move(choices));
    Nodes nodes = text(syntax_.first);
    if (syntax_.open_is_call) nodes.clear();
    if (is_list()) nodes.push_back(constant("["));
    nodes.push_back(one);
    if (choice_.parallel && repeats_in_section()) {
      const std::string_view next = syntax_.next.substr(0, syntax_.next.size() - (syntax_.next_is_call ? 1 : 0));
      const Nodes separator = is_list() ? Nodes{constant(", ")} : text(next);
      nodes.push_back(any_number_of(sequence(separator + Nodes{one})));
    }
    if (is_list()) nodes.push_back(constant("]"));
    return std::move(nodes) + text(syntax_.close);
  }

  Nodes call(const OfferedTool& tool) const {
    if (syntax_.arguments == CallArguments::kJsonByName) {
      return {constant("{" + json_string(tool.name) + ": "), schema_node(schema_of(tool)), constant("}")};
    }
    if (syntax_.arguments == CallArguments::kJsonWithName) {
      // The mark of a format without marks is the first byte of the call.
      std::string head(syntax_.json_head.substr(syntax_.open_is_call ? syntax_.open.size() : 0));
      append_escaped(tool.name, head);
      head += syntax_.json_middle;
      return Nodes{constant(head), schema_node(schema_of(tool)), constant("}")} + text(syntax_.after_arguments);
    }
    Nodes nodes = {constant(std::string(syntax_.name_prefix) + tool.name)};
    if (syntax_.numbers_names) nodes.push_back(expression(":[0-9]{1,3}"));
    if (!syntax_.after_name.empty()) nodes = std::move(nodes) + text(syntax_.after_name.front());
    return std::move(nodes) + arguments(tool) + text(syntax_.after_arguments);
  }

  Nodes arguments(const OfferedTool& tool) const {
    switch (syntax_.arguments) {
      case CallArguments::kParameters: {
        const std::string_view end = syntax_.parameters.end;
        if (!follows_schema(tool)) return text_up_to(end);
        return properties(tool, "", text_up_to(end)) + (has_properties(tool) ? text(end) : Nodes());
      }
      case CallArguments::kElements: {
        const std::string end = tag(syntax_.elements.end);
        if (!follows_schema(tool) || !has_properties(tool)) return text_up_to(end);
        std::size_t written = 0;
        return members(tool.parameters, tool.parameters, 0, written) + text(end);
      }
      case CallArguments::kPython:
        return properties(tool, ", ", {expression("[^()]*")}) + Nodes{constant(")")};
      case CallArguments::kGemma:
        return properties(tool, ",", {expression("[^{}]*")}) + Nodes{constant("}")};
      default:
        return {schema_node(schema_of(tool))};
    }
  }

  static bool is_required(const ordered_json& schema, const std::string& name) {
    if (!schema.contains("required") || !schema["required"].is_array()) return false;
    return std::ranges::find(schema["required"], ordered_json(name)) != schema["required"].end();
  }

  static bool has_properties(const OfferedTool& tool) {
    return tool.parameters.is_object() && tool.parameters.contains("properties") &&
           tool.parameters["properties"].is_object();
  }

  /// Returns the properties of a tool's schema, the required ones first, or `other` if the schema has none.
  Nodes properties(const OfferedTool& tool, std::string_view separator, Nodes other) const {
    if (!has_properties(tool)) return other;
    const ordered_json& schema = tool.parameters;
    Nodes required;
    Nodes optional;
    for (const auto& [name, value] : schema["properties"].items()) {
      (is_required(schema, name) ? required : optional).push_back(sequence(property(schema, name, value)));
    }
    const auto after = [&](ordered_json node) {
      return separator.empty() ? node : sequence({constant(separator), std::move(node)});
    };
    Nodes nodes;
    for (ordered_json& node : required) nodes.push_back(nodes.empty() ? std::move(node) : after(std::move(node)));
    if (!nodes.empty() || separator.empty()) {
      for (ordered_json& node : optional) nodes.push_back(maybe(after(std::move(node))));
      return nodes;
    }
    if (optional.size() > kMostOptionalFirst) return other;
    Nodes beginnings = {constant("")};
    for (std::size_t i = 0; i < optional.size(); ++i) {
      Nodes from = {optional[i]};
      for (std::size_t j = i + 1; j < optional.size(); ++j) from.push_back(maybe(after(optional[j])));
      beginnings.push_back(sequence(std::move(from)));
    }
    return {one_of(std::move(beginnings))};
  }

  Nodes property(const ordered_json& root, const std::string& name, ordered_json schema) const {
    schema = with_definitions(std::move(schema), root);
    const JsonTypes types = argument_types(root, name);
    if (syntax_.arguments == CallArguments::kPython) return {constant(name + "="), schema_node(std::move(schema))};
    if (syntax_.arguments == CallArguments::kGemma) {
      Nodes nodes = {constant(name + ":")};
      if (!types.only_string()) return nodes + Nodes{schema_node(std::move(schema))};
      constexpr std::string_view kQuote = R"(<|"|>)";
      return std::move(nodes) + text(kQuote) + string_value(schema, kQuote);
    }
    const ParameterSyntax& marks = syntax_.parameters;
    const bool is_text = types.string;
    std::string_view name_end = marks.name_ends.front().mark;
    for (const ParameterNameEnd& end : marks.name_ends) {
      if (end.is_string == is_text) name_end = end.mark;
    }
    const std::string line = marks.own_lines ? "\n" : "";
    const std::string close = line + std::string(marks.close);
    Nodes nodes = text(marks.open) + Nodes{constant(name)} + text(name_end);
    if (marks.own_lines) nodes.push_back(constant(line));
    if (is_text) return std::move(nodes) + string_value(schema, close);
    return std::move(nodes) + Nodes{schema_node(std::move(schema))} + text(close);
  }

  /// Returns a part of a schema with the definitions that it may refer to.
  static ordered_json with_definitions(ordered_json schema, const ordered_json& root) {
    for (const char* definitions : {"$defs", "definitions"}) {
      if (schema.is_object() && root.contains(definitions)) schema[definitions] = root[definitions];
    }
    return schema;
  }

  std::string tag(std::string_view name) const { return files::concat(syntax_.elements.mark, "<", name, ">"); }

  /// Returns the elements of an object's members, in the schema's order.
  Nodes members(const ordered_json& schema, const ordered_json& root, std::size_t depth, std::size_t& written) const {
    Nodes nodes;
    for (const auto& [name, value] : schema["properties"].items()) {
      ordered_json member = sequence(text(tag(name)) + element_value(value, root, name, depth, written));
      nodes.push_back(is_required(schema, name) ? std::move(member) : maybe(std::move(member)));
    }
    return nodes;
  }

  /// Returns what follows an element's opening tag, with the closing one. `written`: elements so far.
  Nodes element_value(const ordered_json& schema, const ordered_json& root, const std::string& name, std::size_t depth,
                      std::size_t& written) const {
    const std::string end = tag("/" + name);
    const JsonTypes types = types_of(schema, root);
    if (types.string) return string_value(schema, end);
    const bool may_be_deeper = depth < kDeepestConstrained && written < kMostConstrained;
    ++written;
    if (const ordered_json* list = schema_with(schema, root, "items");
        list != nullptr && types.array && may_be_deeper) {
      const std::string item(syntax_.elements.item);
      const Nodes value = element_value((*list)["items"], root, item, depth + 1, written);
      return Nodes{any_number_of(sequence(text(tag(item)) + value))} + text(end);
    }
    if (const ordered_json* object = schema_with(schema, root, "properties");
        object != nullptr && (*object)["properties"].is_object() && types.object && may_be_deeper) {
      return members(*object, root, depth + 1, written) + text(end);
    }
    if (types.object || types.array) return text_up_to(end);
    return Nodes{schema_node(with_definitions(schema, root))} + text(end);
  }

  /// Returns a string without quotes and what ends it.
  Nodes string_value(const ordered_json& schema, std::string_view end) const {
    if (!schema.is_object() || !schema.contains("enum") || !schema["enum"].is_array()) return text_up_to(end);
    Nodes values;
    for (const ordered_json& value : schema["enum"]) {
      if (value.is_string()) values.push_back(constant(value.get<std::string>()));
    }
    return values.empty() ? text_up_to(end) : Nodes{one_of(std::move(values))} + text(end);
  }

  const ReplyFormat& format_;
  const CallSyntax& syntax_;
  const Tokenizer& tokenizer_;
  const ToolChoice& choice_;
  std::vector<const OfferedTool*> tools_;
};

}  // namespace

ToolConstraint tool_constraint(const ReplyFormat& format, const Tokenizer& tokenizer,
                               const std::vector<OfferedTool>& tools, const ToolChoice& choice,
                               const ordered_json& answer, std::optional<std::size_t> thinking_tokens) {
  using enum ToolChoice::Kind;
  const bool requires_call = choice.kind == kRequired || choice.kind == kNamed;
  if (choice.kind == kNamed && find_tool(tools, choice.name) == nullptr) {
    throw Error("tool_choice", files::concat(files::in_quotes(choice.name), " is not one of the tools"));
  }
  if (requires_call && (tools.empty() || format.calls.empty())) {
    throw Error("tool_choice", tools.empty() ? std::string("requires a call, and there are no tools")
                                             : files::concat("requires a call, and the reply format ", format.name,
                                                             " has none; name another with --reply-format"));
  }
  if (choice.kind == kNone || tools.empty() || format.calls.empty()) return {.format = answer};
  const ConstraintWriter writer(format, tokenizer, tools, choice);
  if (!format.recipient.empty()) {
    return {.format = writer.messages(!requires_call, answer, thinking_tokens), .has_thinking = true};
  }
  ToolConstraint constraint;
  constraint.ending_thinking = writer.calls_ending_thinking();
  if (requires_call) {
    constraint.format = writer.calls();
  } else if (!answer.is_null()) {
    constraint.format = one_of({writer.calls(), answer});
  } else if (!format.calls.front().open_is_call) {
    constraint.format = writer.text_with_calls();
  }
  return constraint;
}

}  // namespace ballast::text
