#include "text/constraint/constraint_compiler.h"

#include <utility>

#include "ballast/error.h"

#ifdef BALLAST_XGRAMMAR

#include <xgrammar/xgrammar.h>

#include <algorithm>
#include <bit>
#include <exception>
#include <list>
#include <mutex>
#include <optional>
#include <string_view>

#include "files/text.h"
#include "files/utf8.h"
#include "text/constraint/constraint_grammar.h"
#include "text/constraint/string_lengths.h"

namespace xgrammar {

namespace {
/// The first warning of a compilation on this thread: something in a constraint would be ignored.
thread_local std::string first_warning;  // NOLINT(google-global-names-in-headers)
}  // namespace

// The library calls these two instead of writing to standard error: see CMakeLists.txt.
[[noreturn]] void LogFatalImpl(const std::string& file, int line, const std::string& message);
void LogMessageImpl(const std::string& file, int line, int level, const std::string& message);

void LogFatalImpl(const std::string& /*file*/, int /*line*/, const std::string& message) {
  throw std::runtime_error(message);
}

void LogMessageImpl(const std::string& /*file*/, int /*line*/, int level, const std::string& message) {
  constexpr int kWarning = 2;
  if (level >= kWarning && first_warning.empty()) first_warning = message;
}

}  // namespace xgrammar

namespace ballast::text {

/// What tokens do to strings of JSON, as bits of tokens.
struct StringTokens {
  static constexpr std::size_t kCounted = 32;

  explicit StringTokens(const std::vector<std::string>& texts)
      : quoted((texts.size() + 31) / 32),
        escaping(quoted.size()),
        after_first(quoted.size()),
        after_second(quoted.size()),
        longer_than(kCounted, quoted) {
    for (std::size_t token = 0; token < texts.size(); ++token) {
      const std::string& text = texts[token];
      const auto set = [&](std::vector<std::uint32_t>& bits) { bits[token / 32] |= std::uint32_t{1} << token % 32; };
      const std::size_t first = text.find('"');
      const std::size_t second = first == std::string::npos ? first : text.find('"', first + 1);
      if (text.find('\\') != std::string::npos) set(escaping);
      if (first != std::string::npos) {
        set(quoted);
        if (first + 1 < text.size()) set(after_first);
        if (second != std::string::npos && second + 1 < text.size()) set(after_second);
      } else {
        const auto characters = static_cast<std::size_t>(
            std::ranges::count_if(text, [](char byte) { return !files::continues_code_point(byte); }));
        for (std::size_t i = 0; i < std::min(kCounted, characters); ++i) set(longer_than[i]);
      }
    }
  }

  std::vector<std::uint32_t> quoted;                    ///< with a quote
  std::vector<std::uint32_t> escaping;                  ///< with a backslash
  std::vector<std::uint32_t> after_first;               ///< with something after the first quote
  std::vector<std::uint32_t> after_second;              ///< with something after the second quote
  std::vector<std::vector<std::uint32_t>> longer_than;  ///< [i]: without quotes, of more than i characters
};

struct CompiledConstraint::Grammar {
  xgrammar::CompiledGrammar compiled;
  std::size_t vocabulary;
  bool is_tag;
  /// Of the texts of JSON in a structural tag (CheckedTag::lengths), or of the only one.
  std::vector<std::shared_ptr<const LengthRules>> lengths;
  std::shared_ptr<const StringTokens> string_tokens;
};

namespace {

/// Returns the library's message as one line: without the condition that failed in its code.
std::string constraint_problem(std::string_view message) {
  constexpr std::string_view kCheck = " is false: ";
  const std::size_t check = message.starts_with("Check failed") ? message.find(kCheck) : std::string_view::npos;
  if (check != std::string_view::npos) message.remove_prefix(check + kCheck.size());
  std::string line(message.substr(0, 400));
  std::ranges::replace(line, '\n', ' ');
  return line;
}

std::string_view constraint_name(Constraint::Kind kind) {
  switch (kind) {
    case Constraint::Kind::kNone:
      return "constraint";
    case Constraint::Kind::kJsonObject:
    case Constraint::Kind::kJsonSchema:
      return "json schema";
    case Constraint::Kind::kRegex:
      return "regex";
    case Constraint::Kind::kChoice:
      return "choice";
    case Constraint::Kind::kGrammar:
      return "grammar";
    case Constraint::Kind::kStructuralTag:
      return "structural tag";
  }
  return "constraint";
}

/// Returns bytes that are in no text, a different sequence for each id. The library never lets a token without bytes
/// through; one with these only where a structural tag names its id or lets any token through.
std::string special_token_bytes(int id) {
  std::string bytes;
  auto rest = static_cast<unsigned>(id);
  do {
    bytes.push_back(static_cast<char>(0xF8U | (rest & 7U)));
    rest >>= 3;
  } while (rest != 0);
  return bytes;
}

xgrammar::TokenizerInfo make_token_table(const Tokenizer& tokenizer, std::size_t vocabulary) {
  std::vector<std::string> tokens;
  const std::size_t count = std::min(vocabulary, tokenizer.vocab_size());
  tokens.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const int id = static_cast<int>(i);
    // Ids without bytes are unused.
    std::string bytes = tokenizer.token_bytes(id);
    const bool is_special = tokenizer.is_special(id) && !bytes.empty();
    tokens.push_back(is_special ? special_token_bytes(id) : std::move(bytes));
  }
  return xgrammar::TokenizerInfo(tokens, xgrammar::VocabType::RAW, static_cast<int>(vocabulary),
                                 std::vector<std::int32_t>{});
}

}  // namespace

