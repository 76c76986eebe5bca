// Implements Model::embed.
#include <algorithm>
#include <string>
#include <vector>

#include "ballast/error.h"
#include "ballast/model.h"
#include "engine/embed_texts.h"
#include "engine/model_state.h"
#include "engine/text_pooler.h"
#include "engine/text_prompts.h"
#include "engine/text_runner.h"

namespace ballast {

std::vector<engine::EncodedText> engine::encode_for_vectors(const LoadedModel& loaded,
                                                            std::span<const std::string> texts,
                                                            const EmbedOptions& options) {
  const ModelSpec& spec = loaded.model.spec();
  const std::size_t context = loaded.model.context_length();
  std::size_t most = options.most_tokens.value_or(spec.text_vectors ? spec.text_vectors->most_tokens : 0);
  if (most == 0) most = context;
  most = std::min(most, context);
  const std::string prompt = prompt_named(spec, options.prompt_name);
  return encode_texts(texts.size(),
                      [&](std::size_t i) { return encode_text(loaded.tokenizer(), prompt + texts[i], most); });
}

TextVectors Model::embed(std::span<const std::string> texts, const EmbedOptions& options,
                         const Progress& progress) const {
  TextVectorSpec vectors = spec().text_vectors.value_or(TextVectorSpec{});
  vectors.pooling = options.pooling.value_or(vectors.pooling);
  vectors.normalized = options.normalized.value_or(vectors.normalized);

  const model::Model& model = state_->model;
  const std::size_t whole = model.text_dense().output_size(spec().hidden_size);
  const std::size_t size = options.dimensions.value_or(whole);
  if (size == 0 || size > whole) {
    throw Error("dimensions",
                std::to_string(size) + " are not possible: the model's vectors have " + std::to_string(whole));
  }
  const std::vector<engine::EncodedText> encoded = engine::encode_for_vectors(*state_, texts, options);
  TextVectors result{.size = size, .values = std::vector<float>(texts.size() * size)};
  for (const engine::EncodedText& text : encoded) {
    result.tokens += text.ids.size();
    result.cut += text.cut ? 1 : 0;
  }
  const auto read = [&](std::size_t text, std::span<const float> rows) {
    engine::TextPooler pooler(vectors.pooling, spec().hidden_size);
    pooler.read(rows);
    std::ranges::copy(pooler.vector(model.text_dense(), vectors.normalized, size),
                      result.values.begin() + static_cast<std::ptrdiff_t>(text * size));
  };
  engine::run_texts(model, options.cache_type, encoded, "embedding", progress, read);
  return result;
}

}  // namespace ballast
