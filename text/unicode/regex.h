// Regular expressions of the pre-tokenizers of Hugging Face's tokenizers, executed by PCRE2.
#ifndef BALLAST_TEXT_UNICODE_REGEX_H_
#define BALLAST_TEXT_UNICODE_REGEX_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

struct pcre2_real_code_8;

namespace ballast::text {

/// During its lifetime, matching on this thread throws Error after this many seconds of processor time: the time of an
/// expression that looks ahead to the end of the text at every position grows with the square of the text's length.
class MatchingTime {
 public:
  explicit MatchingTime(double seconds);
  ~MatchingTime();
  MatchingTime(const MatchingTime&) = delete;
  MatchingTime& operator=(const MatchingTime&) = delete;

  /// Is called for each match.
  static void check(std::string_view context);

 private:
  double end_;
  MatchingTime* outer_;
  unsigned matches_ = 0;
};

/// Immutable; safe to use from several threads.
class Regex {
 public:
  struct Match {
    std::size_t begin;
    std::size_t end;
  };

  /// Compiles `pattern` in Oniguruma's syntax (the library that the expressions were written for). Throws Error naming
  /// `context` if it is invalid or uses a feature that PCRE2 interprets differently.
  static Regex from_pattern(std::string_view pattern, std::string_view context);

  /// Compiles an expression that matches `text` literally.
  static Regex from_literal(std::string_view text, std::string_view context);

  /// Returns the first match in `subject` (valid UTF-8) that begins at `start` or later. Throws Error if the expression
  /// exceeds PCRE2's limits on this subject.
  std::optional<Match> find(std::string_view subject, std::size_t start) const;

 private:
  struct FreeCode {
    void operator()(pcre2_real_code_8* code) const;
  };

  Regex(std::string_view pattern, unsigned options, std::string_view context);

  std::unique_ptr<pcre2_real_code_8, FreeCode> code_;
  std::string context_;
};

}  // namespace ballast::text

#endif  // BALLAST_TEXT_UNICODE_REGEX_H_
