// A byte that names a kind of constraint, and its text: what compiles allows tokens that it also accepts, and is rolled
// back to where it began.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "../support/tiny_tokenizer.h"
#include "ballast/constraint.h"
#include "ballast/error.h"
#include "text/constraint/constraint_compiler.h"
#include "text/tokenizer.h"

namespace {

using ballast::Constraint;

constexpr std::size_t kCacheBytes = std::size_t{1} << 20;
constexpr int kEnd = 261;

void check(bool holds) {
  if (!holds) __builtin_trap();
}

/// Returns the allowed token that is `index` places after the first one, around the end.
int pick(std::span<const std::uint32_t> allowed, std::size_t index) {
  std::vector<int> ids;
  for (std::size_t i = 0; i < allowed.size() * 32; ++i) {
    if ((allowed[i / 32] >> (i % 32) & 1U) != 0) ids.push_back(static_cast<int>(i));
  }
  return ids.empty() ? -1 : ids[index % ids.size()];
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::unique_ptr<ballast::text::Tokenizer> tokenizer =
      ballast::test::make_tiny_tokenizer(ballast::test::tiny_tokenizer_json(), {{"eos_token", "<|end|>"}});
  static ballast::text::ConstraintCompiler compiler(*tokenizer, 300, kCacheBytes);
  constexpr Constraint::Kind kKinds[] = {Constraint::Kind::kJsonSchema, Constraint::Kind::kRegex,
                                         Constraint::Kind::kGrammar, Constraint::Kind::kStructuralTag};
  if (size < 2 || size > 4096 || !ballast::text::has_constraints()) return 0;
  Constraint constraint = {.kind = kKinds[data[0] % 4],
                           .text = std::string(reinterpret_cast<const char*>(data) + 1, size - 1)};
  constraint.compact = (data[0] & 4) != 0;
  constraint.closed = (data[0] & 8) != 0;
  try {
    ballast::text::ConstraintMatcher matcher(compiler.compile(constraint), {kEnd});
    const std::span<const std::uint32_t> mask = matcher.allowed();
    const std::vector<std::uint32_t> first(mask.begin(), mask.end());
    std::size_t accepted = 0;
    while (accepted < 60 && !matcher.ended()) {
      const int token = pick(matcher.allowed(), accepted * 7 + data[accepted % size]);
      if (token < 0) break;
      check(matcher.accept(token));
      ++accepted;
    }
    matcher.roll_back(accepted);
    const std::span<const std::uint32_t> again = matcher.allowed();
    check(std::vector<std::uint32_t>(again.begin(), again.end()) == first);
  } catch (const ballast::Error&) {  // refused in one line
  }
  return 0;
}
