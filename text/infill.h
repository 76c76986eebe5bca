// Prompts for the text in a gap (fill in the middle), by the tokens that code models are trained with.
#ifndef BALLAST_TEXT_INFILL_H_
#define BALLAST_TEXT_INFILL_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace ballast::text {

/// Another file of the project, which the model reads before the one with the gap.
struct InfillFile {
  std::string name;
  std::string text;
};

struct InfillRequest {
  std::string_view before;  ///< the text before the gap
  std::string_view after;
  std::span<const InfillFile> files{};
  std::string_view begun{};  ///< the beginning of the text in the gap, which the answer continues
};

struct InfillPrompt {
  std::vector<int> ids;   ///< without the tokens that begin every text
  std::vector<int> ends;  ///< tokens that end the text in the gap
};

/// Returns the prompt by which the model writes the text in a gap; nullopt if its vocabulary has no tokens for that.
/// Special tokens in the texts are plain text. Texts with more than `most` tokens are read only until they are known to
/// be too long: the prompt then has more than `most`.
std::optional<InfillPrompt> make_infill_prompt(const Tokenizer& tokenizer, const InfillRequest& request,
                                               std::size_t most = Tokenizer::kNoLimit);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_INFILL_H_
