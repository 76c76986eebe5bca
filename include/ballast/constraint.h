// What a generated answer must match.
#ifndef BALLAST_CONSTRAINT_H_
#define BALLAST_CONSTRAINT_H_

#include <string>
#include <vector>

namespace ballast {

/// Restricts the answer of a model to the texts of a format: at each position only tokens that continue such a text are
/// chosen, and the model's end tokens only where the text is complete. Thinking before an answer is not restricted.
/// Special tokens are never a part of a constrained text, except those that a structural tag names.
///
/// Calls that get a constraint throw Error if it is not valid, and UnsupportedError if a part of it cannot be enforced
/// exactly: the message names the keyword and its place.
struct Constraint {
  enum class Kind {
    kNone,
    kJsonObject,     ///< any JSON object
    kJsonSchema,     ///< JSON that is valid under the JSON Schema (draft 2020-12) in `text`
    kRegex,          ///< the regular expression in `text` matches the whole answer
    kChoice,         ///< one of `choices`
    kGrammar,        ///< the rule `root` of the grammar in `text`, in EBNF like llama.cpp's GBNF
    kStructuralTag,  ///< the structural tag (JSON) in `text`: free text, tags, schemas and grammars in a tree
  };
  Kind kind = Kind::kNone;
  std::string text{};
  std::vector<std::string> choices{};
  /// For schemas: an object whose schema names properties and says nothing about others has no others.
  bool closed = true;
  /// For JSON: no white space between tokens of JSON. Otherwise the model may indent its answer.
  bool compact = false;

  explicit operator bool() const { return kind != Kind::kNone; }
  bool operator==(const Constraint&) const = default;
};

}  // namespace ballast

#endif  // BALLAST_CONSTRAINT_H_
