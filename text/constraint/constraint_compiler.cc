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
  std::shared_ptr<const LengthRules> lengths;  ///< null: none
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
    JsonSchemaGrammar grammar;
    if (is_tag) {
      grammar.text = checked_structural_tag(constraint);
    } else {
      grammar = constraint_grammar(constraint);
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
          is_tag ? compiler->CompileStructuralTag(grammar.text) : compiler->CompileGrammar(grammar.text, "root");
      if (!xgrammar::first_warning.empty()) {
        throw UnsupportedError(constraint_name(constraint.kind), constraint_problem(xgrammar::first_warning));
      }
      const std::size_t bytes = compiled.MemorySizeBytes();
      std::shared_ptr<const LengthRules> lengths;
      if (!grammar.lengths.empty()) lengths = std::make_shared<const LengthRules>(std::move(grammar.lengths));
      const auto result = std::make_shared<const CompiledConstraint>(
          std::make_shared<const CompiledConstraint::Grammar>(compiled, vocabulary, std::move(lengths), string_tokens),
          bytes);
      ConstraintMatcher beginning(result, {});
      if (!beginning.complete() && std::ranges::all_of(beginning.allowed(), [](std::uint32_t word) { return word == 0; })) {
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
  State(std::shared_ptr<const CompiledConstraint> own, std::vector<int> end_tokens)
      : constraint(std::move(own)),
        matcher(constraint->grammar().compiled,
                end_tokens.empty() ? std::nullopt : std::optional(std::move(end_tokens))),
        mask((constraint->grammar().vocabulary + 31) / 32) {
    if (constraint->grammar().lengths != nullptr) lengths.emplace(constraint->grammar().lengths);
  }

  const std::vector<std::string>& token_texts() const {
    return constraint->grammar().compiled.GetTokenizerInfo().GetDecodedVocab();
  }

  /// Removes the tokens from the mask with which a string would become too long, or end too early.
  void keep_lengths() {
    if (!lengths) return;
    const StringTokens& tokens = *constraint->grammar().string_tokens;
    if (!lengths->in_string()) return check_lengths(tokens.after_first);
    if (!lengths->is_limited()) return check_lengths(tokens.after_second);
    const std::size_t room = lengths->room();
    constexpr std::size_t kLast = StringTokens::kCounted - 1;
    check_lengths(lengths->is_short() || room < StringTokens::kCounted ? tokens.quoted : tokens.after_second);
    if (room >= StringTokens::kCounted) return check_lengths(tokens.longer_than[kLast]);
    if (lengths->in_escape()) return check_lengths(tokens.longer_than[0]);  // few tokens are allowed
    check_lengths(tokens.escaping);
    // Others have as many characters as they have in any text.
    const std::vector<std::uint32_t>& longer = tokens.longer_than[room];
    for (std::size_t word = 0; word < longer.size(); ++word) mask[word] &= ~(longer[word] & ~tokens.escaping[word]);
  }

  void check_lengths(const std::vector<std::uint32_t>& checked) {
    const std::vector<std::string>& texts = token_texts();
    for (std::size_t word = 0; word < checked.size(); ++word) {
      for (std::uint32_t bits = mask[word] & checked[word]; bits != 0; bits &= bits - 1) {
        const std::size_t token = word * 32 + static_cast<std::size_t>(std::countr_zero(bits));
        if (!lengths->allows(texts[token])) mask[word] &= ~(std::uint32_t{1} << token % 32);
      }
    }
  }

  std::shared_ptr<const CompiledConstraint> constraint;
  xgrammar::GrammarMatcher matcher;
  std::vector<std::uint32_t> mask;
  bool has_mask = false;
  std::optional<StringLengths> lengths;
  std::vector<int> accepted;  ///< with lengths: all tokens
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
  if (state_->lengths) {
    const std::vector<std::string>& texts = state_->token_texts();
    const auto index = static_cast<std::size_t>(token);
    const bool has_text = token >= 0 && index < texts.size();
    if (has_text && !state_->lengths->allows(texts[index])) return false;
    if (!state_->matcher.AcceptToken(token)) return false;
    if (has_text && !ended()) state_->lengths->push(texts[index]);
    state_->accepted.push_back(token);
  } else if (!state_->matcher.AcceptToken(token)) {
    return false;
  }
  state_->has_mask = false;
  return true;
}

void ConstraintMatcher::roll_back(std::size_t tokens) {
  if (tokens == 0) return;
  state_->matcher.Rollback(static_cast<int>(tokens));
  if (state_->lengths) {
    state_->accepted.resize(state_->accepted.size() - tokens);
    state_->lengths.emplace(state_->constraint->grammar().lengths);
    const std::vector<std::string>& texts = state_->token_texts();
    for (const int token : state_->accepted) state_->lengths->push(texts[static_cast<std::size_t>(token)]);
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