struct ConstraintCompiler::State {
  State(const Tokenizer& own_tokenizer, std::size_t logits, std::size_t most_bytes)
      : tokenizer(own_tokenizer), vocabulary(logits), cache_bytes(most_bytes) {}

  struct Entry {
    Constraint constraint;
    std::shared_ptr<const CompiledConstraint> compiled;

    std::size_t bytes() const { return compiled->bytes() + constraint.text.size(); }
  };

  std::shared_ptr<const CompiledConstraint> find(const Constraint& constraint) {
    const std::lock_guard lock(cache_mutex);
    const auto found = std::ranges::find(cache, constraint, &Entry::constraint);
    if (found == cache.end()) return nullptr;
    cache.splice(cache.begin(), cache, found);
    return found->compiled;
  }

  void keep(const Constraint& constraint, const std::shared_ptr<const CompiledConstraint>& compiled) {
    const std::lock_guard lock(cache_mutex);
    cache.push_front({constraint, compiled});
    cached += cache.front().bytes();
    while (cached > cache_bytes) {
      cached -= cache.back().bytes();
      cache.pop_back();
    }
  }

  std::shared_ptr<const CompiledConstraint> compile(const Constraint& constraint) {
    const bool is_tag = constraint.kind == Constraint::Kind::kStructuralTag;
    std::string text;
    std::vector<std::shared_ptr<const LengthRules>> lengths;
    const auto add_lengths = [&](LengthRules&& rules) {
      if (!rules.empty()) lengths.push_back(std::make_shared<const LengthRules>(std::move(rules)));
    };
    if (is_tag) {
      CheckedTag tag = checked_structural_tag(constraint);
      text = std::move(tag.json);
      std::ranges::for_each(tag.lengths, [&](LengthRules& rules) { add_lengths(std::move(rules)); });
    } else {
      JsonSchemaGrammar grammar = constraint_grammar(constraint);
      text = std::move(grammar.text);
      add_lengths(std::move(grammar.lengths));
    }
    try {
      if (!compiler) {
        // Threads are the engine's; compiled grammars are kept here, because the library would keep failures, too.
        const xgrammar::TokenizerInfo table = make_token_table(tokenizer, vocabulary);
        string_tokens = std::make_shared<const StringTokens>(table.GetDecodedVocab());
        compiler.emplace(table, 1, false);
      }
      xgrammar::first_warning.clear();
      const xgrammar::CompiledGrammar compiled =
          is_tag ? compiler->CompileStructuralTag(text) : compiler->CompileGrammar(text, "root");
      if (!xgrammar::first_warning.empty()) {
        throw UnsupportedError(constraint_name(constraint.kind), constraint_problem(xgrammar::first_warning));
      }
      const std::size_t bytes = compiled.MemorySizeBytes();
      const auto result = std::make_shared<const CompiledConstraint>(
          std::make_shared<const CompiledConstraint::Grammar>(compiled, vocabulary, is_tag, std::move(lengths),
                                                              string_tokens),
          bytes);
      ConstraintMatcher beginning(result, {});
      if (!beginning.complete() &&
          std::ranges::all_of(beginning.allowed(), [](std::uint32_t word) { return word == 0; })) {
        throw Error(constraint_name(constraint.kind), "the model's vocabulary has no token that begins such a text");
      }
      return result;
    } catch (const Error&) {
      throw;
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {
      throw Error(constraint_name(constraint.kind), constraint_problem(error.what()));
    }
  }

  const Tokenizer& tokenizer;
  std::size_t vocabulary;
  std::size_t cache_bytes;
  mutable std::mutex cache_mutex;
  std::list<Entry> cache;  ///< the one that was used last first
  std::size_t cached = 0;
  std::mutex compile_mutex;
  std::optional<xgrammar::GrammarCompiler> compiler;
  std::shared_ptr<const StringTokens> string_tokens;
};

ConstraintCompiler::ConstraintCompiler(const Tokenizer& tokenizer, std::size_t vocabulary, std::size_t cache_bytes)
    : state_(std::make_unique<State>(tokenizer, vocabulary, cache_bytes)) {}

ConstraintCompiler::~ConstraintCompiler() = default;

std::shared_ptr<const CompiledConstraint> ConstraintCompiler::compile(const Constraint& constraint) {
  if (std::shared_ptr<const CompiledConstraint> known = state_->find(constraint)) return known;
  const std::lock_guard lock(state_->compile_mutex);
  // Another thread may have compiled it in the meantime.
  if (std::shared_ptr<const CompiledConstraint> known = state_->find(constraint)) return known;
  std::shared_ptr<const CompiledConstraint> compiled = state_->compile(constraint);
  state_->keep(constraint, compiled);
  return compiled;
}

std::size_t ConstraintCompiler::cached_bytes() const {
  const std::lock_guard lock(state_->cache_mutex);
  return state_->cached;
}

struct ConstraintMatcher::State {
  /// Where a text is with respect to JSON whose strings have lengths.
  struct Position {
    std::size_t json = 0;  ///< 1 + the number of the rules of JSON that is open, or that may begin; 0: there is none
    bool has_begun = false;
    std::optional<StringLengths> lengths{};
  };

