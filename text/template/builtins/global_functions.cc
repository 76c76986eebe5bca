// The functions that transformers gives to chat templates.
#include <ctime>

#include "ballast/error.h"
#include "files/utf8.h"
#include "text/template/builtins.h"
#include "text/template/interpreter.h"
#include "text/template/operators.h"
#include "text/template/values/budget.h"
#include "text/template/values/print.h"

namespace ballast::text::jinja {
namespace {

using Given = Value;

constexpr std::int64_t kMostRange = 100'000;  // the sandbox's

Given range(Interpreter& /*interpreter*/, const Arguments& arguments) {
  const Bound bound("range", arguments, {"/start", "/stop", "/step"}, 1);
  const bool has_start = bound.find(1) != nullptr;
  const std::int64_t start = has_start ? bound.integer(0, 0) : 0;
  const std::int64_t stop = bound.integer(has_start ? 1 : 0, 0);
  const std::int64_t step = bound.integer(2, 1);
  if (step == 0) fail("range has the step 0");
  std::vector<Value> items;
  for (std::int64_t at = start; step > 0 ? at < stop : at > stop;) {
    if (static_cast<std::int64_t>(items.size()) == kMostRange) fail("range has more than 100000 items");
    spend_steps(1);
    items.emplace_back(at);
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return make_sequence(Sequence::Kind::kRange, std::move(items));
}

// Returns a dict of the mapping, or list of pairs, that dict and namespace accept, and of the named arguments.
Dict dict_of(std::string_view function, const Arguments& arguments) {
  if (arguments.positional.size() > 1) fail(std::string(function) + " takes at most one argument by position");
  Dict dict;
  for (const Value& given : arguments.positional) {
    if (const Dict* other = given.dict()) {
      for (const auto& [key, value] : other->items()) dict.set(key, value);
      continue;
    }
    for (const Value& pair : items_of(given)) {
      const std::vector<Value> items = items_of(pair);
      if (items.size() != 2) fail(std::string(function) + " takes pairs");
      dict.set(items[0], items[1]);
    }
  }
  for (const auto& [name, value] : arguments.named) dict.set(name, value);
  return dict;
}

Given make_dict(Interpreter& /*interpreter*/, const Arguments& arguments) {
  return {dict_of("dict", arguments)};
}

Given make_names(Interpreter& interpreter, const Arguments& arguments) {
  Dict attributes = dict_of("namespace", arguments);
  for (const auto& [key, value] : attributes.items()) {
    if (key.text() != nullptr && text_starts_with(*key.text(), U"_")) {
      fail("attributes of a namespace cannot begin with an underscore");
    }
  }
  Namespace* names = interpreter.make_namespace();
  names->attributes = std::move(attributes);
  return {names};
}

Given refuse_chat(Interpreter& /*interpreter*/, const Arguments& arguments) {
  const Bound bound("raise_exception", arguments, {"message"}, 1);
  throw Error("conversation", "the model's chat template refuses it: " + to_utf8(print_text(bound[0])));
}

Given write_time(Interpreter& interpreter, const Arguments& arguments) {
  const Bound bound("strftime_now", arguments, {"format"}, 1);
  const std::string format = to_utf8(bound.text(0));
  if (format.size() > 1000) fail("strftime_now is given too long a format");
  // strftime reports success by a length other than 0, so the text is never empty.
  std::string written(format.size() * 100 + 100, '\0');
  const std::size_t length = std::strftime(written.data(), written.size(), (format + ".").c_str(), &interpreter.now());
  if (length == 0) fail("strftime_now is given a format that it cannot write");
  written.resize(length - 1);
  return {make_text(files::replace_invalid_utf8(written))};
}

// Returns a function that returns a string at every call but the first, where it is empty.
Given make_joiner(Interpreter& /*interpreter*/, const Arguments& arguments) {
  const Bound bound("joiner", arguments, {"sep"});
  const Value separator = bound.value(0, Value::text(", "));
  return make_function(
      {.name = "joiner",
       .call = [separator, used = std::make_shared<bool>(false)](
                   Interpreter&, const Arguments&) { return std::exchange(*used, true) ? separator : Value(Text()); },
       .depth = value_depth(separator) + 1});
}

constexpr std::pair<std::string_view, Given (*)(Interpreter&, const Arguments&)> kFunctions[] = {
    {"range", range},
    {"dict", make_dict},
    {"namespace", make_names},
    {"raise_exception", refuse_chat},
    {"strftime_now", write_time},
    {"joiner", make_joiner},
};

}  // namespace

const std::vector<std::pair<std::string, Value>>& global_functions() {
  static const std::vector<std::pair<std::string, Value>> functions = [] {
    std::vector<std::pair<std::string, Value>> made;
    for (const auto& [name, call] : kFunctions) {
      made.emplace_back(name, make_function({.name = std::string(name), .call = call}));
    }
    return made;
  }();
  return functions;
}

}  // namespace ballast::text::jinja
