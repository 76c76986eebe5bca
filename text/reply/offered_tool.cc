#include "text/reply/offered_tool.h"

#include <algorithm>

#include "ballast/error.h"
#include "files/strict_json.h"
#include "files/text.h"
#include "files/utf8.h"

namespace ballast::text {
namespace {

using nlohmann::ordered_json;

// References of a schema to itself end here.
constexpr std::size_t kDeepestSchema = 32;

// Schemas that refer to each other in several ways have exponentially many paths: after this many all types are
// allowed.
constexpr std::size_t kMostVisits = 500;

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

JsonTypes types_of_schema(const ordered_json& schema, const ordered_json& root, std::size_t depth,
                          std::size_t& visits) {
  if (!schema.is_object() || depth == kDeepestSchema || visits == kMostVisits) return kAllTypes;
  ++visits;
  const auto types_of = [&](const ordered_json& each) { return types_of_schema(each, root, depth + 1, visits); };
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

/// Returns the first schema that `fits`: this one, or one of those that it refers to or combines.
template <typename Fits>
const ordered_json* find_schema(const ordered_json& schema, const ordered_json& root, const Fits& fits,
                                std::size_t depth, std::size_t& visits) {
  if (!schema.is_object() || depth == kDeepestSchema || visits == kMostVisits) return nullptr;
  ++visits;
  if (fits(schema)) return &schema;
  for (const auto& [name, value] : schema.items()) {
    if (name == "$ref") {
      const ordered_json* target = referred(root, value);
      if (target == nullptr) continue;
      if (const ordered_json* found = find_schema(*target, root, fits, depth + 1, visits)) return found;
    }
    if ((name != "anyOf" && name != "oneOf" && name != "allOf") || !value.is_array()) continue;
    for (const ordered_json& each : value) {
      if (const ordered_json* found = find_schema(each, root, fits, depth + 1, visits)) return found;
    }
  }
  return nullptr;
}

template <typename Fits>
const ordered_json* find_schema(const ordered_json& schema, const ordered_json& root, const Fits& fits) {
  std::size_t visits = 0;
  return find_schema(schema, root, fits, 0, visits);
}

OfferedTool read_tool(const ordered_json& tool, const std::string& context) {
  if (!tool.is_object()) throw Error(context, "must be an object");
  const ordered_json& function = tool.contains("function") ? tool["function"] : tool;
  const bool is_named = function.is_object() && function.contains("name") && function["name"].is_string() &&
                        !function["name"].get_ref<const std::string&>().empty();
  if (!is_named) {
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

JsonTypes types_of(const ordered_json& schema, const ordered_json& root) {
  std::size_t visits = 0;
  return types_of_schema(schema, root, 0, visits);
}

const ordered_json* schema_with(const ordered_json& schema, const ordered_json& root, const std::string& keyword) {
  return find_schema(schema, root, [&](const ordered_json& each) { return each.contains(keyword); });
}

const ordered_json* member_schema(const ordered_json& schema, const ordered_json& root, const std::string& name) {
  const ordered_json* object = find_schema(schema, root, [&](const ordered_json& each) {
    return each.contains("properties") && each["properties"].is_object() && each["properties"].contains(name);
  });
  if (object != nullptr) return &(*object)["properties"][name];
  object = schema_with(schema, root, "additionalProperties");
  return object == nullptr ? nullptr : &(*object)["additionalProperties"];
}

JsonTypes argument_types(const ordered_json& schema, const std::string& argument) {
  const ordered_json* found = member_schema(schema, schema, argument);
  return found == nullptr ? kAllTypes : types_of(*found, schema);
}

}  // namespace ballast::text
