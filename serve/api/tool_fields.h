// The tools that a request offers to the model, in OpenAI's form.
#ifndef BALLAST_SERVE_API_TOOL_FIELDS_H_
#define BALLAST_SERVE_API_TOOL_FIELDS_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "serve/api/request_fields.h"
#include "text/reply/tool_constraint.h"

namespace ballast::serve {

/// Tools and how they may be called.
struct ToolFields {
  /// Null, or a list of {"type":"function","function":{"name","description","parameters"}}, as chat templates read it.
  nlohmann::ordered_json tools{};
  text::ToolChoice choice{};
  bool older_names = false;  ///< the request has `functions`, and is answered with `function_call`
};

/// Adds a tool, whose `function` has a name, and may have a description, parameters and `strict`. Throws Error naming
/// `context` for a name that a model could not call or that another tool has, and for parameters that are not an
/// object.
void add_tool(const nlohmann::ordered_json& function, const std::string& context, ToolFields& fields);

/// Sets the tool that must be called. Throws Error naming `context` if it is not among the tools.
void require_tool(const std::string& name, std::string_view context, ToolFields& fields);

/// Reads OpenAI's forms of a choice: "auto", "none", "required", or an object that names a tool. Throws ApiError.
void read_tool_choice(const RequestFields& fields, std::string_view field, ToolFields& tools);

/// Returns the tools that the model sees in its prompt; null if it may call none.
nlohmann::ordered_json offered_tools(const ToolFields& fields);

/// Reads `tools`, `tool_choice` and `parallel_tool_calls`, or the older `functions` and `function_call`. Throws
/// ApiError.
ToolFields read_tools(const RequestFields& fields);

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_API_TOOL_FIELDS_H_
