// The tools of /v1/responses. The model knows all of them as functions with a name each; the API also has namespaces of
// functions, and custom tools, which take a text instead of arguments.
#ifndef BALLAST_SERVE_API_RESPONSE_TOOLS_H_
#define BALLAST_SERVE_API_RESPONSE_TOOLS_H_

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "serve/api/request_fields.h"
#include "serve/api/tool_fields.h"

namespace ballast::serve {

/// A tool as the API names it.
struct ResponseTool {
  std::string name;
  std::string name_space{};  ///< empty: none
  bool takes_text = false;   ///< a custom tool
};

/// By the name of the function that the model calls.
using ResponseToolMap = std::map<std::string, ResponseTool, std::less<>>;

struct ResponseTools {
  ToolFields fields{};  ///< as functions
  ResponseToolMap by_function{};
  nlohmann::ordered_json listed = nlohmann::ordered_json::array();  ///< as the request has them
};

/// Reads `tools`, `tool_choice` and `parallel_tool_calls`. Tools that the server itself would have to run, such as a
/// search in the web, which some clients always send, are left out. Throws ApiError.
ResponseTools read_response_tools(const RequestFields& fields);

/// Returns the name of the function for a tool.
std::string function_name(std::string_view name_space, std::string_view name);

/// Return the arguments of the function for a custom tool's text, and the text in such arguments: all of them if the
/// model has written something else.
nlohmann::ordered_json custom_tool_arguments(const std::string& text);
std::string custom_tool_text(const std::string& arguments);

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_API_RESPONSE_TOOLS_H_
