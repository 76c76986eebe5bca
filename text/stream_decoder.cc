#include <array>
#include <cstddef>
#include <utility>

#include "files/utf8.h"
#include "text/pipeline/token_decoder.h"
#include "text/tokenizer.h"
#include "text/unicode/text_transforms.h"

namespace ballast::text {
namespace {

// The replacements of transformers' clean_up_tokenization in its order.
std::string clean_up(std::string text) {
  using Replacement = std::pair<std::string_view, std::string_view>;
  constexpr std::array<Replacement, 10> kReplacements{{{" .", "."},
                                                       {" ?", "?"},
                                                       {" !", "!"},
                                                       {" ,", ","},
                                                       {" ' ", "'"},
                                                       {" n't", "n't"},
                                                       {" 'm", "'m"},
                                                       {" 's", "'s"},
                                                       {" 've", "'ve"},
                                                       {" 're", "'re"}}};
  for (const auto& [from, to] : kReplacements) {
    if (text.find(from) != std::string::npos) text = replace_all(text, from, to);
  }
  return text;
}

// Returns the size of the part of `text` whose clean-up does not depend on what follows. Replacements begin with a
// space, and only " ' " has another one: a text may be cut before a space, unless a space or an apostrophe precedes it.
std::size_t certain_size(std::string_view text) {
  constexpr std::size_t kLongest = 8;  // is more than the bytes of a replacement
  const std::size_t last = text.rfind(' ');
  if (last == std::string_view::npos || last + kLongest < text.size()) return text.size();
  for (std::size_t cut = last; cut > 0; --cut) {
    if (text[cut] == ' ' && text[cut - 1] != ' ' && text[cut - 1] != '\'') return cut;
  }
  return 0;
}

}  // namespace

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
  std::string text = valid(std::string_view(pending_).substr(0, ready));
  pending_.erase(0, ready);
  if (rules_.strip) text = without_ends(std::move(text));
  return rules_.clean_up ? cleaned_up(text) : text;
}

std::string StreamDecoder::finish() {
  std::string text = valid(pending_);
  pending_.clear();
  if (rules_.strip) text = without_ends(std::move(text));
  white_space_.clear();
  if (rules_.clean_up) text = clean_up(std::exchange(uncleaned_, {}) + text);
  return text;
}

std::string StreamDecoder::valid(std::string_view bytes) const {
  if (!rules_.drop_invalid) return files::replace_invalid_utf8(bytes);
  std::string text;
  for (std::size_t at = 0; at < bytes.size();) {
    const files::Utf8Step step = files::utf8_step(bytes, at);
    if (step.kind == files::Utf8Step::Kind::kWhole) text += bytes.substr(at, step.length);
    at += step.length;
  }
  return text;
}

// Returns `text` without white space at the text's beginning, and holds back white space that may be at its end.
std::string StreamDecoder::without_ends(std::string text) {
  text = std::exchange(white_space_, {}) + text;
  std::string_view rest = text;
  if (strip_begin_) rest = strip(rest, true, false);
  if (!rest.empty()) strip_begin_ = false;
  const std::string_view shown = strip(rest, false, true);
  white_space_ = rest.substr(shown.size());
  return std::string(shown);
}

std::string StreamDecoder::cleaned_up(std::string_view text) {
  uncleaned_ += text;
  const std::size_t size = certain_size(uncleaned_);
  std::string certain = uncleaned_.substr(0, size);
  uncleaned_.erase(0, size);
  return clean_up(std::move(certain));
}

}  // namespace ballast::text
