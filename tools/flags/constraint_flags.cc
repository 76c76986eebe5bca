#include "tools/flags/constraint_flags.h"

#include "files/text_file.h"

namespace ballast::tools {

void add_constraint_flags(CLI::App& command, ConstraintFlags& flags) {
  CLI::Option* schema =
      command.add_option("--json-schema", flags.schema, "The answer is JSON that is valid under this JSON Schema")
          ->type_name("FILE");
  CLI::Option* grammar =
      command.add_option("--grammar", flags.grammar, "The answer is a text of this grammar (EBNF, like llama.cpp's)")
          ->type_name("FILE")
          ->excludes(schema);
  command.add_option("--regex", flags.regex, "The answer matches this regular expression as a whole")
      ->type_name("EXPR")
      ->excludes(schema)
      ->excludes(grammar);
}

Constraint read_constraint(const ConstraintFlags& flags) {
  if (!flags.schema.empty()) {
    return {.kind = Constraint::Kind::kJsonSchema, .text = files::read_text_file(flags.schema)};
  }
  if (!flags.grammar.empty()) {
    return {.kind = Constraint::Kind::kGrammar, .text = files::read_text_file(flags.grammar)};
  }
  if (!flags.regex.empty()) return {.kind = Constraint::Kind::kRegex, .text = flags.regex};
  return {};
}

}  // namespace ballast::tools
