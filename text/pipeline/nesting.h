#ifndef BALLAST_TEXT_PIPELINE_NESTING_H_
#define BALLAST_TEXT_PIPELINE_NESTING_H_

#include <cstddef>

#include "files/json_reader.h"

namespace ballast::text {

/// Throws Error if steps are nested more deeply, or are more, than any tokenizer needs: steps call their inner steps,
/// and a file must not determine the use of the stack.
inline void check_nesting(const files::JsonReader& node, int depth, std::size_t steps = 0) {
  if (depth > 16) node.fail("nested too deep");
  if (steps > 64) node.fail("comes after 64 other steps: too many");
}

}  // namespace ballast::text

#endif  // BALLAST_TEXT_PIPELINE_NESTING_H_
