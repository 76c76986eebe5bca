// The special tokens around every text, and around two texts that are compared.
#ifndef BALLAST_TEXT_PIPELINE_POST_PROCESSOR_H_
#define BALLAST_TEXT_PIPELINE_POST_PROCESSOR_H_

#include <vector>

#include "files/json_reader.h"
#include "text/tokenizer.h"

namespace ballast::text {

/// The tokens around a text and a pair.
struct TokenTemplate {
  std::vector<int> prefix;
  std::vector<int> suffix;
  std::vector<PairPart> pair;  ///< empty: the frame of one text is put around each
};

/// Reads the tokens that the `post_processor` of a tokenizer.json adds to a text and to a pair. Supports Sequence,
/// TemplateProcessing, BertProcessing, RobertaProcessing and ByteLevel (which adds nothing); throws Error naming any
/// other node.
TokenTemplate read_post_processor(const files::JsonReader& node);

/// Returns both texts of a pair within the frame of one text, as translation models have it.
std::vector<PairPart> joined_pair(const TokenTemplate& frame);

/// Returns the frame of one text around each text of a pair.
std::vector<PairPart> pair_of_frames(const TokenTemplate& frame);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_PIPELINE_POST_PROCESSOR_H_
