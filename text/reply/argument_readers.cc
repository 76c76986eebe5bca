#include "text/reply/argument_readers.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "text/reply/argument_values.h"

namespace ballast::text {
namespace {

constexpr std::string_view kArgumentSpace = " \t\r\n";
constexpr std::string_view kCdata = "<![CDATA[";
constexpr std::string_view kCdataEnd = "]]>";

/// Returns the text of a JSON string; nullopt for other values.
std::optional<std::string> string_of_json(const std::string& written) {
  const nlohmann::json value = nlohmann::json::parse(written, nullptr, false);
  if (!value.is_string()) return std::nullopt;
  return value.get<std::string>();
}

/// Passes the bytes of a symbol to `take`. A special token is text within a string and nowhere else.
template <typename Take>
bool take_json_bytes(const Symbol& symbol, const JsonScanner& scanner, const Take& take) {
  if (symbol.is_byte()) return take(symbol.text.front());
  return std::ranges::all_of(symbol.text,
                             [&](char c) { return scanner.in_string() && c != '"' && c != '\\' && take(c); });
}

}  // namespace

ArgumentResult JsonArguments::take(const Symbol& symbol, std::string& object) {
  const bool fits = take_json_bytes(symbol, scanner_, [&](char c) {
    const bool begins = scanner_.depth() == 0;
    if (!scanner_.take(c) || (begins && c == '[')) return false;
    if (scanner_.depth() > 0 || scanner_.done()) object += c;
    return true;
  });
  if (!fits) return ArgumentResult::kFailed;
  return scanner_.done() ? ArgumentResult::kDone : ArgumentResult::kMore;
}

ParameterMarks::ParameterMarks(const ParameterSyntax& syntax, const Tokenizer& tokenizer)
    : first(make_call_marks({syntax.open, syntax.end}, tokenizer)), own_lines(syntax.own_lines) {
  for (const ParameterNameEnd& end : syntax.name_ends) {
    name_ends.emplace_back(end.mark, tokenizer);
    are_strings.push_back(end.is_string);
  }
  for (const std::string_view following : {syntax.open, syntax.end}) {
    const std::string end = std::string(syntax.close) + '\n' + std::string(following);
    value_ends.emplace_back(end, tokenizer);
    if (syntax.in_cdata) cdata_ends.emplace_back(std::string(kCdataEnd) + end, tokenizer);
  }
  if (syntax.in_cdata) cdata.emplace_back(kCdata, tokenizer);
}

ParameterArguments::ParameterArguments(const ParameterMarks& marks, const OfferedTool* tool)
    : marks_(&marks), tool_(tool), first_(marks.first), text_(marks.name_ends), cdata_(marks.cdata) {}

ArgumentResult ParameterArguments::take(const Symbol& symbol, std::string& object) {
  switch (state_) {
    case State::kFirst: {
      const CallMarkMatcher::Result result = first_.take(symbol);
      if (result == CallMarkMatcher::Result::kFailed) return ArgumentResult::kFailed;
      return result == CallMarkMatcher::Result::kMatched ? go_on_after(first_.matched(), object)
                                                         : ArgumentResult::kMore;
    }
    case State::kName: {
      if (const auto end = text_.take(symbol, name_)) begin_value(*end, object);
      const bool is_name = !name_.contains('\n') && !name_.contains('<');
      return is_name ? ArgumentResult::kMore : ArgumentResult::kFailed;
    }
    case State::kValueBegin:
      return take_value_begin(symbol, object);
    default:
      return take_value(symbol, object);
  }
}

ArgumentResult ParameterArguments::take_value_begin(const Symbol& symbol, std::string& object) {
  held_.push_back(symbol);
  const CallMarkMatcher::Result result = cdata_.take(symbol);
  if (result == CallMarkMatcher::Result::kMore) return ArgumentResult::kMore;
  state_ = State::kValue;
  if (result == CallMarkMatcher::Result::kMatched) {
    types_ = {.string = true};
    text_ = CallTextReader(marks_->cdata_ends);
    return ArgumentResult::kMore;
  }
  for (const Symbol& each : held_) {
    const ArgumentResult taken = take_value(each, object);
    if (taken != ArgumentResult::kMore) return taken;
  }
  return ArgumentResult::kMore;
}

ArgumentResult ParameterArguments::take_value(const Symbol& symbol, std::string& object) {
  std::string text;
  const std::optional<std::size_t> found = text_.take(symbol, text);
  if (streams_) {
    add_to_string(text, object);
  } else {
    value_ += text;
  }
  if (!found) return ArgumentResult::kMore;
  return end_value(object) ? go_on_after(*found, object) : ArgumentResult::kFailed;
}

/// Goes on after the beginning of a parameter, or ends. `mark`: of first and of value_ends.
ArgumentResult ParameterArguments::go_on_after(std::size_t mark, std::string& object) {
  constexpr std::size_t kParameter = 0;  // the other one is the end
  if (mark == kParameter) {
    state_ = State::kName;
    name_.clear();
    text_ = CallTextReader(marks_->name_ends);
    return ArgumentResult::kMore;
  }
  object += names_.empty() ? "{}" : "}";
  return ArgumentResult::kDone;
}

void ParameterArguments::begin_value(std::size_t name_end, std::string& object) {
  state_ = marks_->cdata.empty() ? State::kValue : State::kValueBegin;
  cdata_ = CallMarkMatcher(marks_->cdata);
  held_.clear();
  text_ = CallTextReader(marks_->value_ends);
  value_.clear();
  types_ = argument_types(tool_ != nullptr ? tool_->parameters : nlohmann::ordered_json(), name_);
  if (const std::optional<bool> is_string = marks_->are_strings[name_end]) {
    types_ = {.string = *is_string,
              .number = !*is_string,
              .boolean = !*is_string,
              .null = !*is_string,
              .object = !*is_string,
              .array = !*is_string};
  }
  // A name that is written again is found at the end of its value.
  streams_ = types_.only_string() && std::ranges::find(names_, name_) == names_.end();
  begins_ = true;
  holds_line_end_ = false;
  if (!streams_) return;
  append_member_name(name_, names_, object);
  object += '"';
}

void ParameterArguments::add_to_string(std::string_view text, std::string& object) {
  if (text.empty()) return;
  if (marks_->own_lines && std::exchange(begins_, false) && text.starts_with('\n')) text.remove_prefix(1);
  if (text.empty()) return;
  if (std::exchange(holds_line_end_, false)) object += "\\n";
  if (marks_->own_lines && text.ends_with('\n')) {
    holds_line_end_ = true;
    text.remove_suffix(1);
  }
  append_escaped(text, object);
}

bool ParameterArguments::end_value(std::string& object) {
  if (streams_) {
    object += '"';
    return true;
  }
  std::string_view value = value_;
  if (marks_->own_lines && value.starts_with('\n')) value.remove_prefix(1);
  if (marks_->own_lines && value.ends_with('\n')) value.remove_suffix(1);
  if (!append_member_name(name_, names_, object)) return false;
  object += typed_value(value, types_);
  return true;
}

ArgumentResult PythonArguments::take(const Symbol& symbol, std::string& object) {
  if (may_be_closed_ && !symbol.is_space()) {
    may_be_closed_ = false;
    if (ends_python_string(symbol.text)) quote_ = 0;
  }
  if (quote_ != 0) {
    take_in_string(symbol);
    return ArgumentResult::kMore;
  }
  if (!symbol.is_byte()) return ArgumentResult::kFailed;
  const char c = symbol.text.front();
  if (depth_ == 0 && (c == ')' || c == ',')) {
    if (!end_argument(c == ')', object)) return ArgumentResult::kFailed;
    return c == ')' ? ArgumentResult::kDone : ArgumentResult::kMore;
  }
  if (c == '"' || c == '\'') quote_ = c;
  if (c == '(' || c == '[' || c == '{') ++depth_;
  if ((c == ')' || c == ']' || c == '}') && depth_-- == 0) return ArgumentResult::kFailed;
  text_ += c;
  return ArgumentResult::kMore;
}

void PythonArguments::take_in_string(const Symbol& symbol) {
  text_ += symbol.text;
  if (may_be_closed_) return;  // white space after a quote
  if (escaped_) {
    escaped_ = false;
  } else if (symbol.is('\\')) {
    escaped_ = true;
  } else {
    may_be_closed_ = symbol.is(quote_);
  }
}

/// Handles the text of an argument: k=v, or nothing after the last comma.
bool PythonArguments::end_argument(bool is_last, std::string& object) {
  const std::string text = std::exchange(text_, {});
  if (is_last && without_space(text).empty()) {
    object += names_.empty() ? "{}" : "}";
    return true;
  }
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) return false;
  const std::string_view name = without_space(std::string_view(text).substr(0, equals));
  const std::optional<std::string> value = python_value(std::string_view(text).substr(equals + 1));
  if (name.empty() || name.find_first_of("\"'([{ \n") != std::string_view::npos || !value) return false;
  if (!append_member_name(name, names_, object)) return false;
  object += *value;
  if (is_last) object += '}';
  return true;
}

