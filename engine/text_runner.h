// Runs whole texts in ragged batches, for results that need the hidden values of all their tokens.
#ifndef BALLAST_ENGINE_TEXT_RUNNER_H_
#define BALLAST_ENGINE_TEXT_RUNNER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ballast/cache.h"
#include "ballast/classify.h"
#include "ballast/progress.h"
#include "model/model.h"
#include "text/tokenizer.h"

namespace ballast::engine {

struct EncodedText {
  std::vector<int> ids;
  std::vector<std::uint8_t> types;  ///< of the tokens; empty: all 0
  bool cut = false;                 ///< the text was truncated
};

/// Returns the tokens of a text with the special tokens before and after it, at most `most`. A decoder gets those after
/// the text, too: its result is often that of the last token.
EncodedText encode_text(const text::Tokenizer& tokenizer, const std::string& text, std::size_t most);

/// Returns the tokens of a pair in the order of Tokenizer::pair_parts(). If they are more than `most`, the longer text
/// is cut at its end, and then both (Hugging Face's longest_first). The tokens have types if the model has several. For
/// a model with a TokenScoreSpec the pair is a chat of which the document is cut.
EncodedText encode_pair(const ModelSpec& spec, const text::Tokenizer& tokenizer, const TextPair& pair,
                        std::size_t most);

/// Calls encode(i) for `count` texts on all threads. Throws the Error of the first text that cannot be encoded, also if
/// it has no tokens.
std::vector<EncodedText> encode_texts(std::size_t count, const std::function<EncodedText(std::size_t)>& encode);

/// Calls read(i, rows) for each text, where rows are the hidden values [tokens][hidden_size] of its tokens after the
/// last norm, from several threads. The rows of a text do not depend on the others. `stage` names the work for
/// `progress`. Rethrows what `read` throws.
using TextReader = std::function<void(std::size_t text, std::span<const float> rows)>;
void run_texts(const model::Model& model, CacheOptions::Type cache_type, std::span<const EncodedText> texts,
               const char* stage, const Progress& progress, const TextReader& read);

}  // namespace ballast::engine

#endif  // BALLAST_ENGINE_TEXT_RUNNER_H_
