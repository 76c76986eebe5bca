// Texts that a random model writes under constraints, for scripts/check_constraints.py. Reads a line of JSON for each
// constraint, {"kind": "json_schema", "text": ..., "closed": true}, and writes one: {"texts": [...], "unfinished": 0}
// or
// {"error": "...", "unsupported": true}.
//
//   constrain_lines TEXTS
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "../tiny_tokenizer.h"
#include "ballast/constraint.h"
#include "ballast/error.h"
#include "text/constraint/constraint_compiler.h"
#include "text/tokenizer.h"

namespace {

using ballast::Constraint;
using nlohmann::json;

constexpr std::size_t kMostTokens = 20'000;

Constraint::Kind kind_of(const std::string& name) {
  if (name == "json_object") return Constraint::Kind::kJsonObject;
  if (name == "json_schema") return Constraint::Kind::kJsonSchema;
  if (name == "regex") return Constraint::Kind::kRegex;
  if (name == "grammar") return Constraint::Kind::kGrammar;
  if (name == "structural_tag") return Constraint::Kind::kStructuralTag;
  std::cerr << "constrain_lines: unknown kind " << name << "\n";
  std::exit(2);
}

/// Chooses tokens with random weights; the longer the text, the likelier those that end something.
class RandomWriter {
 public:
  RandomWriter(const ballast::text::Tokenizer& tokenizer, std::uint64_t seed) : tokenizer_(tokenizer), random_(seed) {}

  int choose(std::span<const std::uint32_t> allowed, std::size_t length) {
    candidates_.clear();
    std::vector<int> closing;
    for (std::size_t i = 0; i < tokenizer_.vocab_size(); ++i) {
      if ((allowed[i / 32] >> (i % 32) & 1U) == 0) continue;
      const int id = static_cast<int>(i);
      candidates_.push_back(id);
      const std::string text = tokenizer_.token_bytes(id);
      if (tokenizer_.is_special(id) || text == "\"" || text == "}" || text == "]") closing.push_back(id);
    }
    if (candidates_.empty()) return -1;
    const bool closes = !closing.empty() && random_() % 256 < std::min<std::size_t>(24 + length / 4, 250);
    const std::vector<int>& from = closes ? closing : candidates_;
    return from[random_() % from.size()];
  }

 private:
  const ballast::text::Tokenizer& tokenizer_;
  std::mt19937_64 random_;
  std::vector<int> candidates_;
};

json write_texts(const ballast::text::Tokenizer& tokenizer, ballast::text::ConstraintCompiler& compiler,
                 const json& line, std::size_t count) {
  Constraint constraint;
  constraint.kind = kind_of(line.at("kind"));
  constraint.text = line.value("text", "");
  constraint.closed = line.value("closed", true);
  constraint.compact = line.value("compact", false);
  const auto compiled = compiler.compile(constraint);
  json texts = json::array();
  std::size_t unfinished = 0;
  for (std::size_t i = 0; i < count; ++i) {
    ballast::text::ConstraintMatcher matcher(compiled, {tokenizer.eos().value()});
    RandomWriter writer(tokenizer, i);
    std::string text;
    std::size_t length = 0;
    while (!matcher.ended() && length < kMostTokens) {
      const int token = writer.choose(matcher.allowed(), length++);
      if (token < 0) return {{"error", "no token may be chosen after " + text}, {"stuck", true}};
      if (!matcher.accept(token)) return {{"error", "an allowed token is not accepted"}, {"stuck", true}};
      if (!tokenizer.is_special(token)) text += tokenizer.token_bytes(token);
    }
    if (matcher.ended()) {
      texts.push_back(text);
    } else {
      ++unfinished;
    }
  }
  return {{"texts", texts}, {"unfinished", unfinished}, {"bytes", compiled->bytes()}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: constrain_lines TEXTS\n";
    return 2;
  }
  const std::size_t count = std::strtoul(argv[1], nullptr, 10);
  const auto tokenizer =
      ballast::test::make_tiny_tokenizer(ballast::test::tiny_tokenizer_json(), {{"eos_token", "<|end|>"}});
  ballast::text::ConstraintCompiler compiler(*tokenizer, tokenizer->vocab_size(), std::size_t{1} << 26);
  for (std::string line; std::getline(std::cin, line);) {
    json answer;
    try {
      answer = write_texts(*tokenizer, compiler, json::parse(line), count);
    } catch (const ballast::UnsupportedError& error) {
      answer = {{"error", error.what()}, {"unsupported", true}};
    } catch (const ballast::Error& error) {
      answer = {{"error", error.what()}, {"unsupported", false}};
    }
    std::cout << answer.dump(-1, ' ', false, json::error_handler_t::replace) << std::endl;
  }
  return 0;
}