ArgumentResult GemmaArguments::take(const Symbol& symbol, std::string& object) {
  if (in_string_) {
    if (!string_.take(symbol, text_)) return ArgumentResult::kMore;
    in_string_ = false;
    text_ += kGemmaQuote;
    return ArgumentResult::kMore;
  }
  switch (begin_.take(symbol)) {
    case CallMarkMatcher::Result::kMatched:
      in_string_ = true;
      in_quote_ = false;
      begin_ = CallMarkMatcher(*quote_);
      string_ = CallTextReader(*quote_);
      text_ += kGemmaQuote;
      return ArgumentResult::kMore;
    case CallMarkMatcher::Result::kMore:
      in_quote_ = true;
      return ArgumentResult::kMore;
    case CallMarkMatcher::Result::kFailed:
      begin_ = CallMarkMatcher(*quote_);
      break;
  }
  if (in_quote_ || !symbol.is_byte() || symbol.is(kGemmaQuote)) return ArgumentResult::kFailed;
  const char c = symbol.text.front();
  if (depth_ == 0 && (c == '}' || c == ',')) {
    if (!end_argument(c == '}', object)) return ArgumentResult::kFailed;
    return c == '}' ? ArgumentResult::kDone : ArgumentResult::kMore;
  }
  if (c == '[' || c == '{') ++depth_;
  if ((c == ']' || c == '}') && depth_-- == 0) return ArgumentResult::kFailed;
  text_ += c;
  return ArgumentResult::kMore;
}

