#include "eval/text_chunks.h"

#include <algorithm>
#include <string>
#include <utility>

#include "ballast/error.h"

namespace ballast::eval {

std::vector<PositionRun> TextChunks::runs() const {
  std::vector<PositionRun> list;
  const auto add = [&](std::size_t begin, std::size_t stop) {
    for (std::size_t at = begin; at < stop; at += kLogitRows) list.push_back({at, std::min(kLogitRows, stop - at)});
  };
  add(first, headline);
  add(headline, end());
  return list;
}

std::vector<int> TextChunks::source(std::size_t i) const {
  const std::span<const int> text = chunk(i).subspan(1);
  std::vector<int> source = source_frame.before;
  source.insert(source.end(), text.begin(), text.end());
  source.insert(source.end(), source_frame.after.begin(), source_frame.after.end());
  return source;
}

void begin_with(int start, text::TextFrame frame, TextChunks& chunks) {
  for (std::size_t i = 0; i < chunks.count(); ++i) chunks.ids[i * chunks.size] = start;
  chunks.source_frame = std::move(frame);
}

TextChunks TextChunks::part(std::size_t begin, std::size_t end) const {
  TextChunks part = *this;
  const auto at = [&](std::size_t chunk) { return ids.begin() + static_cast<std::ptrdiff_t>(chunk * size); };
  part.ids.assign(at(begin), at(end));
  return part;
}

void check_chunk_size(std::size_t size, std::size_t context_length) {
  if (size < 4) throw Error("context", "must be at least 4 tokens");
  if (size > context_length) {
    throw Error("context", std::to_string(size) + " is more than the model's " + std::to_string(context_length));
  }
}

TextChunks cut_text(std::string_view text, const std::string& context, const text::Tokenizer& tokenizer,
                    std::size_t size, std::size_t most) {
  TextChunks chunks;
  chunks.size = size;
  chunks.ids = tokenizer.encode(text);
  const bool adds_bos = tokenizer.adds_bos();
  const int bos = tokenizer.bos().value_or(0);
  if (adds_bos) chunks.ids.insert(chunks.ids.begin(), bos);
  if (chunks.ids.size() < size) {
    throw Error(context, "holds " + std::to_string(chunks.ids.size()) + " tokens, fewer than the " +
                             std::to_string(size) + " that are scored together");
  }
  const std::size_t count = most == 0 ? chunks.count() : std::min(most, chunks.count());
  chunks.ids.resize(count * size);
  if (adds_bos) {
    for (std::size_t i = 0; i < count; ++i) chunks.ids[i * size] = bos;
  }
  return chunks;
}

}  // namespace ballast::eval
