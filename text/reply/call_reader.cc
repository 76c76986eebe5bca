#include "text/reply/call_reader.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace ballast::text {
namespace {

constexpr std::size_t kLongestId = 128;

// The longest name that OpenAI's API allows is 64; offered names may be longer.
constexpr std::size_t kLongestName = 128;

bool may_be_in_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("_-.:/").contains(c) || static_cast<unsigned char>(c) >= 0x80;
}

CallMarks existing_marks(const std::vector<std::string_view>& texts, const Tokenizer& tokenizer) {
  CallMarks marks = make_call_marks(texts, tokenizer);
  std::erase_if(marks, [](const CallMark& mark) { return mark.empty(); });
  return marks;
}

}  // namespace

TokenizedCallSyntax::TokenizedCallSyntax(const CallSyntax& call_syntax, const Tokenizer& tokenizer)
    : syntax(call_syntax),
      first(existing_marks({syntax.first}, tokenizer)),
      after_name(existing_marks(syntax.after_name, tokenizer)),
      after_name_or_id(after_name),
      after_arguments(existing_marks({syntax.after_arguments}, tokenizer)),
      between(existing_marks({syntax.next, syntax.close}, tokenizer)),
      next_is_first_between(!CallMark(syntax.next, tokenizer).empty()),
      gemma_quote(make_call_marks({R"(<|"|>)"}, tokenizer)),
      parameters(syntax.parameters, tokenizer),
      elements(syntax.elements, tokenizer) {
  if (!syntax.before_id.empty()) after_name_or_id.emplace_back(syntax.before_id, tokenizer);
}

CallReader::CallReader(std::shared_ptr<const TokenizedCallSyntax> syntax, OfferedTools tools, std::string name)
    : syntax_(std::move(syntax)),
      tools_(std::move(tools)),
      matcher_(syntax_->first),
      name_(std::move(name)),
      name_is_known_(!name_.empty()) {
  if (syntax_->first.empty()) begin_call();
}

CallReader::Result CallReader::take(const Symbol& symbol, Output& output) {
  switch (state_) {
    case State::kName:
      return take_name(symbol, output);
    case State::kId:
      return take_id(symbol);
    case State::kArguments:
      return json_calls_ ? take_json_calls(symbol, output) : take_arguments(symbol, output);
    default:
      return take_mark(symbol, output);
  }
}

void CallReader::match(State state, const CallMarks& marks) {
  state_ = state;
  matcher_ = CallMarkMatcher(marks);
  unread_.clear();
}

void CallReader::begin_call() {
  name_is_reported_ = false;
  unread_.clear();
  const CallArguments kind = syntax_->syntax.arguments;
  if (kind == CallArguments::kJsonWithName || kind == CallArguments::kJsonByName) {
    json_calls_.emplace(kind == CallArguments::kJsonByName, syntax_->syntax.offered_only);
    state_ = State::kArguments;
  } else if (name_is_known_) {
    begin_arguments();
  } else {
    name_.clear();
    state_ = State::kName;
  }
}

/// Removes what is around the tool's name. Returns whether it can be one.
bool CallReader::accept_name() {
  const CallSyntax& syntax = syntax_->syntax;
  const auto is_offered = [&] { return find_tool(*tools_, name_) != nullptr; };
  if (syntax.numbers_names && !is_offered()) {
    const std::size_t colon = name_.rfind(':');
    const std::string_view number = colon == std::string::npos ? "" : std::string_view(name_).substr(colon + 1);
    if (!number.empty() && number.find_first_not_of("0123456789") == std::string_view::npos) name_.resize(colon);
  }
  if (!syntax.name_prefix.empty() && name_.starts_with(syntax.name_prefix) && !is_offered()) {
    name_.erase(0, syntax.name_prefix.size());
  }
  if (is_offered()) return true;
  return !syntax.offered_only && !name_.empty() && name_.size() <= kLongestName &&
         std::ranges::all_of(name_, may_be_in_name);
}

void CallReader::begin_arguments() {
  state_ = State::kArguments;
  switch (syntax_->syntax.arguments) {
    case CallArguments::kParameters:
      arguments_.emplace(ParameterArguments(syntax_->parameters, find_tool(*tools_, name_)));
      break;
    case CallArguments::kElements:
      arguments_.emplace(ElementArguments(syntax_->elements, find_tool(*tools_, name_)));
      break;
    case CallArguments::kPython:
      arguments_.emplace(PythonArguments());
      break;
    case CallArguments::kGemma:
      arguments_.emplace(GemmaArguments(syntax_->gemma_quote));
      break;
    default:
      arguments_.emplace(JsonArguments());
      break;
  }
}

CallReader::Result CallReader::take_name(const Symbol& symbol, Output& output) {
  if (name_.empty() && symbol.is_space()) return Result::kMore;
  if (symbol.is_byte() && may_be_in_name(symbol.text.front()) && name_.size() < kLongestName) {
    name_ += symbol.text;
    return Result::kMore;
  }
  if (!accept_name()) return Result::kFailed;
  if (syntax_->after_name.empty()) {
    begin_arguments();
  } else {
    match(State::kAfterName, syntax_->after_name_or_id);
  }
  return take(symbol, output);
}

CallReader::Result CallReader::take_id(const Symbol& symbol) {
  std::string id;
  const bool ends = id_->take(symbol, id).has_value();
  id_size_ += id.size();
  if (id_size_ > kLongestId) return Result::kFailed;
  if (ends) begin_arguments();
  return Result::kMore;
}

CallReader::Result CallReader::take_arguments(const Symbol& symbol, Output& output) {
  std::string object;
  const ArgumentResult result = std::visit([&](auto& reader) { return reader.take(symbol, object); }, *arguments_);
  if (!object.empty() && !std::exchange(name_is_reported_, true)) output.name = name_;
  output.arguments += object;
  if (result == ArgumentResult::kFailed) return Result::kFailed;
  if (result == ArgumentResult::kMore) return Result::kMore;
  if (syntax_->after_arguments.empty()) return end_call(output);
  match(State::kAfterArguments, syntax_->after_arguments);
  return Result::kMore;
}

CallReader::Result CallReader::take_json_calls(const Symbol& symbol, Output& output) {
  const JsonCalls::Step step = json_calls_->take(symbol, output.arguments);
  if (step.failed) return Result::kFailed;
  if (step.has_name) {
    name_ = json_calls_->name();
    if (!accept_name()) return Result::kFailed;
  }
  if (!output.arguments.empty() && !std::exchange(name_is_reported_, true)) output.name = name_;
  if (step.ended && step.done && !syntax_->after_arguments.empty()) {
    match(State::kAfterArguments, syntax_->after_arguments);
    return Result::kMore;
  }
  if (step.ended) {
    output.completed = true;
    has_called_ = true;
    name_is_reported_ = false;
  }
  if (!step.done) return Result::kMore;
  return has_called_ ? between_calls() : Result::kFailed;
}

CallReader::Result CallReader::end_call(Output& output) {
  output.completed = true;
  has_called_ = true;
  return between_calls();
}

CallReader::Result CallReader::between_calls() {
  if (syntax_->between.empty()) return Result::kEnded;
  match(State::kBetween, syntax_->between);
  return Result::kMore;
}

CallReader::Result CallReader::take_mark(const Symbol& symbol, Output& output) {
  const CallMarkMatcher::Result result = matcher_.take(symbol);
  if (result == CallMarkMatcher::Result::kMore) {
    unread_ = symbol.is_byte() ? unread_ + symbol.text : "";
    return Result::kMore;
  }
  if (result == CallMarkMatcher::Result::kFailed) {
    const bool may_be_over = state_ == State::kBetween && syntax_->syntax.close.empty();
    return may_be_over ? Result::kEndedEarlier : Result::kFailed;
  }
  switch (state_) {
    case State::kFirst:
      begin_call();
      return Result::kMore;
    case State::kAfterName:
      unread_.clear();
      if (matcher_.matched() < syntax_->after_name.size()) {
        begin_arguments();
      } else {
        state_ = State::kId;
        id_.emplace(syntax_->after_name);
        id_size_ = 0;
      }
      return Result::kMore;
    case State::kAfterArguments:
      unread_.clear();
      return end_call(output);
    default: {
      const bool goes_on = syntax_->next_is_first_between && matcher_.matched() == 0;
      if (!goes_on) return Result::kEnded;
      begin_call();
      return syntax_->syntax.next_is_call ? take(symbol, output) : Result::kMore;
    }
  }
}

}  // namespace ballast::text
