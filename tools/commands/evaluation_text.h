// The results of an evaluation as text for a terminal.
#ifndef BALLAST_TOOLS_COMMANDS_EVALUATION_TEXT_H_
#define BALLAST_TOOLS_COMMANDS_EVALUATION_TEXT_H_

#include <string>

#include "ballast/choices.h"
#include "ballast/embed.h"
#include "ballast/evaluate.h"

namespace ballast::tools {

std::string evaluation_sheet(const Evaluation& evaluation);
std::string choice_sheet(const ChoiceEvaluation& evaluation);
std::string vector_sheet(const VectorComparison& comparison);

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_COMMANDS_EVALUATION_TEXT_H_