/// Handles the text of an argument: k:v, or nothing in a call without arguments.
bool GemmaArguments::end_argument(bool is_last, std::string& object) {
  const std::string text = std::exchange(text_, {});
  if (is_last && names_.empty() && without_space(text).empty()) {
    object += "{}";
    return true;
  }
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) return false;
  std::string_view name = without_space(std::string_view(text).substr(0, colon));
  if (name.size() > 1 && name.starts_with(kGemmaQuote) && name.ends_with(kGemmaQuote)) {
    name = name.substr(1, name.size() - 2);
  }
  const std::optional<std::string> value = gemma_value(std::string_view(text).substr(colon + 1));
  if (name.empty() || name.contains(kGemmaQuote) || !value || !append_member_name(name, names_, object)) return false;
  object += *value;
  if (is_last) object += '}';
  return true;
}

JsonCalls::Step JsonCalls::take(const Symbol& symbol, std::string& object) {
  Step step;
  step.failed = !take_json_bytes(symbol, scanner_, [&](char c) { return take_byte(c, step, object); });
  return step;
}

bool JsonCalls::take_byte(char c, Step& step, std::string& object) {
  const std::size_t depth = scanner_.depth();
  const bool in_string = scanner_.in_string();
  if (!scanner_.take(c)) return false;
  step.done = scanner_.done();
  const bool is_space = !in_string && kArgumentSpace.contains(c);
  if (depth == 0) {
    if (c == '[') base_ = 1;
    return !by_name_ || is_space || c == '[';
  }
  if (depth == base_) return is_space || c == '{' || c == ',' || c == ']';
  if (depth > base_ + 1) return take_value(c, object);
  if (member_ == Member::kNone) {
    if (in_string || c == '"') {
      member_name_ += c;
      return true;
    }
    if (c == ':') return begin_member(step);
    return c != '}' || end_call(step, object);
  }
  if (in_string || (c != ',' && c != '}')) return take_value(c, object);
  return end_member(step, object) && (c == ',' || end_call(step, object));
}

/// Begins the value of a member. Returns false if no call has such a member.
bool JsonCalls::begin_member(Step& step) {
  const std::optional<std::string> name = string_of_json(std::exchange(member_name_, {}));
  if (!name) return false;
  if (by_name_) {
    if (has_name_) return false;
    member_ = Member::kArguments;
    set_name(*name, step);
    return true;
  }
  if (*name == "name" || *name == "tool_name") {
    member_ = Member::kName;
  } else if (*name == "arguments" || *name == "parameters") {
    member_ = Member::kArguments;
  } else {
    member_ = Member::kOther;
    return !strict_names_ || *name == "type" || *name == "id";
  }
  return true;
}

/// Takes a byte of a member's value. Arguments that are an object pass through, also before the name is known.
bool JsonCalls::take_value(char c, std::string& object) {
  const bool begins = value_.empty() && !streams_;
  if (begins && kArgumentSpace.contains(c)) return true;
  if (member_ == Member::kArguments && begins && c == '{') {
    if (has_arguments_) return false;
    has_arguments_ = true;
    streams_ = true;
  }
  if (!streams_) {
    value_ += c;
  } else if (scanner_.depth() > base_ + 1 || c == '}') {  // else white space after the object
    (has_name_ ? object : arguments_) += c;
  }
  return true;
}

bool JsonCalls::end_member(Step& step, std::string& object) {
  const Member member = std::exchange(member_, Member::kNone);
  const std::string value = std::exchange(value_, {});
  if (std::exchange(streams_, false) || member == Member::kOther) return true;
  if (member == Member::kName) {
    const std::optional<std::string> name = string_of_json(value);
    if (!name || has_name_) return false;
    set_name(*name, step);
    object += std::exchange(arguments_, {});
    return true;
  }
  // Some models write the object as a string, or nothing.
  if (has_arguments_) return false;
  has_arguments_ = true;
  std::string written = string_of_json(value).value_or(value);
  if (without_space(written).empty() || without_space(written) == "null") written = "{}";
  if (!is_json_object(written)) return false;
  (has_name_ ? object : arguments_) += without_space(written);
  return true;
}

void JsonCalls::set_name(std::string name, Step& step) {
  name_ = std::move(name);
  has_name_ = true;
  step.has_name = true;
}

bool JsonCalls::end_call(Step& step, std::string& object) {
  if (!has_name_) return false;
  if (!has_arguments_) object += "{}";
  step.ended = true;
  has_name_ = false;
  has_arguments_ = false;
  return true;
}

}  // namespace ballast::text
