#include "text/reply/element_arguments.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "text/reply/argument_values.h"

namespace ballast::text {
namespace {

constexpr std::size_t kLongestTag = 256;
constexpr std::size_t kDeepestElement = 64;

}  // namespace

ElementMarks::ElementMarks(const ElementSyntax& syntax, const Tokenizer& tokenizer)
    : before_tag(make_call_marks({syntax.mark}, tokenizer)), item(syntax.item), end(syntax.end) {}

ElementArguments::ElementArguments(const ElementMarks& marks, const OfferedTool* tool)
    : marks_(&marks),
      schema_(tool != nullptr && tool->parameters.is_object() ? &tool->parameters : nullptr),
      text_(marks.before_tag) {
  elements_.push_back({.name = {}, .schema = schema_, .types = {.object = true}});
}

ArgumentResult ElementArguments::take(const Symbol& symbol, std::string& object) {
  if (in_tag_) return take_tag(symbol, object);
  std::string text;
  in_tag_ = text_.take(symbol, text).has_value();
  if (in_tag_) tag_.clear();
  if (streams_) {
    append_escaped(text, object);
    return ArgumentResult::kMore;
  }
  Element& element = elements_.back();
  element.text += text;
  const bool has_only_elements = elements_.size() == 1 || !element.members.empty();
  return has_only_elements && !without_space(element.text).empty() ? ArgumentResult::kFailed : ArgumentResult::kMore;
}

ArgumentResult ElementArguments::take_tag(const Symbol& symbol, std::string& object) {
  tag_ += symbol.text;  // a whole tag may be one special token
  if (!tag_.starts_with('<') || tag_.size() > kLongestTag || tag_.find('<', 1) != std::string::npos) {
    return ArgumentResult::kFailed;
  }
  if (!tag_.ends_with('>')) return ArgumentResult::kMore;
  in_tag_ = false;
  text_ = CallTextReader(marks_->before_tag);
  const std::string_view name = std::string_view(tag_).substr(1, tag_.size() - 2);
  if (elements_.size() == 1 && name == marks_->end) {
    object += elements_.front().names.empty() ? "{}" : "}";
    return ArgumentResult::kDone;
  }
  const bool closes = name.starts_with('/');
  const bool fits = closes ? name.substr(1) == elements_.back().name && close(object) : open(name, object);
  return fits ? ArgumentResult::kMore : ArgumentResult::kFailed;
}

/// Begins an element within the innermost one. Returns false if it cannot be there.
bool ElementArguments::open(std::string_view name, std::string& object) {
  Element& parent = elements_.back();
  if (streams_ || name.empty() || !without_space(parent.text).empty() || elements_.size() == kDeepestElement)
    return false;
  const bool is_first = parent.names.empty() && parent.items == 0;
  if (is_first) parent.is_list = name == marks_->item && parent.types.array;
  std::string& written = elements_.size() == 1 ? object : parent.members;
  if (parent.is_list) {
    if (name != marks_->item) return false;
    written += is_first ? "[" : ", ";
    ++parent.items;
  } else if (!append_member_name(name, parent.names, written)) {
    return false;
  }
  const nlohmann::ordered_json* schema = schema_within(parent, name);
  const JsonTypes types = schema == nullptr ? kAllTypes : types_of(*schema, *schema_);
  streams_ = elements_.size() == 1 && types.only_string();
  if (streams_) object += '"';
  elements_.push_back({.name = std::string(name), .schema = schema, .types = types});
  return true;
}

/// Ends the innermost element.
bool ElementArguments::close(std::string& object) {
  if (elements_.size() == 1) return false;
  const Element element = std::move(elements_.back());
  elements_.pop_back();
  if (std::exchange(streams_, false)) {
    object += '"';
  } else {
    (elements_.size() == 1 ? object : elements_.back().members) += value_of(element);
  }
  return true;
}

std::string ElementArguments::value_of(const Element& element) const {
  if (!element.members.empty()) return element.members + (element.is_list ? "]" : "}");
  const JsonTypes& types = element.types;
  if (element.text.empty() && !types.string && types.array) return "[]";
  if (element.text.empty() && !types.string && types.object) return "{}";
  return typed_value(element.text, types);
}

const nlohmann::ordered_json* ElementArguments::schema_within(const Element& element, std::string_view name) const {
  if (element.schema == nullptr) return nullptr;
  if (!element.is_list) return member_schema(*element.schema, *schema_, std::string(name));
  const nlohmann::ordered_json* list = schema_with(*element.schema, *schema_, "items");
  return list == nullptr ? nullptr : &(*list)["items"];
}

}  // namespace ballast::text