  State(std::shared_ptr<const CompiledConstraint> own, std::vector<int> end_tokens)
      : constraint(std::move(own)),
        matcher(grammar().compiled, end_tokens.empty() ? std::nullopt : std::optional(std::move(end_tokens))),
        mask((grammar().vocabulary + 31) / 32) {
    if (has_lengths()) position = position_before(open_json());
  }

  const CompiledConstraint::Grammar& grammar() const { return constraint->grammar(); }
  bool has_lengths() const { return !grammar().lengths.empty(); }
  const std::vector<std::string>& token_texts() const {
    return grammar().compiled.GetTokenizerInfo().GetDecodedVocab();
  }

  /// Returns Position::json as the grammar sees it.
  std::size_t open_json() const {
    if (!grammar().is_tag) return 1;
    const std::optional<float> temperature = matcher.GetTemperature();
    return temperature ? static_cast<std::size_t>(*temperature) : 0;
  }

  Position position_before(std::size_t json) const {
    Position before = {.json = json};
    if (json > 0) before.lengths.emplace(grammar().lengths[json - 1]);
    return before;
  }

  /// Adds bytes to a position, between which no JSON begins or ends. White space before JSON is not a part of it: ours
  /// begins with another character.
  static void push(Position& at, std::string_view bytes) {
    if (at.json == 0) return;
    if (!at.has_begun) bytes.remove_prefix(std::min(bytes.find_first_not_of(" \t\r\n"), bytes.size()));
    at.has_begun = at.has_begun || !bytes.empty();
    at.lengths->push(bytes);
  }

  /// Moves to the next JSON if the grammar is in another one, or if that of the position is complete.
  void settle(Position& at) const {
    const std::size_t json = open_json();
    if (at.json != json || (at.lengths && at.lengths->ended())) at = position_before(json);
  }

  /// Returns the position after the text of a token, which the grammar allows; absent if a string becomes too long or
  /// ends too early. The matcher stays where it is.
  std::optional<Position> position_after(const std::string& text) {
    Position after = position;
    for (std::size_t size = 1; size <= text.size(); ++size) {
      // One step, because the budgets of thinking count steps. Special tokens have no text here.
      if (!matcher.AcceptString(text.substr(0, size))) break;
      push(after, std::string_view(text).substr(size - 1, 1));
      const bool failed = after.lengths && after.lengths->failed();
      if (!failed) settle(after);
      matcher.Rollback(1);
      if (failed) return std::nullopt;
    }
    return after;
  }

