// Constraints as grammars and as formats of structural tags.
#ifndef BALLAST_TEXT_CONSTRAINT_CONSTRAINT_GRAMMAR_H_
#define BALLAST_TEXT_CONSTRAINT_CONSTRAINT_GRAMMAR_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ballast/constraint.h"
#include "text/constraint/json_schema_grammar.h"

namespace ballast::text {

/// Returns a constraint of another kind than kNone and kStructuralTag as a grammar with the rule `root`. Throws Error
/// and UnsupportedError as ConstraintCompiler::compile() does.
JsonSchemaGrammar constraint_grammar(const Constraint& constraint);

struct CheckedTag {
  std::string json;
  /// The lengths of strings in the texts of grammars. Number i is that of the grammar whose rule `root` has the
  /// temperature i + 1, by which the library tells where in the tag a text is.
  std::vector<LengthRules> lengths{};
};

/// Returns a structural tag's JSON in which JSON Schemas and regular expressions are replaced by grammars of ours, so
/// that what is not supported is refused by name. Schemas in another style than JSON (XML of some tools' arguments) are
/// checked alone. Throws Error and UnsupportedError.
CheckedTag checked_structural_tag(const Constraint& constraint);

/// Returns the format of structural tags for what a constraint allows, to be put together with others. A format
/// json_schema has members `closed` and `compact`, Constraint's.
nlohmann::ordered_json constraint_format(const Constraint& constraint);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_CONSTRAINT_CONSTRAINT_GRAMMAR_H_
