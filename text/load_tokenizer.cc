#include "files/gguf/gguf.h"
#include "text/readers/gguf_tokenizer.h"
#include "text/readers/json_tokenizer.h"
#include "text/readers/tokenizer_files.h"

namespace ballast::text {

std::unique_ptr<Tokenizer> load_tokenizer(const files::Checkpoint& checkpoint) {
  if (checkpoint.kind() == files::Checkpoint::Kind::kHuggingFace) {
    return read_tokenizer_directory(checkpoint.path(), checkpoint.config());
  }
  std::optional<TokenizerSource> source = read_gguf_tokenizer(dynamic_cast<const files::GgufFile&>(checkpoint));
  return source ? make_tokenizer(*std::move(source)) : nullptr;
}

}  // namespace ballast::text
