// A whole model in memory: token ids in, logits out.
#ifndef BALLAST_MODEL_MODEL_H_
#define BALLAST_MODEL_MODEL_H_

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "ballast/spec.h"
#include "model/forward.h"
#include "model/model_source.h"
#include "model/tokenizer/tokenizer.h"
#include "model/weights.h"

namespace ballast::model {

/// What stands before the first block and after the last one.
class OuterWeights {
 public:
  explicit OuterWeights(const ModelSource& source);

  /// hidden is [ids.size()][hidden_size]. Throws Error for an id that is not in the vocabulary.
  void embed(std::span<const int> ids, float* hidden) const;

  /// Final norm, into `normalized` [m][hidden_size], which may be `hidden`.
  void normalize(const float* hidden, std::size_t m, float* normalized) const;

  /// logits [m][vocab_size] of normalized rows.
  void head(const float* normalized, std::size_t m, float* logits, kernels::Int8Activations& scratch) const;

  const Linear& head_linear() const { return head_ ? *head_ : embedding_; }
  std::size_t weights() const;  ///< elements of embedding, final norm and head

 private:
  ModelSpec spec_;
  Linear embedding_;
  std::vector<float> final_norm_;
  std::optional<Linear> head_;  ///< empty when it is the embedding
};

/// Tokens that continue one sequence.
struct SequenceTokens {
  std::span<const int> ids;
  KeyValueCache* cache = nullptr;
};

/// Loaded once; forward passes are not thread-safe (they share buffers).
class Model {
 public:
  /// Loads all weights. Throws Error.
  explicit Model(const std::filesystem::path& path);

  const ModelSource& source() const { return *source_; }
  const ModelSpec& spec() const { return source_->spec(); }

  /// Runs all blocks over the batch and advances the caches. Returns the last block's output, [tokens][hidden_size],
  /// valid until the next call.
  std::span<const float> forward(std::span<const SequenceTokens> batch);

  /// logits [m][vocab_size] for rows of hidden values.
  void logits(const float* hidden, std::size_t m, float* logits);

  KeyValueCache make_cache(std::size_t capacity, kernels::FloatType type) const;

  /// Bytes of weights that one token's forward pass reads, head included.
  std::size_t streamed_bytes() const;

  /// Elements of the matrices that one token is multiplied with in the blocks and in the head, and of everything.
  std::size_t block_weights() const;
  std::size_t head_weights() const;
  std::size_t all_weights() const;

 private:
  std::unique_ptr<ModelSource> source_;
  std::vector<BlockWeights> blocks_;
  OuterWeights outer_;
  RopeTable rope_;
  BlockActivations activations_;
  std::vector<float> hidden_;
  std::vector<float> normalized_;
};

/// The tokenizer that a model needs for text. Throws Error when it has none or when it has more ids than the embedding.
std::unique_ptr<Tokenizer> require_tokenizer(const ModelSource& source);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_MODEL_H_
