#include "model/checkpoint/gguf.h"
#include "model/tokenizer/gguf_tokenizer.h"
#include "model/tokenizer/json_tokenizer.h"
#include "model/tokenizer/tokenizer_files.h"

namespace ballast::model {

std::unique_ptr<Tokenizer> load_tokenizer(const Checkpoint& checkpoint) {
  if (checkpoint.kind() == Checkpoint::Kind::kHuggingFace) {
    return read_tokenizer_directory(checkpoint.path(), checkpoint.config());
  }
  std::optional<TokenizerSource> source = read_gguf_tokenizer(dynamic_cast<const GgufFile&>(checkpoint));
  return source ? make_tokenizer(*std::move(source)) : nullptr;
}

}  // namespace ballast::model
