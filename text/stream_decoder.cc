#include "files/utf8.h"
#include "text/tokenizer.h"

namespace ballast::text {

std::string StreamDecoder::push(int id) {
  if (!show_special_ && tokenizer_.is_special(id)) return {};
  const std::string bytes = tokenizer_.token_bytes(id);
  if (bytes.empty()) return {};
  pending_ += std::string_view(bytes).substr(drop_space_ && bytes.starts_with(' ') ? 1 : 0);
  drop_space_ = false;
  // Only the last step can be truncated, so at most three bytes are held back.
  std::size_t ready = 0;
  while (ready < pending_.size()) {
    const files::Utf8Step step = files::utf8_step(pending_, ready);
    if (step.kind == files::Utf8Step::Kind::kTruncated) break;
    ready += step.length;
  }
  std::string text = files::replace_invalid_utf8(std::string_view(pending_).substr(0, ready));
  pending_.erase(0, ready);
  return text;
}

std::string StreamDecoder::finish() {
  std::string text = files::replace_invalid_utf8(pending_);
  pending_.clear();
  return text;
}

}  // namespace ballast::text
