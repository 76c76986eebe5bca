// Flags that constrain generated text.
#ifndef BALLAST_TOOLS_FLAGS_CONSTRAINT_FLAGS_H_
#define BALLAST_TOOLS_FLAGS_CONSTRAINT_FLAGS_H_

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>

#include "ballast/constraint.h"

namespace ballast::tools {

struct ConstraintFlags {
  std::filesystem::path schema;
  std::filesystem::path grammar;
  std::string regex;
};

/// Adds --json-schema, --grammar and --regex, which exclude each other.
void add_constraint_flags(CLI::App& command, ConstraintFlags& flags);

/// Reads the named file. Throws Error if that fails.
Constraint read_constraint(const ConstraintFlags& flags);

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_FLAGS_CONSTRAINT_FLAGS_H_
