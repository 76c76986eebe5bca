// Evaluates a template's tree.
#ifndef BALLAST_TEXT_TEMPLATE_INTERPRETER_H_
#define BALLAST_TEXT_TEMPLATE_INTERPRETER_H_

#include <ctime>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/template/function.h"
#include "text/template/syntax/syntax_tree.h"
#include "text/template/values/value.h"

namespace ballast::text::jinja {

/// The names of one loop iteration, macro call or block, and the enclosing scope.
class Scope {
 public:
  explicit Scope(Scope* around) : around_(around) {}

  const Value* find(std::string_view name) const;  ///< null when no scope has it
  void set(std::string_view name, Value value);
  /// Keeps the scope alive until the rendering ends, for a macro that may read it.
  void keep();
  bool is_kept() const { return is_kept_; }

 private:
  std::vector<std::pair<std::string, Value>>::const_iterator place_of(std::string_view name) const;

  std::vector<std::pair<std::string, Value>> names_;
  Scope* around_;
  bool is_kept_ = false;
};

/// Throws TemplateProblem on errors; uses the Budget of its thread.
class Interpreter {
 public:
  /// `now` is the time for strftime_now.
  Interpreter(const Dict& variables, const std::tm& now);

  Text run(const Body& body);
  int line() const { return line_; }  ///< of the current or failed statement

  Value call(const Value& callee, const Arguments& arguments);
  Value filter(std::string_view name, const Value& input, const Arguments& arguments);
  bool test(std::string_view name, const Value& input, const Arguments& arguments);
  Namespace* make_namespace();
  const std::tm& now() const { return now_; }

 private:
  enum class Flow { kOn, kBreak, kContinue };
  class Level;
  class OwnScope;

  Flow run(const Body& body, Scope& scope, Text& out);
  Flow run(const Statement& statement, Scope& scope, Text& out);
  Flow run_if(const Statement& statement, Scope& scope, Text& out);
  Flow run_with(const Statement& statement, Scope& scope, Text& out);
  void run_set_block(const Statement& statement, Scope& scope);
  void run_call(const Statement& statement, Scope& scope, Text& out);
  Flow run_filter(const Statement& statement, Scope& scope, Text& out);
  Flow run_for(const Statement& statement, Scope& scope, std::vector<Value> items, int nesting, Text& out);
  Flow run_turns(const Statement& statement, const std::shared_ptr<Loop>& loop, Scope& scope, Text& out);
  std::shared_ptr<Loop> make_loop(const Statement& statement, Scope& scope, std::vector<Value> items, int nesting);
  Value make_macro(const Statement& statement, Scope& scope);
  Value call_macro(const Statement& statement, Scope& scope, Arguments arguments);
  void bind_parameters(const Signature& signature, Scope& scope, Arguments& arguments);
  void assign(const Expression& target, const Value& value, Scope& scope);

  Value evaluate(const Expression& expression, Scope& scope);
  Value evaluate_name(const Expression& expression, Scope& scope);
  Value evaluate_display(const Expression& expression, Scope& scope);
  Value evaluate_slice(const Expression& expression, Scope& scope);
  Value evaluate_call(const Expression& expression, Scope& scope, const Value* caller = nullptr);
  Value evaluate_filter(const Expression& expression, Scope& scope, const Value* block = nullptr);
  Value evaluate_logic(const Expression& expression, Scope& scope);
  Value evaluate_comparison(const Expression& expression, Scope& scope);
  Value evaluate_concatenation(const Expression& expression, Scope& scope);
  Arguments evaluate_arguments(const CallSyntax& call, Scope& scope);

  std::deque<std::unique_ptr<Scope>> kept_;  // scopes that macros may still read
  std::deque<Namespace> namespaces_;
  Scope root_{nullptr};
  std::tm now_;
  int line_ = 1;
  int depth_ = 0;
};

/// One more level of nested evaluation, which the stack limits.
class Interpreter::Level {
 public:
  explicit Level(Interpreter& interpreter);
  ~Level() { --interpreter_.depth_; }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

 private:
  Interpreter& interpreter_;
};

/// A scope that outlives its block if a macro needs it.
class Interpreter::OwnScope {
 public:
  OwnScope(Interpreter& interpreter, Scope& around)
      : interpreter_(interpreter), scope_(std::make_unique<Scope>(&around)) {}
  ~OwnScope() {
    if (scope_->is_kept()) interpreter_.kept_.push_back(std::move(scope_));
  }
  OwnScope(const OwnScope&) = delete;
  OwnScope& operator=(const OwnScope&) = delete;
  Scope& get() { return *scope_; }

 private:
  Interpreter& interpreter_;
  std::unique_ptr<Scope> scope_;
};

}  // namespace ballast::text::jinja

#endif  // BALLAST_TEXT_TEMPLATE_INTERPRETER_H_
