// The `model` of a tokenizer.json.
#ifndef BALLAST_MODEL_TOKENIZER_BPE_READER_H_
#define BALLAST_MODEL_TOKENIZER_BPE_READER_H_

#include <string_view>

#include "model/tokenizer/bpe.h"
#include "model/tokenizer/checked_json.h"

namespace ballast::model {

/// Ids above this are taken for damage: the largest vocabularies have 2.6e5.
inline constexpr int kMaxTokenId = 1 << 24;

/// A token's id. Throws Error when it is negative or absurd.
int read_token_id(const CheckedJson& node);

/// Throws Error when `ids` different ids go up to `size` - 1 with more holes than padding explains.
void check_dense(const CheckedJson& node, std::size_t ids, std::size_t size);

/// Vocabulary and merges of a `model` of type BPE over the byte alphabet. Throws Error naming file and path for another
/// type, an option that is not supported, two tokens with one id, and merges of unknown tokens.
BpeVocabulary read_bpe(const CheckedJson& model);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_TOKENIZER_BPE_READER_H_
