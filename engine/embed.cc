// Model::embed: texts in ragged batches, as many as keep the kernels busy.
#include <algorithm>
#include <memory>
#include <string>

#include "ballast/error.h"
#include "ballast/model.h"
#include "engine/model_state.h"
#include "engine/sequence.h"
#include "engine/text_pooler.h"
#include "kernels/parallel.h"

namespace ballast {

namespace {

// One pass of the model: what the texts leave in memory is then used again while it is in the processor's caches.
constexpr std::size_t kTokensAtOnce = model::Model::kPassTokens / 2;

struct EncodedText {
  std::vector<int> ids;
  bool cut = false;  ///< its end is missing
};

/// With its special tokens, `most` in all.
EncodedText encode_to(const text::Tokenizer& tokenizer, bool causal, const std::string& text, std::size_t most) {
  const std::vector<int>& leading = tokenizer.leading_special_tokens();
  const std::vector<int> suffix = causal ? std::vector<int>() : tokenizer.suffix();
  const std::size_t special = leading.size() + suffix.size();
  if (special >= most) throw Error("embedding", std::to_string(most) + " tokens leave no room for a text");
  EncodedText encoded{.ids = tokenizer.encode(text)};
  std::vector<int>& ids = encoded.ids;
  encoded.cut = ids.size() > most - special;
  if (encoded.cut) ids.resize(most - special);
  ids.insert(ids.begin(), leading.begin(), leading.end());
  ids.insert(ids.end(), suffix.begin(), suffix.end());
  return encoded;
}

/// Of the first text that cannot be encoded, the Error is thrown.
std::vector<EncodedText> encode_all(const text::Tokenizer& tokenizer, bool causal, std::span<const std::string> texts,
                                    std::size_t most) {
  std::vector<EncodedText> encoded(texts.size());
  kernels::TaskFailure failure;
  kernels::parallel_tasks(texts.size(), kernels::available_threads(), [&](std::size_t i, std::size_t) {
    failure.keep(i, [&] {
      encoded[i] = encode_to(tokenizer, causal, texts[i], most);
      if (encoded[i].ids.empty()) {
        throw Error("text " + std::to_string(i + 1), "has no tokens, of which a vector could be made");
      }
    });
  });
  failure.rethrow();
  return encoded;
}

/// A text on its way through the model. What it took is used again for other texts.
class EmbeddedText {
 public:
  EmbeddedText(const model::Model& model, const CacheOptions& options, Pooling pooling, std::size_t most_tokens)
      : sequence_(model, options, most_tokens), pooler_(pooling, model.spec().hidden_size) {}

  void begin(std::span<const int> ids) {
    sequence_.replace({});
    sequence_.append(ids);
    pooler_.clear();
    sequence_.want(ids.size(), pooler_);
  }

  engine::Sequence& sequence() { return sequence_; }
  const engine::TextPooler& pooler() const { return pooler_; }

 private:
  engine::Sequence sequence_;
  engine::TextPooler pooler_;
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
  std::size_t begun = 0;    // of the batch's
  std::size_t pending = 0;  // their tokens
  const auto run = [&] {
    std::vector<engine::Sequence*> sequences;
    for (std::size_t i = 0; i < begun; ++i) sequences.push_back(&batch[i]->sequence());
    state_->engine.step(sequences);
    for (std::size_t i = 0; i < begun; ++i) {
      const std::vector<float> vector = batch[i]->pooler().vector(options.normalized.value_or(own.normalized));
      result.values.insert(result.values.end(), vector.begin(), vector.end());
    }
    begun = 0;
    pending = 0;
  };
  for (const auto& [ids, cut] : encode_all(state_->tokenizer(), spec().causal, texts, most)) {
    result.cut += cut ? 1 : 0;
    result.tokens += ids.size();
    if (begun > 0 && pending + ids.size() > kTokensAtOnce) run();
    if (begun == batch.size()) {
      const CacheOptions cache = {.type = options.cache_type};
      batch.push_back(std::make_unique<EmbeddedText>(state_->model, cache, pooling, most));
    }
    batch[begun++]->begin(ids);
    pending += ids.size();
  }
  if (begun > 0) run();
  return result;
}

}  // namespace ballast
