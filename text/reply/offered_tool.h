// The tools that a request offers to a model.
#ifndef BALLAST_TEXT_REPLY_OFFERED_TOOL_H_
#define BALLAST_TEXT_REPLY_OFFERED_TOOL_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ballast::text {

struct OfferedTool {
  std::string name;
  nlohmann::ordered_json parameters{};  ///< the JSON schema of its arguments; null: any object
  bool strict = false;                  ///< the arguments must match the schema
};

/// Parses the text of a list of tools, for a chat template and for read_tools(). Empty text is null. Throws Error if it
/// is not the JSON of a list.
nlohmann::ordered_json parse_tools(const std::string& text);

/// Reads a list of tools as OpenAI's API has it: [{"type": "function", "function": {"name": .., "parameters": ..}}],
/// or the functions alone. Null is no tools. Throws Error naming the tool that is malformed, and for two with one name.
std::vector<OfferedTool> read_tools(const nlohmann::ordered_json& tools);

/// Returns the tool of that name, or null.
const OfferedTool* find_tool(const std::vector<OfferedTool>& tools, std::string_view name);

/// The kinds of a JSON value, which a schema may allow.
struct JsonTypes {
  bool string = false;
  bool number = false;
  bool boolean = false;
  bool null = false;
  bool object = false;
  bool array = false;

  bool only_string() const { return string && !number && !boolean && !null && !object && !array; }
};

inline constexpr JsonTypes kAllTypes = {
    .string = true, .number = true, .boolean = true, .null = true, .object = true, .array = true};

/// Returns the types that a schema within `root` allows; all if it does not say.
JsonTypes types_of(const nlohmann::ordered_json& schema, const nlohmann::ordered_json& root);

/// Returns the schema that has a keyword: this one, which is within `root`, or the first of those that it refers to or
/// combines. Null if none has it.
const nlohmann::ordered_json* schema_with(const nlohmann::ordered_json& schema, const nlohmann::ordered_json& root,
                                          const std::string& keyword);

/// Returns the schema of an object's member, or null if the object's schema does not say.
const nlohmann::ordered_json* member_schema(const nlohmann::ordered_json& schema, const nlohmann::ordered_json& root,
                                            const std::string& name);

/// Returns the types that the schema of a tool's arguments allows for one of them; all if it does not say.
JsonTypes argument_types(const nlohmann::ordered_json& schema, const std::string& argument);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_REPLY_OFFERED_TOOL_H_
