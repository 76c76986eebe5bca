#include "text/unicode/regex.h"

#include <time.h>

#include <array>
#include <new>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "ballast/error.h"
#include "files/text.h"
#include "files/utf8.h"
#include "text/unicode/regex_syntax.h"

namespace ballast::text {
namespace {

std::string pcre2_message(int code) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  pcre2_get_error_message(code, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

// The state of a thread for matching any expression; only the whole match is needed.
struct MatchState {
  std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> data{pcre2_match_data_create(1, nullptr),
                                                                      pcre2_match_data_free};
  std::unique_ptr<pcre2_match_context, void (*)(pcre2_match_context*)> context{pcre2_match_context_create(nullptr),
                                                                               pcre2_match_context_free};
  // Expressions that repeat a group need more than the 32 kB that compiled code uses of the stack by default.
  std::unique_ptr<pcre2_jit_stack, void (*)(pcre2_jit_stack*)> stack{pcre2_jit_stack_create(32 << 10, 8 << 20, nullptr),
                                                                     pcre2_jit_stack_free};

  MatchState() {
    if (!data || !context) throw std::bad_alloc();
    if (stack) pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  }
};

MatchState& thread_match_state() {
  thread_local MatchState state;
  return state;
}

thread_local MatchingTime* current_time = nullptr;

/// Returns the processor time of this thread.
double thread_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

MatchingTime::MatchingTime(double seconds) : end_(thread_seconds() + seconds), outer_(current_time) {
  current_time = this;
}

MatchingTime::~MatchingTime() {
  current_time = outer_;
}

void MatchingTime::check(std::string_view context) {
  constexpr unsigned kMatchesBetween = 16;
  if (current_time == nullptr || ++current_time->matches_ % kMatchesBetween != 0) return;
  if (thread_seconds() > current_time->end_) throw Error(context, "takes too long on this text: give a shorter one");
}

void Regex::FreeCode::operator()(pcre2_real_code_8* code) const {
  pcre2_code_free(code);
}

Regex Regex::from_pattern(std::string_view pattern, std::string_view context) {
  return Regex(pcre2_from_oniguruma(pattern, context),
               PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, context);
}

Regex Regex::from_literal(std::string_view text, std::string_view context) {
  return Regex(text, PCRE2_UTF | PCRE2_LITERAL, context);
}

Regex::Regex(std::string_view pattern, unsigned options, std::string_view context) : context_(context) {
  const std::unique_ptr<pcre2_compile_context, void (*)(pcre2_compile_context*)> compile_context(
      pcre2_compile_context_create(nullptr), pcre2_compile_context_free);
  if (!compile_context) throw std::bad_alloc();
  pcre2_set_newline(compile_context.get(), PCRE2_NEWLINE_LF);

  int error = 0;
  std::size_t offset = 0;
  code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), options, &error, &offset,
                            compile_context.get()));
  if (!code_)
    throw Error(context, "the expression " + files::in_quotes(pattern) + " does not compile: " + pcre2_message(error));
  // Without a compiler for this processor the interpreter is used.
  pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);
}

std::optional<Regex::Match> Regex::find(std::string_view subject, std::size_t start) const {
  MatchingTime::check(context_);
  MatchState& state = thread_match_state();
  const int result = pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(subject.data()), subject.size(), start,
                                 PCRE2_NO_UTF_CHECK, state.data.get(), state.context.get());
  if (result == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (result < 0) throw Error(context_, "the expression failed on a text: " + pcre2_message(result));
  const std::size_t* ends = pcre2_get_ovector_pointer(state.data.get());
  return Match{ends[0], ends[1]};
}

}  // namespace ballast::text
