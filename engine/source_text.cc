#include "engine/source_text.h"

#include <algorithm>

#include "ballast/error.h"

namespace ballast::engine {

void require_encoder(const LoadedModel& model) {
  if (model.model.spec().encoder) return;
  throw Error(model.path.string(), "has no encoder that reads a source text: it continues texts (run)");
}

std::vector<int> encode_source(const LoadedModel& model, const std::string& text, const std::string& language) {
  const text::Tokenizer& tokenizer = model.tokenizer();
  const text::TextFrame frame = tokenizer.source_frame(language);
  std::vector<int> ids = frame.before;
  const std::vector<int> own = tokenizer.encode(text);
  ids.insert(ids.end(), own.begin(), own.end());
  ids.insert(ids.end(), frame.after.begin(), frame.after.end());
  if (ids.size() > model.model.context_length()) {
    throw Error("source text", "has " + std::to_string(ids.size()) + " tokens, the model's context has " +
                                   std::to_string(model.model.context_length()));
  }
  return ids;
}

TextStart start_in_language(const LoadedModel& model, const std::string& language) {
  const text::Tokenizer& tokenizer = model.tokenizer();
  TextStart start = {.token = model.model.spec().encoder->start_token, .first = tokenizer.target_start(language)};
  if (start.first.empty()) return start;
  const bool is_language = std::ranges::any_of(tokenizer.languages(), [&](const std::string& known) {
    return tokenizer.target_start(known) == std::vector<int>{start.token};
  });
  if (!is_language) return start;
  start.token = start.first.front();
  start.first.clear();
  return start;
}

}  // namespace ballast::engine
