// Values of arguments that are not written in JSON: text with a type from the schema, Python's and Gemma's.
#ifndef BALLAST_TEXT_REPLY_ARGUMENT_VALUES_H_
#define BALLAST_TEXT_REPLY_ARGUMENT_VALUES_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/reply/offered_tool.h"

namespace ballast::text {

/// Stands for the quotes around Gemma's strings: a byte that no text has.
inline constexpr char kGemmaQuote = '\xFF';

/// Returns a text without white space around it.
std::string_view without_space(std::string_view text);

/// Appends text to the inside of a JSON string.
void append_escaped(std::string_view text, std::string& written);

/// Returns text as a JSON string.
std::string json_string(std::string_view text);

/// Appends the name of a member, after "{" or a comma. `names` are the object's. Returns false if it has this one
/// already.
bool append_member_name(std::string_view name, std::vector<std::string>& names, std::string& object);

/// Returns whether a text is one JSON object.
bool is_json_object(std::string_view text);

/// Returns a value that is written as plain text, of one of the types: JSON or a literal of Python if it is one of that
/// type, else a string.
std::string typed_value(std::string_view text, const JsonTypes& types);

/// Returns whether a quote before `following` ends a literal of Python. Some chat templates do not escape the quotes in
/// strings: before anything but the end, a comma, a colon or a closing bracket, a quote is a part of the string.
bool ends_python_string(std::string_view following);

/// Returns a literal of Python as JSON: strings, numbers, True, False, None, lists, tuples and dicts. nullopt if it is
/// none.
std::optional<std::string> python_value(std::string_view text);

/// Returns a value of Gemma 4's calls as JSON: kGemmaQuote is around strings, names of members have none. nullopt if it
/// is malformed.
std::optional<std::string> gemma_value(std::string_view text);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_REPLY_ARGUMENT_VALUES_H_
