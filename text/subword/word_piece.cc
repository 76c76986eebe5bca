#include "text/subword/word_piece.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "files/text.h"
#include "files/utf8.h"

namespace ballast::text {
namespace {

// The default of Hugging Face's library.
constexpr std::size_t kDefaultMaxCharacters = 100;

}  // namespace

WordPiece::WordPiece(const files::JsonReader& model, std::shared_ptr<const TokenTable> vocabulary)
    : vocabulary_(std::move(vocabulary)) {
  for (std::size_t id = 0; id < vocabulary_->size(); ++id) longest_ = std::max(longest_, (*vocabulary_)[id].size());
  const files::JsonReader unknown = model.at("unk_token");
  const std::optional<int> id = vocabulary_->find(unknown.string());
  if (!id) unknown.fail(files::in_quotes(unknown.string()) + " is not in the vocabulary");
  unknown_ = *id;
  continuing_prefix_ = model.text("continuing_subword_prefix", "##");
  max_characters_ = model.size("max_input_chars_per_word", kDefaultMaxCharacters);
}

void WordPiece::encode(std::string_view word, std::vector<int>& ids) const {
  const std::size_t before = ids.size();
  if (files::count_code_points(word) <= max_characters_ && add_pieces(word, ids)) return;
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
      const bool ends_character = begin + length == word.size() || !files::continues_code_point(word[begin + length]);
      const std::optional<int> found = ends_character ? vocabulary_->find(candidate) : std::nullopt;
      if (found) {
        ids.push_back(*found);
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
