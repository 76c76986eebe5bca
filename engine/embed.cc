// Implements Model::embed: texts run in ragged batches that are large enough to keep the kernels busy.
#include <algorithm>
#include <atomic>
#include <memory>
#include <string>

#include "ballast/error.h"
#include "ballast/model.h"
#include "engine/model_state.h"
#include "engine/text_pooler.h"
#include "kernels/parallel.h"

namespace ballast {

namespace {

// Tokens per pass: half, so that the texts' memory is reused while it is in the processor's caches.
constexpr std::size_t kTokensAtOnce = model::Model::kPassTokens / 2;

struct EncodedText {
  std::vector<int> ids;
  bool cut = false;  ///< the text was truncated
};

/// Encodes a text with its special tokens to at most `most` tokens. A decoder gets the special tokens after the text,
/// too: the vector is often that of the last one.
EncodedText encode_to(const text::Tokenizer& tokenizer, const std::string& text, std::size_t most) {
  const std::vector<int>& leading = tokenizer.leading_special_tokens();
  const std::vector<int>& suffix = tokenizer.suffix();
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

/// Encodes all texts. Throws the Error of the first text that cannot be encoded.
std::vector<EncodedText> encode_all(const text::Tokenizer& tokenizer, std::span<const std::string> texts,
                                    std::size_t most) {
  std::vector<EncodedText> encoded(texts.size());
  kernels::TaskFailure failure;
  kernels::parallel_tasks(texts.size(), kernels::available_threads(), [&](std::size_t i, std::size_t) {
    failure.keep(i, [&] {
      encoded[i] = encode_to(tokenizer, texts[i], most);
      if (encoded[i].ids.empty()) {
        throw Error("text " + std::to_string(i + 1), "has no tokens, so it has no vector");
      }
    });
  });
  failure.rethrow();
  return encoded;
}

/// Texts that run in one batch.
struct TextRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};

std::vector<TextRange> cut_batches(std::span<const EncodedText> texts) {
  std::vector<TextRange> batches;
  std::size_t tokens = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::size_t count = texts[i].ids.size();
    if (batches.empty() || tokens + count > kTokensAtOnce) {
      batches.push_back({.begin = i, .end = i});
      tokens = 0;
    }
    batches.back().end = i + 1;
    tokens += count;
  }
  return batches;
}

/// Runs batches of texts one after the other and reuses their memory.
class TextRunner {
 public:
  TextRunner(const model::Model& model, const CacheOptions& cache, const TextVectorSpec& spec)
      : model_(model), cache_(cache), spec_(spec), pooler_(spec.pooling, model.spec().hidden_size) {}

  /// Computes `vectors` [texts.size()][TextVectors::size].
  void run(std::span<const EncodedText> texts, float* vectors) {
    batch_.clear();
    while (states_.size() < texts.size()) states_.push_back(model_.make_state(cache_, spec_.most_tokens));
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const std::vector<int>& ids = texts[i].ids;
      states_[i].truncate(0);
      batch_.push_back({.tokens = ids, .state = &states_[i], .wanted = ids.size()});
    }
    std::span<const float> rows = model_.normalized(model_.forward(batch_, workspace_), workspace_);
    const std::size_t size = model_.spec().hidden_size;
    for (const EncodedText& text : texts) {
      pooler_.clear();
      pooler_.read(rows.first(text.ids.size() * size));
      rows = rows.subspan(text.ids.size() * size);
      vectors = std::ranges::copy(pooler_.vector(model_.text_dense(), spec_.normalized), vectors).out;
    }
  }

 private:
  const model::Model& model_;
  CacheOptions cache_;
  TextVectorSpec spec_;
  engine::TextPooler pooler_;
  model::Workspace workspace_;
  std::vector<model::SequenceState> states_;
  std::vector<model::SequenceTokens> batch_;
};

}  // namespace

TextVectors Model::embed(std::span<const std::string> texts, const EmbedOptions& options,
                         const Progress& progress) const {
  TextVectorSpec vectors = spec().text_vectors.value_or(TextVectorSpec{});
  vectors.pooling = options.pooling.value_or(vectors.pooling);
  vectors.normalized = options.normalized.value_or(vectors.normalized);
  vectors.most_tokens = options.most_tokens.value_or(vectors.most_tokens);
  if (vectors.most_tokens == 0) vectors.most_tokens = context_length();
  vectors.most_tokens = std::min(vectors.most_tokens, context_length());

  const std::vector<EncodedText> encoded = encode_all(state_->tokenizer(), texts, vectors.most_tokens);
  const std::size_t size = state_->model.text_dense().output_size(spec().hidden_size);
  TextVectors result{.size = size, .values = std::vector<float>(texts.size() * size)};
  for (const EncodedText& text : encoded) {
    result.tokens += text.ids.size();
    result.cut += text.cut ? 1 : 0;
  }
  const std::vector<TextRange> batches = cut_batches(encoded);
  // One thread for each batch needs no synchronization and finds its data in its own caches.
  const std::size_t threads = batches.size() < 2 * kernels::available_threads() ? 1 : kernels::available_threads();
  std::vector<std::unique_ptr<TextRunner>> runners(threads);
  std::atomic<std::size_t> done = 0;
  kernels::TaskFailure failure;
  kernels::parallel_tasks(batches.size(), threads, [&](std::size_t i, std::size_t thread) {
    if (failure.failed()) return;
    failure.keep(i, [&] {
      std::unique_ptr<TextRunner>& runner = runners[thread];
      if (!runner) {
        const CacheOptions cache = {.type = options.cache_type};
        runner = std::make_unique<TextRunner>(state_->model, cache, vectors);
      }
      const auto [begin, end] = batches[i];
      runner->run(std::span(encoded).subspan(begin, end - begin), result.values.data() + begin * result.size);
      done += end - begin;
      if (progress && thread == 0) progress("embedding", done, texts.size());
    });
  });
  failure.rethrow();
  if (progress) progress("embedding", texts.size(), texts.size());
  return result;
}

}  // namespace ballast
