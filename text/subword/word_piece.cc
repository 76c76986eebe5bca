#include "text/subword/word_piece.h"

#include <algorithm>

#include "files/text.h"

namespace ballast::text {
namespace {

// What Hugging Face's library takes where a file does not say.
constexpr std::size_t kDefaultMaxCharacters = 100;

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0u) == 0x80u;
}

}  // namespace

WordPiece::WordPiece(const files::JsonReader& model, const Vocabulary& vocabulary) {
  for (const auto& [text, id] : vocabulary.id_of) {
    id_of_.emplace(text, id);
    longest_ = std::max(longest_, text.size());
  }
  const files::JsonReader unknown = model.at("unk_token");
  const std::optional<int> id = vocabulary.find(unknown.string());
  if (!id) unknown.fail(files::in_quotes(unknown.string()) + " is not in the vocabulary");
  unknown_ = *id;
  continuing_prefix_ = model.text("continuing_subword_prefix", "##");
  max_characters_ = model.size("max_input_chars_per_word", kDefaultMaxCharacters);
}

void WordPiece::encode(std::string_view word, std::vector<int>& ids) const {
  const auto continuations = static_cast<std::size_t>(std::ranges::count_if(word, is_continuation));
  const std::size_t before = ids.size();
  if (word.size() - continuations <= max_characters_ && add_pieces(word, ids)) return;
  ids.resize(before);
  ids.push_back(unknown_);
}

bool WordPiece::add_pieces(std::string_view word, std::vector<int>& ids) const {
  std::string candidate;
  for (std::size_t begin = 0; begin < word.size();) {
    const std::size_t mark = begin == 0 ? 0 : continuing_prefix_.size();
    std::size_t length = std::min(word.size() - begin, longest_ - std::min(longest_, mark));
    candidate.assign(continuing_prefix_, 0, mark).append(word.substr(begin, length));
    while (length > 0) {
      const bool ends_character = begin + length == word.size() || !is_continuation(word[begin + length]);
      const auto found = ends_character ? id_of_.find(candidate) : id_of_.end();
      if (found != id_of_.end()) {
        ids.push_back(found->second);
        break;
      }
      candidate.pop_back();
      --length;
    }
    if (length == 0) return false;
    begin += length;
  }
  return true;
}

}  // namespace ballast::text