  /// Accepts a token, and follows the lengths of strings in its text.
  bool accept_with_lengths(int token) {
    const std::vector<std::string>& texts = token_texts();
    const auto index = static_cast<std::size_t>(token);
    const std::string& text = token >= 0 && index < texts.size() ? texts[index] : std::string();
    Position after = position;
    push(after, text);
    if (!matcher.AcceptToken(token)) return false;
    const std::size_t json = open_json();
    const bool within = after.has_begun && json == after.json && !after.lengths->ended();
    const bool outside = after.json == 0 && json == 0 && !text.contains('"');
    if (!within && !outside && !matcher.IsTerminated()) {
      matcher.Rollback(1);
      std::optional<Position> exact = position_after(text);
      if (!exact || !matcher.AcceptToken(token)) return false;
      after = *std::move(exact);
      settle(after);
    } else if (after.lengths && after.lengths->failed()) {
      matcher.Rollback(1);
      return false;
    }
    earlier.push_back(std::exchange(position, std::move(after)));
    return true;
  }

  /// Removes the tokens from the mask with which a string would become too long, or end too early.
  void keep_lengths() {
    if (!has_lengths()) return;
    const StringTokens& tokens = *grammar().string_tokens;
    if (!position.has_begun) return check_beginnings(tokens.after_first);
    if (!position.lengths->in_string()) return check_lengths(tokens.after_first);
    if (!position.lengths->is_limited()) return check_lengths(tokens.after_second);
    const std::size_t room = position.lengths->room();
    constexpr std::size_t kLast = StringTokens::kCounted - 1;
    check_lengths(position.lengths->is_short() || room < StringTokens::kCounted ? tokens.quoted : tokens.after_second);
    if (room >= StringTokens::kCounted) return check_lengths(tokens.longer_than[kLast]);
    if (position.lengths->in_escape()) return check_lengths(tokens.longer_than[0]);  // few tokens are allowed
    check_lengths(tokens.escaping);
    // Others have as many characters as they have in any text.
    const std::vector<std::uint32_t>& longer = tokens.longer_than[room];
    for (std::size_t word = 0; word < longer.size(); ++word) mask[word] &= ~(longer[word] & ~tokens.escaping[word]);
  }

  /// Calls `keeps` for each token that is in the mask and in `checked`, and removes those for which it is false.
  template <class Keeps>
  void filter(const std::vector<std::uint32_t>& checked, const Keeps& keeps) {
    const std::vector<std::string>& texts = token_texts();
    for (std::size_t word = 0; word < checked.size(); ++word) {
      for (std::uint32_t bits = mask[word] & checked[word]; bits != 0; bits &= bits - 1) {
        const std::size_t token = word * 32 + static_cast<std::size_t>(std::countr_zero(bits));
        if (!keeps(texts[token])) mask[word] &= ~(std::uint32_t{1} << token % 32);
      }
    }
  }

  void check_lengths(const std::vector<std::uint32_t>& checked) {
    filter(checked, [&](const std::string& text) {
      StringLengths after = *position.lengths;
      after.push(text);
      // After the end of this JSON another one may begin.
      return !after.failed() && (!after.ended() || position_after(text).has_value());
    });
  }

  /// Checks tokens in whose text JSON may begin and have a string. Before JSON there is fixed text, where few tokens
  /// are possible; where the text is free, none reaches over what is between it and JSON.
  void check_beginnings(const std::vector<std::uint32_t>& checked) {
    constexpr std::size_t kMostChecked = 256;
    std::size_t count = 0;
    for (std::size_t word = 0; word < checked.size() && count <= kMostChecked; ++word) {
      count += static_cast<std::size_t>(std::popcount(mask[word] & checked[word]));
    }
    if (count > kMostChecked) return;
    filter(checked, [&](const std::string& text) { return position_after(text).has_value(); });
  }

