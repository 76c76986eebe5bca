// A text cut into the chunks that are scored.
#ifndef BALLAST_EVAL_TEXT_CHUNKS_H_
#define BALLAST_EVAL_TEXT_CHUNKS_H_

#include <cstddef>
#include <filesystem>
#include <span>
#include <vector>

#include "text/tokenizer.h"

namespace ballast::eval {

/// Positions whose logits are computed together.
inline constexpr std::size_t kLogitRows = 128;

/// Positions first ... first + count - 1 of a chunk.
struct PositionRun {
  std::size_t first = 0;
  std::size_t count = 0;
};

/// Consecutive chunks of equal length; a stream is one chunk.
struct TextChunks {
  std::vector<int> ids;            ///< [count()][size]
  std::size_t size = 0;            ///< tokens of a chunk
  std::size_t first = 0;           ///< the first scored position of each chunk
  std::size_t headline = 0;        ///< the first position that counts for the headline figures, at least `first`
  text::TextFrame source_frame{};  ///< special tokens around each text that an encoder reads

  std::size_t count() const { return ids.size() / size; }
  std::span<const int> chunk(std::size_t i) const { return std::span(ids).subspan(i * size, size); }

  /// Returns the source text of a chunk for a model with an encoder: the chunk itself, without the token that begins
  /// it.
  std::vector<int> source(std::size_t i) const;

  /// The last token of a chunk predicts a token outside of it.
  std::size_t end() const { return size - 1; }
  std::size_t positions() const { return end() - first; }

  /// Returns the scored positions, in runs of at most kLogitRows whose logits are computed together. The headline's
  /// runs do not depend on `first`, so the headline figures do not either, to the last bit.
  std::vector<PositionRun> runs() const;

  /// Returns only chunks begin ... end - 1.
  TextChunks part(std::size_t begin, std::size_t end) const;
};

/// Makes the chunks texts that a decoder writes from the same text: they begin with `start`, and `frame` is around
/// their source texts.
void begin_with(int start, text::TextFrame frame, TextChunks& chunks);

/// Throws Error if a model with this context cannot score chunks of this size.
void check_chunk_size(std::size_t size, std::size_t context_length);

/// Cuts a text as llama.cpp's perplexity tool does: it is tokenized once and cut into chunks of `size` tokens without
/// overlap or an incomplete last chunk; the first token of each is replaced by BOS if the tokenizer adds one. At most
/// `most` chunks, 0: all. `first` and `headline` stay 0. Throws Error at `context`, the text's file, if the text does
/// not fill one chunk.
TextChunks cut_text(std::string_view text, const std::string& context, const text::Tokenizer& tokenizer,
                    std::size_t size, std::size_t most);

}  // namespace ballast::eval

#endif  // BALLAST_EVAL_TEXT_CHUNKS_H_
