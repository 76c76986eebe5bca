#include "text/pipeline/pre_tokenizer.h"

#include <array>
#include <string>
#include <utility>

#include "files/text.h"
#include "files/utf8.h"
#include "text/pipeline/nesting.h"
#include "text/pipeline/token_decoder.h"

namespace ballast::text {
namespace {

// The expression of GPT-2's encoder.py, which ByteLevel applies.
constexpr std::string_view kGpt2Expression =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Python's string.punctuation is the ASCII punctuation; Unicode has some of it as symbols.
constexpr std::string_view kPunctuation = R"([!-/:-@\[-`{-~\p{P}])";

}  // namespace

PreTokenizer::PreTokenizer(const std::optional<files::JsonReader>& node) {
  if (node) add_node(*node, 0);
}

void PreTokenizer::add_node(const files::JsonReader& node, int depth) {
  check_nesting(node, depth, steps_.size());
  if (byte_level_) node.fail("a step after ByteLevel is not supported");
  const std::string type = node.text("type");
  if (type == "Sequence") {
    for (const files::JsonReader& child : node.at("pretokenizers").elements()) add_node(child, depth + 1);
  } else if (type == "Split") {
    add_split(node);
  } else if (type == "Digits") {
    const std::string_view digits = node.flag("individual_digits", false) ? R"(\p{N})" : R"(\p{N}+)";
    add_pattern(digits, node, Behavior::kIsolated);
  } else if (type == "Punctuation") {
    const std::optional<files::JsonReader> name = node.find("behavior");
    add_pattern(kPunctuation, node, name ? behavior(*name) : Behavior::kIsolated);
  } else if (type == "Whitespace") {
    add_pattern(R"(\w+|[^\w\s]+)", node, Behavior::kRemoved, true);
  } else if (type == "WhitespaceSplit") {
    add_pattern(R"(\s)", node, Behavior::kRemoved);
  } else if (type == "BertPreTokenizer") {
    add_pattern(R"(\s)", node, Behavior::kRemoved);
    add_pattern(kPunctuation, node, Behavior::kIsolated);
  } else if (type == "Metaspace") {
    add_metaspace(node);
  } else if (type == "ByteLevel") {
    add_byte_level(node);
  } else {
    node.fail("pre-tokenizer " + files::in_quotes(type) + " is not supported");
  }
}

void PreTokenizer::add_split(const files::JsonReader& node) {
  const files::JsonReader pattern = node.at("pattern");
  const std::optional<files::JsonReader> literal = pattern.find("String");
  Regex regex = literal ? Regex::from_literal(literal->string(), literal->context())
                        : Regex::from_pattern(pattern.at("Regex").string(), pattern.context());
  steps_.push_back(Split{std::move(regex), behavior(node.at("behavior")), node.flag("invert", false)});
}

// The mapping of bytes to printable characters is not applied: the vocabulary is stored as bytes instead.
void PreTokenizer::add_byte_level(const files::JsonReader& node) {
  if (node.at("add_prefix_space").boolean()) steps_.emplace_back(PrefixSpace{});
  if (node.flag("use_regex", true)) add_pattern(kGpt2Expression, node, Behavior::kIsolated);
  byte_level_ = true;
}

void PreTokenizer::add_metaspace(const files::JsonReader& node) {
  using Prepend = Metaspace::Prepend;
  const files::JsonReader replacement = node.at("replacement");
  if (replacement.string().empty()) replacement.fail("is empty");
  Prepend prepend = node.flag("add_prefix_space", true) ? Prepend::kAlways : Prepend::kNever;
  if (const std::optional<files::JsonReader> scheme = node.find("prepend_scheme")) {
    const std::string& name = scheme->string();
    if (name != "always" && name != "first" && name != "never")
      scheme->fail(files::in_quotes(name) + " is not supported");
    prepend = name == "always" ? Prepend::kAlways : name == "first" ? Prepend::kFirst : Prepend::kNever;
  }
  steps_.push_back(Metaspace{replacement.string(), prepend});
  if (node.flag("split", true)) {
    steps_.push_back(
        Split{Regex::from_literal(replacement.string(), node.context()), Behavior::kMergedWithNext, false});
  }
}

void PreTokenizer::add_pattern(std::string_view pattern, const files::JsonReader& node, Behavior behavior,
                               bool invert) {
  steps_.push_back(Split{Regex::from_pattern(pattern, node.context()), behavior, invert});
}

PreTokenizer::Behavior PreTokenizer::behavior(const files::JsonReader& name) {
  constexpr std::array<std::pair<std::string_view, Behavior>, 5> kNames{{
      {"Isolated", Behavior::kIsolated},
      {"Removed", Behavior::kRemoved},
      {"Contiguous", Behavior::kContiguous},
      {"MergedWithPrevious", Behavior::kMergedWithPrevious},
      {"MergedWithNext", Behavior::kMergedWithNext},
  }};
  for (const auto& [known, value] : kNames) {
    if (name.string() == known) return value;
  }
  name.fail("behavior " + files::in_quotes(name.string()) + " is not supported");
}

// Returns whether a part belongs to the piece before it, given whether that piece's last part and the part itself are
// matches.
bool PreTokenizer::belong_together(Behavior behavior, bool last_matched, bool next_matches) {
  switch (behavior) {
    case Behavior::kIsolated:
    case Behavior::kRemoved:
      return false;
    case Behavior::kContiguous:
      return last_matched == next_matches;
    case Behavior::kMergedWithPrevious:
      return next_matches && !last_matched;
    case Behavior::kMergedWithNext:
      return last_matched && !next_matches;
  }
  return false;
}

void PreTokenizer::run(std::size_t step, std::string_view text, bool begins_input, const PieceSink& sink) const {
  if (text.empty()) return;
  if (step == steps_.size()) return sink(text);
  if (const Split* split = std::get_if<Split>(&steps_[step])) {
    run_split(*split, text,
              [&](std::string_view piece) { run(step + 1, piece, begins_input && piece.data() == text.data(), sink); });
  } else if (const Metaspace* metaspace = std::get_if<Metaspace>(&steps_[step])) {
    run(step + 1, apply(*metaspace, text, begins_input), begins_input, sink);
  } else if (text.starts_with(' ')) {
    run(step + 1, text, begins_input, sink);
  } else {
    run(step + 1, " " + std::string(text), begins_input, sink);
  }
}

std::string PreTokenizer::apply(const Metaspace& metaspace, std::string_view text, bool begins_input) {
  std::string replaced = replace_all(text, " ", metaspace.replacement);
  const bool prepend = metaspace.prepend == Metaspace::Prepend::kAlways ||
                       (metaspace.prepend == Metaspace::Prepend::kFirst && begins_input);
  return prepend && !replaced.starts_with(metaspace.replacement) ? metaspace.replacement + replaced : replaced;
}

void PreTokenizer::run_split(const Split& split, std::string_view text, const PieceSink& sink) {
  std::size_t piece_begin = 0;
  std::size_t piece_end = 0;
  bool last_matched = false;
  const auto flush = [&] {
    if (piece_begin == piece_end || (last_matched && split.behavior == Behavior::kRemoved)) return;
    sink(text.substr(piece_begin, piece_end - piece_begin));
  };
  const auto add_part = [&](std::size_t end, bool is_match) {
    if (piece_end == 0 || !belong_together(split.behavior, last_matched, is_match)) {
      flush();
      piece_begin = piece_end;
    }
    piece_end = end;
    last_matched = is_match;
  };

  // After an empty match the search continues one character later, where an empty match does not count.
  std::size_t search = 0;
  std::optional<std::size_t> last_end;
  while (search <= text.size()) {
    const std::optional<Regex::Match> match = split.regex.find(text, search);
    if (!match) break;
    if (match->begin == match->end && last_end == match->end) {
      search += search < text.size() ? files::utf8_step(text, search).length : 1;
      continue;
    }
    if (match->begin > piece_end) add_part(match->begin, split.invert);
    add_part(match->end, !split.invert);
    search = match->end;
    last_end = match->end;
  }
  if (piece_end < text.size()) add_part(text.size(), split.invert);
  flush();
}

}  // namespace ballast::text
