// A text as the pieces that are scored.
#ifndef BALLAST_EVAL_TEXT_CHUNKS_H_
#define BALLAST_EVAL_TEXT_CHUNKS_H_

#include <cstddef>
#include <filesystem>
#include <span>
#include <vector>

#include "text/tokenizer.h"

namespace ballast::eval {

/// Positions first ... first + count - 1 of a chunk.
struct PositionRun {
  std::size_t first = 0;
  std::size_t count = 0;
};

/// Chunks of equal length, one after the other; a stream is one chunk.
struct TextChunks {
  std::vector<int> ids;      ///< [count()][size]
  std::size_t size = 0;      ///< tokens of a chunk
  std::size_t first = 0;     ///< positions of each chunk that are looked at: from this one
  std::size_t headline = 0;  ///< positions that the headline figures are made of: from this one, at least `first`

  std::size_t count() const { return ids.size() / size; }
  std::span<const int> chunk(std::size_t i) const { return std::span(ids).subspan(i * size, size); }
  /// The last token of a chunk predicts what is not in it.
  std::size_t end() const { return size - 1; }
  std::size_t positions() const { return end() - first; }

  /// The positions that are looked at, in runs of at most kLogitRows whose logits are computed at once. The headline's
  /// runs do not depend on `first`, so neither do its figures, to the last bit.
  std::vector<PositionRun> runs() const;

  /// Chunks begin ... end - 1 alone.
  TextChunks part(std::size_t begin, std::size_t end) const;
};

/// Throws Error where no chunks of so many tokens can be scored by a model of that context.
void check_chunk_size(std::size_t size, std::size_t context_length);

/// The text as llama.cpp's perplexity tool cuts it: tokenized once, chunks of `size` tokens without overlap, what fills
/// none left out, the first token of each replaced by BOS where the tokenizer adds one. At most `most` chunks, 0: all.
/// `first` and `headline` stay 0. Throws Error at `context`, the text's file, when the text does not fill one.
TextChunks cut_text(std::string_view text, const std::string& context, const text::Tokenizer& tokenizer,
                    std::size_t size, std::size_t most);

}  // namespace ballast::eval

#endif  // BALLAST_EVAL_TEXT_CHUNKS_H_
