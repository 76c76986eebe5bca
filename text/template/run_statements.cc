#include <algorithm>

#include "text/template/interpreter.h"
#include "text/template/operators.h"
#include "text/template/values/budget.h"
#include "text/template/values/print.h"

namespace ballast::text::jinja {
namespace {

void append_output(TextView text, Text& out) {
  spend_characters(text.size());
  out += text;
}

}  // namespace

Text Interpreter::run(const Body& body) {
  Text out;
  run(body, root_, out);
  return out;
}

Interpreter::Flow Interpreter::run(const Body& body, Scope& scope, Text& out) {
  for (const StatementPtr& statement : body) {
    const Flow flow = run(*statement, scope, out);
    if (flow != Flow::kOn) return flow;
  }
  return Flow::kOn;
}

Interpreter::Flow Interpreter::run(const Statement& statement, Scope& scope, Text& out) {
  using Kind = Statement::Kind;
  const Level level(*this);
  line_ = statement.line;
  switch (statement.kind) {
    case Kind::kText:
      append_output(statement.text, out);
      return Flow::kOn;
    case Kind::kPrint:
      for (const ExpressionPtr& one : statement.expressions) append_output(print_text(evaluate(*one, scope)), out);
      return Flow::kOn;
    case Kind::kSet:
      assign(*statement.target, evaluate(*statement.expressions[0], scope), scope);
      return Flow::kOn;
    case Kind::kSetBlock:
      run_set_block(statement, scope);
      return Flow::kOn;
    case Kind::kIf:
      return run_if(statement, scope, out);
    case Kind::kFor:
      return run_for(statement, scope, items_of(evaluate(*statement.expressions[0], scope)), 1, out);
    case Kind::kWith:
      return run_with(statement, scope, out);
    case Kind::kMacro:
      scope.set(statement.signature.name, make_macro(statement, scope));
      return Flow::kOn;
    case Kind::kCall:
      run_call(statement, scope, out);
      return Flow::kOn;
    case Kind::kFilter:
      return run_filter(statement, scope, out);
    case Kind::kGeneration: {
      OwnScope own(*this, scope);
      return run(statement.bodies[0], own.get(), out);
    }
    case Kind::kBreak:
      return Flow::kBreak;
    case Kind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kOn;
}

Interpreter::Flow Interpreter::run_if(const Statement& statement, Scope& scope, Text& out) {
  for (std::size_t i = 0; i < statement.expressions.size(); ++i) {
    if (is_true(evaluate(*statement.expressions[i], scope))) return run(statement.bodies[i], scope, out);
  }
  const bool has_else = statement.bodies.size() > statement.expressions.size();
  return has_else ? run(statement.bodies.back(), scope, out) : Flow::kOn;
}

Interpreter::Flow Interpreter::run_with(const Statement& statement, Scope& scope, Text& out) {
  OwnScope own(*this, scope);
  for (std::size_t i = 0; i < statement.targets.size(); ++i) {
    assign(*statement.targets[i], evaluate(*statement.expressions[i], scope), own.get());
  }
  return run(statement.bodies[0], own.get(), out);
}

void Interpreter::run_set_block(const Statement& statement, Scope& scope) {
  OwnScope own(*this, scope);
  Text text;
  run(statement.bodies[0], own.get(), text);
  Value value(std::move(text));
  if (statement.filters != nullptr) value = evaluate_filter(*statement.filters, scope, &value);
  assign(*statement.target, value, scope);
}

Interpreter::Flow Interpreter::run_filter(const Statement& statement, Scope& scope, Text& out) {
  OwnScope own(*this, scope);
  Text text;
  const Flow flow = run(statement.bodies[0], own.get(), text);
  if (flow != Flow::kOn) return flow;  // the output so far is dropped
  const Value block(std::move(text));
  append_output(print_text(evaluate_filter(*statement.filters, own.get(), &block)), out);
  return Flow::kOn;
}

void Interpreter::run_call(const Statement& statement, Scope& scope, Text& out) {
  const Value caller = make_macro(statement, scope);
  append_output(print_text(evaluate_call(*statement.expressions[0], scope, &caller)), out);
}

std::shared_ptr<Loop> Interpreter::make_loop(const Statement& statement, Scope& scope, std::vector<Value> items,
                                             int nesting) {
  auto loop = std::make_shared<Loop>();
  loop->source = std::move(items);
  loop->nesting = nesting;
  for (const Value& one : loop->source) loop->source_depth = std::max(loop->source_depth, value_depth(one) + 1);
  if (loop->source_depth > kMostValueDepth) fail("nests values too deeply");
  if (statement.condition != nullptr) {
    loop->accepts = [this, &statement, &scope](const Value& candidate) {
      OwnScope own(*this, scope);
      assign(*statement.target, candidate, own.get());
      return is_true(evaluate(*statement.condition, own.get()));
    };
  }
  if (statement.is_recursive) {
    loop->recurse = [this, &statement, &scope, nesting](const Value& inner) {
      Text text;
      run_for(statement, scope, items_of(inner), nesting + 1, text);
      return Value(std::move(text));
    };
  }
  return loop;
}

Interpreter::Flow Interpreter::run_for(const Statement& statement, Scope& scope, std::vector<Value> items, int nesting,
                                       Text& out) {
  const std::shared_ptr<Loop> loop = make_loop(statement, scope, std::move(items), nesting);
  const Flow flow = run_turns(statement, loop, scope, out);
  // A namespace may keep the loop alive longer than these references.
  loop->accepts = nullptr;
  loop->recurse = nullptr;
  loop->next_source = loop->source.size();
  return flow;
}

Interpreter::Flow Interpreter::run_turns(const Statement& statement, const std::shared_ptr<Loop>& loop, Scope& scope,
                                         Text& out) {
  if (!loop->has(0)) return run(statement.bodies[1], scope, out);
  for (std::size_t i = 0; loop->has(i); ++i) {
    OwnScope own(*this, scope);
    loop->index = i;
    own.get().set("loop", Value(loop));
    assign(*statement.target, loop->items[i], own.get());
    if (run(statement.bodies[0], own.get(), out) == Flow::kBreak) break;
  }
  return Flow::kOn;
}

Value Interpreter::make_macro(const Statement& statement, Scope& scope) {
  scope.keep();
  return make_function({.name = statement.signature.name,
                        .call =
                            [&statement, &scope](Interpreter& interpreter, const Arguments& arguments) {
                              return interpreter.call_macro(statement, scope, arguments);
                            },
                        .is_macro = true});
}

void Interpreter::bind_parameters(const Signature& signature, Scope& scope, Arguments& arguments) {
  const std::size_t count = signature.parameters.size();
  const std::size_t first_default = count - signature.defaults.size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::string& name = signature.parameters[i];
    if (i < arguments.positional.size()) {
      scope.set(name, arguments.positional[i]);
    } else if (std::optional<Value> value = arguments.take_named(name)) {
      scope.set(name, std::move(*value));
    } else if (i >= first_default) {
      scope.set(name, evaluate(*signature.defaults[i - first_default], scope));
    } else {
      scope.set(name, Value::undefined("parameter '" + name + "' was not provided"));
    }
  }
}

Value Interpreter::call_macro(const Statement& statement, Scope& scope, Arguments arguments) {
  const Signature& signature = statement.signature;
  const std::string name = "macro '" + signature.name + "'";
  OwnScope own(*this, scope);
  bind_parameters(signature, own.get(), arguments);
  const bool names_caller = std::ranges::find(signature.parameters, "caller") != signature.parameters.end();
  if (signature.takes_caller && !names_caller) {
    own.get().set("caller", arguments.take_named("caller").value_or(Value::undefined("no caller is defined")));
  }
  if (signature.takes_more_named) {
    Dict rest;
    for (auto& [key, value] : arguments.named) rest.set(key, std::move(value));
    own.get().set("kwargs", {std::move(rest)});
  } else if (!arguments.named.empty()) {
    fail(name + " has no parameter " + arguments.named.front().first);
  }
  const std::size_t count = std::min(signature.parameters.size(), arguments.positional.size());
  if (signature.takes_more_positional) {
    const auto first = arguments.positional.begin() + static_cast<std::ptrdiff_t>(count);
    own.get().set("varargs", Value::tuple({first, arguments.positional.end()}));
  } else if (arguments.positional.size() > count) {
    fail(name + " takes at most " + std::to_string(count) + " arguments");
  }
  const int called_from = line_;
  Text text;
  run(statement.bodies[0], own.get(), text);
  line_ = called_from;
  return {std::move(text)};
}

void Interpreter::assign(const Expression& target, const Value& value, Scope& scope) {
  if (target.kind == Expression::Kind::kName) {
    scope.set(target.name, value);
  } else if (target.kind == Expression::Kind::kNamespaceAttribute) {
    const Value* found = scope.find(target.name);
    Namespace* names = found == nullptr ? nullptr : found->names();
    if (names == nullptr) fail(target.name + " is no namespace, so that no attribute can be set");
    if (target.attribute.starts_with('_')) fail("attributes of a namespace cannot begin with an underscore");
    names->attributes.set(target.attribute, value);
  } else {
    const std::vector<Value> items = items_of(value);
    if (items.size() != target.parts.size()) {
      fail("assigns " + std::to_string(items.size()) + " values to " + std::to_string(target.parts.size()) + " names");
    }
    for (std::size_t i = 0; i < items.size(); ++i) assign(*target.parts[i], items[i], scope);
  }
}

}  // namespace ballast::text::jinja
