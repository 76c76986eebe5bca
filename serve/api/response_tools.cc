#include "serve/api/response_tools.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "files/json_reader.h"
#include "files/text.h"
#include "serve/api/message_text.h"

namespace ballast::serve {
namespace {

using Json = nlohmann::ordered_json;
using files::JsonReader;

constexpr const char* kText = "input";  // the argument of a custom tool's function

/// Returns whether a type is of a tool that the server would run, or that only a model trained for it can call. Many
/// have a date at their end.
bool is_left_out(std::string_view type) {
  constexpr std::array<std::string_view, 10> kTypes = {
      "web_search",  "file_search", "code_interpreter", "image_generation", "computer", "mcp", "tool_search",
      "local_shell", "shell",       "apply_patch"};
  return std::ranges::any_of(kTypes, [&](std::string_view known) { return type.starts_with(known); });
}

Json parameters_of_text() {
  return {{"type", "object"},
          {"properties", {{kText, {{"type", "string"}}}}},
          {"required", {kText}},
          {"additionalProperties", false}};
}

/// Returns a custom tool's description, with the grammar of its text: the model sees it, but it is not enforced.
std::string custom_tool_description(const JsonReader& tool) {
  std::string description = tool.text("description", "");
  if (!tool.has("format")) return description;
  const JsonReader format = tool.object("format");
  const std::string type = format.text("type");
  if (type == "text") return description;
  if (type != "grammar") {
    format.fail("type", files::concat(files::in_quotes(type), " is not supported: \"text\" and \"grammar\" are"));
  }
  if (!description.empty()) description += "\n\n";
  return description +
         files::concat("The input matches this grammar (", format.text("syntax"), "):\n", format.text("definition"));
}

/// Reads tools one by one.
class ToolReader {
 public:
  void add(const JsonReader& tool, const Json& ordered) {
    const std::string type = tool.text("type");
    if (is_left_out(type)) return;
    if (type == "namespace") {
      add_namespace(tool, ordered);
    } else {
      add_callable(tool, ordered, {});
    }
    tools_.listed.push_back(ordered);
  }

  ResponseTools take() { return std::move(tools_); }

 private:
  void add_namespace(const JsonReader& tool, const Json& ordered) {
    const std::string name = tool.text("name");
    std::size_t index = 0;
    for (const JsonReader& member : tool.at("tools").elements()) {
      add_callable(member, ordered.at("tools").at(index++), name);
    }
  }

  void add_callable(const JsonReader& tool, const Json& ordered, const std::string& name_space) {
    const std::string type = tool.text("type");
    if (type != "function" && type != "custom") {
      tool.fail("type", files::concat(files::in_quotes(type),
                                      " is not supported: \"function\", \"custom\" and \"namespace\" are"));
    }
    const bool takes_text = type == "custom";
    const std::string name = tool.text("name");
    Json function = {{"name", function_name(name_space, name)}};
    if (takes_text) {
      function["description"] = custom_tool_description(tool);
      function["parameters"] = parameters_of_text();
    } else {
      for (const char* member : {"description", "parameters", "strict"}) {
        if (ordered.contains(member)) function[member] = ordered[member];
      }
    }
    add_tool(function, tool.context(), tools_.fields);
    tools_.by_function.emplace(function["name"].get<std::string>(),
                               ResponseTool{.name = name, .name_space = name_space, .takes_text = takes_text});
  }

  ResponseTools tools_;
};

}  // namespace

ResponseTools read_response_tools(const RequestFields& fields) {
  ToolReader reader;
  const Json ordered = fields.ordered("tools");
  fields.read("tools", [&](const JsonReader& tools) {
    std::size_t index = 0;
    for (const JsonReader& tool : tools.elements()) reader.add(tool, ordered.at(index++));
    return true;
  });
  ResponseTools tools = reader.take();
  read_tool_choice(fields, "tool_choice", tools.fields);
  tools.fields.choice.parallel = fields.flag("parallel_tool_calls", true);
  return tools;
}

std::string function_name(std::string_view name_space, std::string_view name) {
  if (name_space.empty()) return std::string(name);
  return files::concat(name_space, name_space.ends_with("__") ? "" : "__", name);
}

Json custom_tool_arguments(const std::string& text) {
  return {{kText, text}};
}

std::string custom_tool_text(const std::string& arguments) {
  const Json read = read_call_arguments(arguments);
  const bool has_text = read.is_object() && read.contains(kText) && read[kText].is_string();
  return has_text ? read[kText].get<std::string>() : arguments;
}

}  // namespace ballast::serve
