#include "text/template/interpreter.h"

#include <algorithm>

#include "text/template/builtins.h"
#include "text/template/operators.h"
#include "text/template/values/budget.h"
#include "text/template/values/print.h"

namespace ballast::text::jinja {
namespace {

constexpr int kMostLevels = 700;

}  // namespace

std::vector<std::pair<std::string, Value>>::const_iterator Scope::place_of(std::string_view name) const {
  spend_steps(names_.size() / 64);
  return std::ranges::find_if(names_, [&](const auto& entry) { return entry.first == name; });
}

const Value* Scope::find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->around_) {
    const auto found = scope->place_of(name);
    if (found != scope->names_.end()) return &found->second;
  }
  return nullptr;
}

void Scope::set(std::string_view name, Value value) {
  const auto found = place_of(name);
  if (found != names_.end()) {
    names_[static_cast<std::size_t>(found - names_.begin())].second = std::move(value);
  } else {
    names_.emplace_back(name, std::move(value));
  }
}

void Scope::keep() {
  for (Scope* scope = this; scope != nullptr && !scope->is_kept_; scope = scope->around_) scope->is_kept_ = true;
}

Interpreter::Level::Level(Interpreter& interpreter) : interpreter_(interpreter) {
  spend_steps(1);
  if (interpreter.depth_ >= kMostLevels) fail("calls or nests too deeply");
  ++interpreter.depth_;
}

Interpreter::Interpreter(const Dict& variables, const std::tm& now) : now_(now) {
  for (const auto& [name, function] : global_functions()) root_.set(name, function);
  for (const auto& [key, value] : variables.items()) root_.set(to_utf8(*key.text()), value);
}

Namespace* Interpreter::make_namespace() {
  spend_steps(1);
  return &namespaces_.emplace_back();
}

Value Interpreter::call(const Value& callee, const Arguments& arguments) {
  const Level level(*this);
  if (const auto* missing = callee.get<Undefined>()) fail(*missing->problem);
  if (const Function* function = callee.function()) {
    return function->call(*this, arguments);
  }
  if (callee.loop() != nullptr) {
    const auto recurse = callee.loop()->recurse;
    if (!recurse) fail("calls a loop that is not recursive, or has ended");
    return recurse(Bound("loop", arguments, {"iterable"}, 1)[0]);
  }
  fail("calls a value of the type " + type_name(callee));
}

Value Interpreter::evaluate(const Expression& expression, Scope& scope) {
  using Kind = Expression::Kind;
  const Level level(*this);
  const auto part = [&](std::size_t index) { return evaluate(*expression.parts[index], scope); };
  switch (expression.kind) {
    case Kind::kLiteral:
      return expression.value;
    case Kind::kName:
      return evaluate_name(expression, scope);
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
      return evaluate_display(expression, scope);
    case Kind::kAttribute:
      return attribute(part(0), expression.name);
    case Kind::kItem: {
      const Value object = part(0);
      return item(object, part(1));
    }
    case Kind::kSlice:
      return evaluate_slice(expression, scope);
    case Kind::kCall:
      return evaluate_call(expression, scope);
    case Kind::kFilter:
      return evaluate_filter(expression, scope);
    case Kind::kTest: {
      const Value input = part(0);
      return {test(expression.name, input, evaluate_arguments(expression.call, scope))};
    }
    case Kind::kArithmetic: {
      const Value left = part(0);
      return arithmetic(*this, expression.name, left, part(1));
    }
    case Kind::kNegative:
    case Kind::kPositive:
      return signed_number(part(0), expression.kind == Kind::kNegative);
    case Kind::kNot:
    case Kind::kAnd:
    case Kind::kOr:
    case Kind::kCondition:
      return evaluate_logic(expression, scope);
    case Kind::kCompare:
      return evaluate_comparison(expression, scope);
    case Kind::kConcatenate:
      return evaluate_concatenation(expression, scope);
    case Kind::kNamespaceAttribute:
      break;
  }
  fail("a target is no value");
}

Value Interpreter::evaluate_name(const Expression& expression, Scope& scope) {
  const Value* found = scope.find(expression.name);
  return found != nullptr ? *found : Value::undefined("'" + expression.name + "' is undefined");
}

