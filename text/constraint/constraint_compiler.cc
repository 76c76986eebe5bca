#include "text/constraint/constraint_compiler.h"

#include <utility>

#include "ballast/error.h"

#ifdef BALLAST_XGRAMMAR

#include <xgrammar/xgrammar.h>

#include <algorithm>
#include <exception>
#include <list>
#include <mutex>
#include <optional>
#include <string_view>

#include "files/text.h"
#include "text/constraint/constraint_grammar.h"

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

struct CompiledConstraint::Grammar {
  xgrammar::CompiledGrammar compiled;
  std::size_t vocabulary;
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
    const std::string source = is_tag ? checked_structural_tag(constraint) : constraint_grammar(constraint);
    try {
      if (!compiler) {
        // Threads are the engine's; compiled grammars are kept here, because the library would keep failures, too.
        compiler.emplace(make_token_table(tokenizer, vocabulary), 1, false);
      }
      xgrammar::first_warning.clear();
      const xgrammar::CompiledGrammar compiled =
          is_tag ? compiler->CompileStructuralTag(source) : compiler->CompileGrammar(source, "root");
      if (!xgrammar::first_warning.empty()) {
        throw UnsupportedError(constraint_name(constraint.kind), constraint_problem(xgrammar::first_warning));
      }
      const std::size_t bytes = compiled.MemorySizeBytes();
      return std::make_shared<const CompiledConstraint>(
          std::make_shared<const CompiledConstraint::Grammar>(compiled, vocabulary), bytes);
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
        mask((constraint->grammar().vocabulary + 31) / 32) {}

  std::shared_ptr<const CompiledConstraint> constraint;
  xgrammar::GrammarMatcher matcher;
  std::vector<std::uint32_t> mask;
  bool has_mask = false;
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
  }
  state_->has_mask = true;
  return state_->mask;
}

bool ConstraintMatcher::accept(int token) {
  if (ended() || !state_->matcher.AcceptToken(token)) return false;
  state_->has_mask = false;
  return true;
}

void ConstraintMatcher::roll_back(std::size_t tokens) {
  if (tokens == 0) return;
  state_->matcher.Rollback(static_cast<int>(tokens));
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
