#include "files/strict_json.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "ballast/error.h"
#include "files/mapped_file.h"
#include "files/text.h"

namespace ballast::files {
namespace {

using nlohmann::json;

// Builds the value from the parser's events. The library's parser with a callback could check the same, but its time
// grows with the square of an object's size.
class StrictBuilder : public nlohmann::json_sax<json> {
 public:
  StrictBuilder(std::string_view context, std::size_t offset, std::size_t max_depth)
      : context_(context), offset_(offset), max_depth_(max_depth) {}

  json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t& value) override { return add(std::move(value)); }
  bool start_object(std::size_t) override { return open(json::object()); }
  bool start_array(std::size_t) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    const auto [place_of_value, is_new] = open_.back()->get_ref<json::object_t&>().emplace(name, nullptr);
    if (!is_new) throw Error(context_, "key " + in_quotes(name) + " is there twice");
    value_of_key_ = &place_of_value->second;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) override {
    // The library's message is "[json.exception.parse_error.101] parse error at line 1, column 7: REASON; last read:
    // ...".
    std::string reason = error.what();
    if (const auto column = reason.find("column "); column != std::string::npos) {
      if (const auto colon = reason.find(": ", column); colon != std::string::npos) reason.erase(0, colon + 2);
    }
    if (const auto read = reason.find("; last read"); read != std::string::npos) reason.erase(read);
    throw Error(context_, concat("byte ", offset_ + (position == 0 ? 0 : position - 1), ": not valid JSON: ", reason));
  }

 private:
  template <typename Value>
  bool add(Value&& value) {
    place_for_value() = std::forward<Value>(value);
    return true;
  }

  bool open(json&& empty) {
    if (open_.size() >= max_depth_) {
      throw Error(context_, concat("JSON nested more than ", max_depth_, " levels deep"));
    }
    json& container = place_for_value();
    container = std::move(empty);
    open_.push_back(&container);
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  json& place_for_value() {
    if (open_.empty()) return root_;
    if (open_.back()->is_object()) return *value_of_key_;
    return open_.back()->get_ref<json::array_t&>().emplace_back();
  }

  std::string_view context_;
  std::size_t offset_;
  std::size_t max_depth_;
  json root_;
  std::vector<json*> open_;  // objects and arrays around the next value; only the last one grows, so pointers hold
  json* value_of_key_ = nullptr;
};

constexpr std::array<std::string_view, 3> kPythonNumbers = {"-Infinity", "Infinity", "NaN"};

std::string with_python_numbers_as_objects(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto begins = [&](std::string_view number) { return text.substr(i).starts_with(number); };
    const auto* number = in_string ? kPythonNumbers.end() : std::ranges::find_if(kPythonNumbers, begins);
    if (number != kPythonNumbers.end()) {
      result += concat(R"({"__float__":")", *number, R"("})");
      i += number->size() - 1;
      continue;
    }
    if (text[i] == '"') in_string = !in_string;
    result += text[i];
    if (in_string && text[i] == '\\' && i + 1 < text.size()) result += text[++i];
  }
  return result;
}

}  // namespace

nlohmann::json parse_strict_json(std::string_view text, std::string_view context, std::size_t offset,
                                 std::size_t max_depth) {
  StrictBuilder builder(context, offset, max_depth);
  json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

nlohmann::json parse_json_object(std::string_view text, const std::filesystem::path& path) {
  const bool of_python = std::ranges::any_of(
      kPythonNumbers, [&](std::string_view number) { return text.find(number) != std::string_view::npos; });
  json value = of_python ? parse_strict_json(with_python_numbers_as_objects(text), path.string())
                         : parse_strict_json(text, path.string());
  if (!value.is_object())
    throw Error(path.string(), concat("byte 0: a JSON object is expected, not ", value.type_name()));
  return value;
}

nlohmann::json read_json_object(const std::filesystem::path& path) {
  return parse_json_object(read_whole_file(path), path);
}

}  // namespace ballast::files
