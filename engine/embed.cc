// Model::embed: texts in ragged batches, as many as keep the kernels busy.
#include <algorithm>
#include <memory>
#include <string>

#include "ballast/error.h"
#include "ballast/model.h"
#include "engine/model_state.h"
#include "engine/sequence.h"
#include "engine/text_pooler.h"

namespace ballast {

namespace {

constexpr std::size_t kTokensAtOnce = 8 * model::Model::kPassTokens;

/// A text with room for its special tokens; what is left of it, which is said.
std::vector<int> encode_to(const text::Tokenizer& tokenizer, bool causal, const std::string& text, std::size_t most,
                           bool& cut) {
  const std::vector<int>& leading = tokenizer.leading_special_tokens();
  const std::vector<int> suffix = causal ? std::vector<int>() : tokenizer.suffix();
  std::vector<int> ids = tokenizer.encode(text);
  const std::size_t special = leading.size() + suffix.size();
  if (special >= most) throw Error("embedding", std::to_string(most) + " tokens leave no room for a text");
  cut = ids.size() > most - special;
  if (cut) ids.resize(most - special);
  ids.insert(ids.begin(), leading.begin(), leading.end());
  ids.insert(ids.end(), suffix.begin(), suffix.end());
  return ids;
}

struct EmbeddedText {
  engine::Sequence sequence;
  engine::TextPooler pooler;

  EmbeddedText(const model::Model& model, const CacheOptions& options, Pooling pooling, std::span<const int> ids)
      : sequence(model, options, ids.size()), pooler(pooling, model.spec().hidden_size) {
    sequence.append(ids);
    sequence.want(ids.size(), pooler);
  }
};

}  // namespace

TextVectors Model::embed(std::span<const std::string> texts, const EmbedOptions& options) const {
  const TextVectorSpec own = spec().text_vectors.value_or(TextVectorSpec{});
  const Pooling pooling = options.pooling.value_or(own.pooling);
  const std::size_t asked = options.most_tokens.value_or(own.most_tokens);
  const std::size_t most = asked == 0 ? context_length() : std::min(asked, context_length());
  TextVectors result{.size = spec().hidden_size, .values = {}};
  result.values.reserve(texts.size() * result.size);
  std::vector<std::unique_ptr<EmbeddedText>> batch;
  std::size_t pending = 0;
  const auto run = [&] {
    std::vector<engine::Sequence*> sequences;
    for (const auto& text : batch) sequences.push_back(&text->sequence);
    state_->engine.step(sequences);
    for (const auto& text : batch) {
      const std::vector<float> vector = text->pooler.vector(options.normalized.value_or(own.normalized));
      result.values.insert(result.values.end(), vector.begin(), vector.end());
    }
    batch.clear();
    pending = 0;
  };
  for (std::size_t i = 0; i < texts.size(); ++i) {
    bool cut = false;
    const std::vector<int> ids = encode_to(state_->tokenizer(), spec().causal, texts[i], most, cut);
    if (ids.empty()) throw Error("text " + std::to_string(i + 1), "has no tokens, of which a vector could be made");
    result.cut += cut ? 1 : 0;
    result.tokens += ids.size();
    if (pending + ids.size() > kTokensAtOnce) run();
    batch.push_back(
        std::make_unique<EmbeddedText>(state_->model, CacheOptions{.type = options.cache_type}, pooling, ids));
    pending += ids.size();
  }
  if (!batch.empty()) run();
  return result;
}

}  // namespace ballast
