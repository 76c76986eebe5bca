// How a model writes calls of tools: data about a format.
#ifndef BALLAST_TEXT_REPLY_CALL_SYNTAX_H_
#define BALLAST_TEXT_REPLY_CALL_SYNTAX_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace ballast::text {

enum class CallArguments : std::uint8_t {
  kJson,          ///< a JSON object after the name
  kJsonWithName,  ///< a JSON object with name and arguments, or a list of them
  kJsonByName,    ///< a list of JSON objects whose only member has the tool's name, and the arguments as its value
  kParameters,    ///< marks around each name and value: ParameterSyntax
  kElements,      ///< an element for each value, with elements of members and items within it: ElementSyntax
  kPython,        ///< k=v, ... and ")"
  kGemma,         ///< k:v, ... and "}": strings between <|"|>
};

/// The beginning of a parameter: the mark between its name and its value.
struct ParameterNameEnd {
  std::string_view mark;
  std::optional<bool> is_string{};  ///< whether the value is a string; absent: by the tool's schema
};

struct ParameterSyntax {
  std::string_view open{};
  std::vector<ParameterNameEnd> name_ends{};
  std::string_view close{};
  std::string_view end{};  ///< after the last one
  bool own_lines = false;  ///< a line break before and after a value is not a part of it
  bool in_cdata = false;   ///< a string may be written between <![CDATA[ and ]]>
};

/// Elements as in XML, with a mark before each tag.
struct ElementSyntax {
  std::string_view mark{};
  std::string_view item = "item";  ///< the tag of a list's items
  std::string_view end{};          ///< the closing tag after the last argument
};

/// A reply contains `open`, `first`, a call, for each further call `next` and the call, and `close`. A call is the
/// tool's name, `after_name`, the arguments and `after_arguments`; with kJsonWithName and kJsonByName the arguments
/// contain the name. In all texts a line break means any white space, also none, and so does a tab, in whose place
/// templates write nothing.
struct CallSyntax {
  std::string_view open{};    ///< a mark, after which what is no call is text
  bool open_is_call = false;  ///< `open` is the first byte of the call, in a format without marks
  CallArguments arguments = CallArguments::kJsonWithName;
  std::string_view first{};
  std::string_view next{};    ///< empty: `open` begins another call
  bool next_is_call = false;  ///< the last byte of `next` is the first one of the call
  std::string_view close{};   ///< may be missing at the end of a reply
  std::vector<std::string_view> after_name{};
  std::string_view before_id{};  ///< some templates write a call's id between the name and after_name
  std::string_view after_arguments{};
  ParameterSyntax parameters{};
  ElementSyntax elements{};
  std::string_view name_prefix{};  ///< before the name, and not a part of it
  bool numbers_names = false;      ///< ":0" after the name is not a part of it
  bool ends_thinking = false;      ///< `open` may come within thinking, which it then ends
  bool writes_list = false;        ///< kJsonWithName: the template writes a list, also of one call
  bool offered_only = false;       ///< only a call of a tool that the request offers is one
  /// Before the name, and between name and arguments, as the model's template writes them: for kJsonWithName.
  std::string_view json_head = R"({"name": ")";
  std::string_view json_middle = R"(", "arguments": )";
};

}  // namespace ballast::text

#endif  // BALLAST_TEXT_REPLY_CALL_SYNTAX_H_
