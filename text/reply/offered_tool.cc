#include "text/reply/offered_tool.h"

#include <algorithm>

#include "ballast/error.h"
#include "files/strict_json.h"
#include "files/text.h"
#include "files/utf8.h"

namespace ballast::text {
namespace {

using nlohmann::ordered_json;

constexpr JsonTypes kAllTypes = {
    .string = true, .number = true, .boolean = true, .null = true, .object = true, .array = true};

// References of a schema to itself end here.
constexpr std::size_t kDeepestSchema = 32;

JsonTypes either(const JsonTypes& a, const JsonTypes& b) {
  return {.string = a.string || b.string,
          .number = a.number || b.number,
          .boolean = a.boolean || b.boolean,
          .null = a.null || b.null,
          .object = a.object || b.object,
          .array = a.array || b.array};
}

JsonTypes both(const JsonTypes& a, const JsonTypes& b) {
  return {.string = a.string && b.string,
          .number = a.number && b.number,
          .boolean = a.boolean && b.boolean,
          .null = a.null && b.null,
          .object = a.object && b.object,
          .array = a.array && b.array};
}

JsonTypes type_of_name(const ordered_json& name) {
  return {.string = name == "string",
          .number = name == "number" || name == "integer",
          .boolean = name == "boolean",
          .null = name == "null",
          .object = name == "object",
          .array = name == "array"};
}

JsonTypes type_of_value(const ordered_json& value) {
  return {.string = value.is_string(),
          .number = value.is_number(),
          .boolean = value.is_boolean(),
          .null = value.is_null(),
          .object = value.is_object(),
          .array = value.is_array()};
}

template <typename TypesOf>
JsonTypes any_of(const ordered_json& list, const TypesOf& types_of) {
  JsonTypes types;
  for (const ordered_json& each : list) types = either(types, types_of(each));
  return types;
}

/// Returns the schema that a reference into `root` means, or null.
const ordered_json* referred(const ordered_json& root, const ordered_json& reference) {
  if (!reference.is_string()) return nullptr;
  const std::string& text = reference.get_ref<const std::string&>();
  if (!text.starts_with("#")) return nullptr;
  try {
    const ordered_json::json_pointer pointer(text.substr(1));
    return root.contains(pointer) ? &root.at(pointer) : nullptr;
  } catch (const ordered_json::exception&) {  // an anchor, or escaped wrongly
    return nullptr;
  }
}

JsonTypes types_of_schema(const ordered_json& schema, const ordered_json& root, std::size_t depth) {
  if (!schema.is_object() || depth == kDeepestSchema) return kAllTypes;
  const auto types_of = [&](const ordered_json& each) { return types_of_schema(each, root, depth + 1); };
  JsonTypes types = kAllTypes;
  for (const auto& [name, value] : schema.items()) {
    if (name == "type") types = both(types, value.is_array() ? any_of(value, type_of_name) : type_of_name(value));
    if (name == "const") types = both(types, type_of_value(value));
    if (name == "enum" && value.is_array()) types = both(types, any_of(value, type_of_value));
    if ((name == "anyOf" || name == "oneOf") && value.is_array()) types = both(types, any_of(value, types_of));
    if (name == "allOf" && value.is_array()) {
      for (const ordered_json& each : value) types = both(types, types_of(each));
    }
    if (name != "$ref") continue;
    if (const ordered_json* target = referred(root, value)) types = both(types, types_of(*target));
  }
  if (schema.contains("nullable") && schema["nullable"] == true) types.null = true;  // OpenAPI 3.0
  return types;
}

OfferedTool read_tool(const ordered_json& tool, const std::string& context) {
  if (!tool.is_object()) throw Error(context, "must be an object");
  const ordered_json& function = tool.contains("function") ? tool["function"] : tool;
  if (!function.is_object() || !function.contains("name") || !function["name"].is_string() || function["name"] == "") {
    throw Error(context, "needs a function with a name");
  }
  OfferedTool offered = {.name = function["name"].get<std::string>()};
  if (function.contains("parameters") && !function["parameters"].is_null()) {
    offered.parameters = function["parameters"];
    if (!offered.parameters.is_object()) throw Error(context, "parameters must be a JSON schema, an object");
  }
  offered.strict = function.contains("strict") && function["strict"] == true;
  return offered;
}

}  // namespace

ordered_json parse_tools(const std::string& text) {
  if (text.empty()) return nullptr;
  if (!files::is_utf8(text)) throw Error("tools", "are not UTF-8");
  if (!files::parse_strict_json(text, "tools").is_array()) throw Error("tools", "must be a JSON list");
  return ordered_json::parse(text);
}

std::vector<OfferedTool> read_tools(const ordered_json& tools) {
  std::vector<OfferedTool> offered;
  if (tools.is_null()) return offered;
  if (!tools.is_array()) throw Error("tools", "must be a list");
  for (std::size_t i = 0; i < tools.size(); ++i) {
    const std::string context = files::concat("tools[", i, "]");
    OfferedTool tool = read_tool(tools[i], context);
    if (find_tool(offered, tool.name) != nullptr) {
      throw Error(context, files::concat("another tool is called ", files::in_quotes(tool.name), ", too"));
    }
    offered.push_back(std::move(tool));
  }
  return offered;
}

const OfferedTool* find_tool(const std::vector<OfferedTool>& tools, std::string_view name) {
  const auto found = std::ranges::find(tools, name, &OfferedTool::name);
  return found == tools.end() ? nullptr : &*found;
}

JsonTypes argument_types(const ordered_json& schema, const std::string& argument) {
  if (!schema.is_object()) return kAllTypes;
  if (const auto properties = schema.find("properties"); properties != schema.end() && properties->is_object()) {
    if (const auto found = properties->find(argument); found != properties->end()) {
      return types_of_schema(*found, schema, 0);
    }
  }
  const auto others = schema.find("additionalProperties");
  return others == schema.end() ? kAllTypes : types_of_schema(*others, schema, 0);
}

}  // namespace ballast::text
