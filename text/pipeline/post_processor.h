// The special tokens around every text.
#ifndef BALLAST_TEXT_PIPELINE_POST_PROCESSOR_H_
#define BALLAST_TEXT_PIPELINE_POST_PROCESSOR_H_

#include <vector>

#include "files/json_reader.h"

namespace ballast::text {

struct TextFrame {
  std::vector<int> prefix;
  std::vector<int> suffix;
};

/// Reads the tokens that the `post_processor` of a tokenizer.json adds to a single text. Supports Sequence,
/// TemplateProcessing, BertProcessing, RobertaProcessing and ByteLevel (which adds nothing); throws Error naming any
/// other node.
TextFrame read_post_processor(const files::JsonReader& node);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_PIPELINE_POST_PROCESSOR_H_
