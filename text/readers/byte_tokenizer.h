// Makes ByT5's tokenizer, which has no vocabulary file: its tokens are bytes.
#ifndef BALLAST_TEXT_READERS_BYTE_TOKENIZER_H_
#define BALLAST_TEXT_READERS_BYTE_TOKENIZER_H_

#include <filesystem>
#include <memory>

#include "text/readers/tokenizer_source.h"
#include "text/tokenizer.h"

namespace ballast::text {

/// Makes it from the special tokens that the files of `directory` name: padding, end and unknown, then the bytes, then
/// others. `source.config` is tokenizer_config.json as it was read. Throws Error naming it.
std::unique_ptr<Tokenizer> read_byt5(const std::filesystem::path& directory, TokenizerSource source);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_READERS_BYTE_TOKENIZER_H_