  std::shared_ptr<const CompiledConstraint> constraint;
  xgrammar::GrammarMatcher matcher;
  std::vector<std::uint32_t> mask;
  bool has_mask = false;
  Position position;              ///< with lengths only
  std::vector<Position> earlier;  ///< before each accepted token
};

ConstraintMatcher::ConstraintMatcher(std::shared_ptr<const CompiledConstraint> constraint,
                                     std::vector<int> end_tokens) {
  const auto vocabulary = static_cast<int>(constraint->grammar().vocabulary);
  std::erase_if(end_tokens, [&](int token) { return token < 0 || token >= vocabulary; });
  state_ = std::make_unique<State>(std::move(constraint), std::move(end_tokens));
}

ConstraintMatcher::~ConstraintMatcher() = default;
ConstraintMatcher::ConstraintMatcher(ConstraintMatcher&&) noexcept = default;
ConstraintMatcher& ConstraintMatcher::operator=(ConstraintMatcher&&) noexcept = default;

std::span<const std::uint32_t> ConstraintMatcher::allowed() {
  if (state_->has_mask) return state_->mask;
  auto size = static_cast<std::int64_t>(state_->mask.size());
  DLTensor tensor = {.data = state_->mask.data(),
                     .device = {kDLCPU, 0},
                     .ndim = 1,
                     .dtype = xgrammar::GetBitmaskDLType(),
                     .shape = &size,
                     .strides = nullptr,
                     .byte_offset = 0};
  if (ended()) {
    std::ranges::fill(state_->mask, 0);
  } else {
    state_->matcher.FillNextTokenBitmask(&tensor);
    // The last word's bits beyond the vocabulary mean nothing.
    const std::size_t rest = state_->constraint->grammar().vocabulary % 32;
    if (rest != 0) state_->mask.back() &= (std::uint32_t{1} << rest) - 1;
    state_->keep_lengths();
  }
  state_->has_mask = true;
  return state_->mask;
}

bool ConstraintMatcher::accept(int token) {
  if (ended()) return false;
  const bool accepted = state_->has_lengths() ? state_->accept_with_lengths(token) : state_->matcher.AcceptToken(token);
  if (accepted) state_->has_mask = false;
  return accepted;
}

void ConstraintMatcher::roll_back(std::size_t tokens) {
  if (tokens == 0) return;
  state_->matcher.Rollback(static_cast<int>(tokens));
  if (state_->has_lengths()) {
    const std::size_t left = state_->earlier.size() - tokens;
    state_->position = std::move(state_->earlier[left]);
    state_->earlier.resize(left);
  }
  state_->has_mask = false;
}

std::string ConstraintMatcher::forced_text() {
  return ended() ? std::string() : state_->matcher.FindJumpForwardString();
}

bool ConstraintMatcher::ended() const {
  return state_->matcher.IsTerminated();
}

bool ConstraintMatcher::complete() const {
  return state_->matcher.IsCompleted();
}

bool has_constraints() {
  return true;
}

}  // namespace ballast::text

#else

namespace ballast::text {

struct CompiledConstraint::Grammar {};
struct ConstraintCompiler::State {};
struct ConstraintMatcher::State {};

ConstraintCompiler::ConstraintCompiler(const Tokenizer& /*tokenizer*/, std::size_t /*vocabulary*/,
                                       std::size_t /*cache_bytes*/) {}
ConstraintCompiler::~ConstraintCompiler() = default;

std::shared_ptr<const CompiledConstraint> ConstraintCompiler::compile(const Constraint& /*constraint*/) {
  throw UnsupportedError("constraint", "this build has none: it was configured with BALLAST_XGRAMMAR=OFF");
}

std::size_t ConstraintCompiler::cached_bytes() const {
  return 0;
}

// No constraint is ever compiled, so that there is none to match.
ConstraintMatcher::ConstraintMatcher(std::shared_ptr<const CompiledConstraint> /*constraint*/,
                                     std::vector<int> /*end_tokens*/) {}
ConstraintMatcher::~ConstraintMatcher() = default;
ConstraintMatcher::ConstraintMatcher(ConstraintMatcher&&) noexcept = default;
ConstraintMatcher& ConstraintMatcher::operator=(ConstraintMatcher&&) noexcept = default;

std::span<const std::uint32_t> ConstraintMatcher::allowed() {
  return {};
}
bool ConstraintMatcher::accept(int /*token*/) {
  return false;
}
void ConstraintMatcher::roll_back(std::size_t /*tokens*/) {}
std::string ConstraintMatcher::forced_text() {
  return {};
}
bool ConstraintMatcher::ended() const {
  return true;
}
bool ConstraintMatcher::complete() const {
  return true;
}

bool has_constraints() {
  return false;
}

}  // namespace ballast::text

#endif
