#include "serve/api/tool_fields.h"

#include <algorithm>

#include "ballast/error.h"
#include "files/text.h"

namespace ballast::serve {
namespace {

constexpr std::size_t kMostTools = 512;
constexpr std::size_t kLongestName = 256;

bool is_name(std::string_view name) {
  const auto is_letter = [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || (letter >= '0' && letter <= '9') ||
           letter == '_' || letter == '-' || letter == '.';
  };
  return !name.empty() && name.size() <= kLongestName && std::ranges::all_of(name, is_letter);
}

bool has_tool(const ToolFields& fields, std::string_view name) {
  return std::ranges::any_of(fields.tools,
                             [&](const nlohmann::ordered_json& tool) { return tool["function"]["name"] == name; });
}

/// Calls `add` for each element of a list field; null elements do not exist in any client.
template <class Add>
void read_list(const RequestFields& fields, std::string_view field, const Add& add) {
  fields.read(field, [&](const files::JsonReader& list) {
    const std::vector<files::JsonReader> elements = list.elements();
    if (elements.size() > kMostTools) list.fail(files::concat("at most ", kMostTools, " are possible"));
    const nlohmann::ordered_json ordered = fields.ordered(field);
    for (std::size_t i = 0; i < elements.size(); ++i) add(elements[i], ordered[i]);
    return true;
  });
}

void read_tool(const files::JsonReader& tool, const nlohmann::ordered_json& ordered, ToolFields& read) {
  const std::string type = tool.text("type", "function");
  if (type != "function") {
    tool.fail("type", files::concat(files::in_quotes(type), " is not supported: only \"function\" is"));
  }
  const files::JsonReader function = tool.object("function");
  add_tool(ordered.at("function"), function.context(), read);
}

/// Reads "auto", "none" or "required", or an object that names a tool.
void read_choice(const files::JsonReader& value, ToolFields& read) {
  if (value.json().is_object()) {
    const bool nested = value.has("function");
    const std::string type = value.text("type", "function");
    if (type != "function" && type != "custom") {
      value.fail("type", files::concat(files::in_quotes(type), " is not supported: \"function\" and \"custom\" are"));
    }
    const files::JsonReader named = nested ? value.object("function") : value;
    return require_tool(named.text("name"), named.context(), read);
  }
  const std::string& choice = value.string();
  if (choice == "none") {
    read.choice.kind = text::ToolChoice::Kind::kNone;
  } else if (choice == "required" || choice == "any") {
    if (read.tools.is_null()) value.fail("needs tools to choose from");
    read.choice.kind = text::ToolChoice::Kind::kRequired;
  } else if (choice != "auto") {
    value.fail(files::concat(files::in_quotes(choice),
                             " is not supported: \"auto\", \"none\", \"required\" and a function's name are"));
  }
}

}  // namespace

void add_tool(const nlohmann::ordered_json& function, const std::string& context, ToolFields& fields) {
  const auto fail = [&](std::string_view problem) { throw Error(files::concat(context, ".", problem)); };
  const std::string name = function.contains("name") && function["name"].is_string() ? function["name"] : "";
  if (!is_name(name)) {
    fail(files::concat("name: must be 1 to ", kLongestName, " letters, digits, dots, dashes and underscores"));
  }
  if (has_tool(fields, name)) fail(files::concat("name: two tools are called ", files::in_quotes(name)));
  nlohmann::ordered_json tool = {{"type", "function"}, {"function", function}};
  nlohmann::ordered_json& described = tool["function"];
  // Templates do not expect null, which clients send for missing values.
  for (const char* optional : {"description", "parameters", "strict"}) {
    if (described.contains(optional) && described[optional].is_null()) described.erase(optional);
  }
  if (described.contains("description") && !described["description"].is_string()) fail("description: must be text");
  if (described.contains("parameters") && !described["parameters"].is_object()) {
    fail("parameters: must be an object, a JSON schema");
  }
  if (described.contains("strict") && !described["strict"].is_boolean()) fail("strict: must be true or false");
  if (fields.tools.is_null()) fields.tools = nlohmann::ordered_json::array();
  fields.tools.push_back(std::move(tool));
}

void require_tool(const std::string& name, std::string_view context, ToolFields& fields) {
  if (!has_tool(fields, name)) {
    throw Error(files::concat(context, ": there is no tool called ", files::in_quotes(name), " in the request"));
  }
  fields.choice.kind = text::ToolChoice::Kind::kNamed;
  fields.choice.name = name;
}

void read_tool_choice(const RequestFields& fields, std::string_view field, ToolFields& tools) {
  fields.read(field, [&](const files::JsonReader& choice) {
    read_choice(choice, tools);
    return true;
  });
}

nlohmann::ordered_json offered_tools(const ToolFields& fields) {
  return fields.choice.kind == text::ToolChoice::Kind::kNone ? nlohmann::ordered_json() : fields.tools;
}

ToolFields read_tools(const RequestFields& fields) {
  ToolFields read;
  read.older_names = fields.has("functions") && !fields.has("tools");
  if (read.older_names) {
    read.choice.parallel = false;
    read_list(fields, "functions", [&](const files::JsonReader& function, const nlohmann::ordered_json& ordered) {
      add_tool(ordered, function.context(), read);
    });
  } else {
    read_list(fields, "tools", [&](const files::JsonReader& tool, const nlohmann::ordered_json& ordered) {
      read_tool(tool, ordered, read);
    });
    read.choice.parallel = fields.flag("parallel_tool_calls", true);
  }
  read_tool_choice(fields, read.older_names ? "function_call" : "tool_choice", read);
  return read;
}

}  // namespace ballast::serve