Value Interpreter::evaluate_display(const Expression& expression, Scope& scope) {
  if (expression.kind == Expression::Kind::kDict) {
    Dict dict;
    for (std::size_t i = 0; i + 1 < expression.parts.size(); i += 2) {
      const Value key = evaluate(*expression.parts[i], scope);
      dict.set(key, evaluate(*expression.parts[i + 1], scope));
    }
    return {std::move(dict)};
  }
  std::vector<Value> items;
  for (const ExpressionPtr& part : expression.parts) items.push_back(evaluate(*part, scope));
  return expression.kind == Expression::Kind::kList ? Value::list(std::move(items)) : Value::tuple(std::move(items));
}

Value Interpreter::evaluate_slice(const Expression& expression, Scope& scope) {
  const auto part = [&](std::size_t index) {
    return expression.parts[index] == nullptr ? Value() : evaluate(*expression.parts[index], scope);
  };
  const Value object = part(0);
  const Value begin = part(1);
  const Value end = part(2);
  return slice(object, begin, end, part(3));
}

Arguments Interpreter::evaluate_arguments(const CallSyntax& call, Scope& scope) {
  Arguments arguments;
  for (const ExpressionPtr& one : call.positional) arguments.positional.push_back(evaluate(*one, scope));
  for (const auto& [name, value] : call.named) arguments.named.emplace_back(name, evaluate(*value, scope));
  if (call.more_positional != nullptr) {
    for (Value& one : items_of(evaluate(*call.more_positional, scope))) arguments.positional.push_back(std::move(one));
  }
  if (call.more_named != nullptr) {
    const Value named = evaluate(*call.more_named, scope);
    if (named.dict() == nullptr) fail("what comes after ** must be a dict");
    for (const auto& [key, value] : named.dict()->items()) {
      if (key.text() == nullptr) fail("names of arguments must be strings");
      arguments.named.emplace_back(to_utf8(*key.text()), value);
    }
  }
  return arguments;
}

Value Interpreter::evaluate_call(const Expression& expression, Scope& scope, const Value* caller) {
  const Value callee = evaluate(*expression.parts[0], scope);
  Arguments arguments = evaluate_arguments(expression.call, scope);
  if (caller != nullptr) arguments.named.emplace_back("caller", *caller);
  return call(callee, arguments);
}

Value Interpreter::evaluate_filter(const Expression& expression, Scope& scope, const Value* block) {
  Value input;
  if (expression.parts.empty()) {
    input = *block;
  } else if (block != nullptr) {
    const Level level(*this);
    input = evaluate_filter(*expression.parts[0], scope, block);
  } else {
    input = evaluate(*expression.parts[0], scope);
  }
  return filter(expression.name, input, evaluate_arguments(expression.call, scope));
}

Value Interpreter::evaluate_logic(const Expression& expression, Scope& scope) {
  using Kind = Expression::Kind;
  Value first = evaluate(*expression.parts[0], scope);
  const bool truth = is_true(first);
  if (expression.kind == Kind::kNot) return {!truth};
  if (expression.kind == Kind::kAnd) return truth ? evaluate(*expression.parts[1], scope) : first;
  if (expression.kind == Kind::kOr) return truth ? first : evaluate(*expression.parts[1], scope);
  if (truth) return evaluate(*expression.parts[1], scope);
  if (expression.parts[2] != nullptr) return evaluate(*expression.parts[2], scope);
  return Value::undefined("an inline if without else has no value, since its condition is false");
}

Value Interpreter::evaluate_comparison(const Expression& expression, Scope& scope) {
  Value left = evaluate(*expression.parts[0], scope);
  for (std::size_t i = 0; i < expression.operators.size(); ++i) {
    Value right = evaluate(*expression.parts[i + 1], scope);
    if (!compare(expression.operators[i], left, right)) return {false};
    left = std::move(right);
  }
  return {true};
}

Value Interpreter::evaluate_concatenation(const Expression& expression, Scope& scope) {
  Text text;
  for (const ExpressionPtr& part : expression.parts) text += print_text(evaluate(*part, scope));
  return {std::move(text)};
}

}  // namespace ballast::text::jinja
