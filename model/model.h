// A whole model in memory: token ids in, logits out.
#ifndef BALLAST_MODEL_MODEL_H_
#define BALLAST_MODEL_MODEL_H_

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "ballast/cache.h"
#include "ballast/spec.h"
#include "model/forward/forward.h"
#include "model/source/model_source.h"
#include "model/weights.h"
#include "text/tokenizer.h"

namespace ballast::model {

/// What stands before the first block.
class Embedding {
 public:
  Embedding(const ModelSpec& spec, const BlockParts& parts);

  /// Embeds consecutive tokens, the first of which stands at `position`. hidden is [ids.size()][hidden_size]. Throws
  /// Error for an id that is not in the vocabulary or a position that a table of positions does not have.
  void embed(std::span<const int> ids, std::size_t position, float* hidden) const;

  const Linear& table() const { return table_; }
  Linear& table() { return table_; }
  std::size_t weights() const;  ///< elements of everything here

 private:
  std::size_t hidden_size_;
  std::size_t token_types_;
  Linear table_;
  std::optional<Linear> positions_;
  std::vector<float> token_type_;  ///< the first row of its table, or empty
  Norm norm_;                      ///< its gain is empty when there is none
};

/// What stands before the first block and after the last one.
class OuterWeights {
 public:
  explicit OuterWeights(const ModelSource& source) : OuterWeights(source.spec(), source.parts()) {}
  OuterWeights(const ModelSpec& spec, const BlockParts& parts);

  /// Embedding::embed.
  void embed(std::span<const int> ids, std::size_t position, float* hidden) const {
    embedding_.embed(ids, position, hidden);
  }

  /// What the head reads, [m][hidden_size], which may be `hidden`.
  void prepare_head(const float* hidden, std::size_t m, float* dst, kernels::QuantizedActivations& scratch) const;

  /// logits [m][vocab_size] of prepared rows.
  void head(const float* prepared, std::size_t m, float* logits, kernels::QuantizedActivations& scratch) const;

  const Linear& head_linear() const { return head_ ? *head_ : embedding_.table(); }
  const std::optional<Linear>& head_transform() const { return head_transform_; }  ///< reads the last block's output
  std::size_t weights() const;                                                     ///< elements of everything here
  std::size_t streamed_bytes() const;                                              ///< that one token's logits read

 private:
  ModelSpec spec_;
  Embedding embedding_;
  Norm final_norm_;
  std::optional<Linear> head_transform_;
  Norm head_norm_;
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
  explicit Model(std::unique_ptr<ModelSource> source);

  const ModelSource& source() const { return *source_; }
  const ModelSpec& spec() const { return source_->spec(); }

  /// Runs all blocks over the batch and advances the caches. Returns the last block's output, [tokens][hidden_size],
  /// valid until the next call.
  std::span<const float> forward(std::span<const SequenceTokens> batch);

  /// logits [m][vocab_size] for rows of hidden values.
  void logits(const float* hidden, std::size_t m, float* logits);

  /// Both for one sequence, of whose last token the logits [vocab_size] are wanted: without waking threads in between.
  void next_logits(const SequenceTokens& sequence, float* logits);

  /// A cache for all layers in which `capacity` tokens fit, or any number when it rolls; at most `largest_append` of
  /// them come at once. The model's prefix stands in it, and in front of every sequence that it is cut back for; it
  /// counts in none of these figures. A rolling cache keeps it as sinks. Throws Error when the model cannot be run so.
  KeyValueCache make_cache(const CacheOptions& options, std::size_t capacity, std::size_t largest_append);

  /// The same in F32, for exact comparisons.
  KeyValueCache make_exact_cache(std::size_t capacity);

  /// Tokens of a sequence that the model was trained to see at once, the prefix in front of them not counted.
  std::size_t context_length() const { return spec().context_length - source_->prefix_tokens().size(); }

  /// Bytes of weights that one token's forward pass reads, head included.
  std::size_t streamed_bytes() const;

  /// Elements of the matrices that each token of a prompt is multiplied with, on average; and those of the whole model.
  double prompt_weights(std::size_t tokens) const;
  std::size_t all_weights() const;

 private:
  /// forward, the last block with options of its own; leaves its output in hidden_.
  void run(std::span<const SequenceTokens> batch, const ForwardOptions& last_block);
  kernels::CacheType cache_type(CacheOptions::Type type) const;

  /// flags: which of consecutive tokens an INT8 cache shall keep in 16 bits.
  void flag_massive(std::span<const int> ids, std::size_t position, std::vector<std::uint8_t>& flags) const;

  std::unique_ptr<ModelSource> source_;
  std::vector<BlockWeights> blocks_;
  OuterWeights outer_;
  RopeTable rope_;
  RopeAngles angles_;
  // Reused from call to call, so that a token costs no allocation.
  std::vector<BatchSequence> sequences_;
  std::vector<std::vector<std::uint8_t>> flags_;  ///< of the sequences
  BlockActivations activations_;
  std::vector<float> hidden_;
  std::vector<float> prepared_;
};

/// The tokenizer that a model needs for text. Throws Error when it has none or when it has more ids than the embedding.
std::unique_ptr<text::Tokenizer> require_tokenizer(const ModelSource& source);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_MODEL_H_
