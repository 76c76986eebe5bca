// Translates JSON Schemas to grammars.
#ifndef BALLAST_TEXT_CONSTRAINT_JSON_SCHEMA_GRAMMAR_H_
#define BALLAST_TEXT_CONSTRAINT_JSON_SCHEMA_GRAMMAR_H_

#include <string>
#include <string_view>

#include "text/constraint/string_lengths.h"

namespace ballast::text {

struct JsonGrammarOptions {
  bool closed = true;    ///< as Constraint::closed
  bool compact = false;  ///< as Constraint::compact
  /// Lengths of strings are states of the grammar: at most 64 characters. Else they are in JsonSchemaGrammar::lengths.
  bool unrolls_lengths = false;
};

struct JsonSchemaGrammar {
  std::string text;
  LengthRules lengths;  ///< those that the grammar does not hold, to be followed from the beginning of the text
};

/// Returns a grammar whose rule `root` is JSON that is valid under a schema (draft 2020-12, and what earlier drafts
/// write in the same way). It holds fewer texts than the schema where that loses nothing: properties come in the order
/// of the schema, the others after them; numbers have at most 18 digits; a pattern without anchors describes the whole
/// string. Every text of it is valid: what it cannot hold exactly is refused, in an UnsupportedError that names the
/// keyword and its place. Formats, which are annotations, are held where they have a simple grammar. Throws Error for a
/// schema that is not valid, that no value matches, or that is too large.
JsonSchemaGrammar json_schema_grammar(std::string_view schema, const JsonGrammarOptions& options);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_CONSTRAINT_JSON_SCHEMA_GRAMMAR_H_
