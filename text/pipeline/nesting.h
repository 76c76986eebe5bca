#ifndef BALLAST_TEXT_PIPELINE_NESTING_H_
#define BALLAST_TEXT_PIPELINE_NESTING_H_

#include "files/json_reader.h"

namespace ballast::text {

/// Steps of a pipeline may hold steps. Throws Error where they do so deeper than any tokenizer needs: a file must not
/// choose how much stack is used.
inline void check_nesting(const files::JsonReader& node, int depth) {
  if (depth > 16) node.fail("nested too deep");
}

}  // namespace ballast::text

#endif  // BALLAST_TEXT_PIPELINE_NESTING_H_
