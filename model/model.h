// A whole model in memory, shared by all its users: tokens in, logits out.
#ifndef BALLAST_MODEL_MODEL_H_
#define BALLAST_MODEL_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ballast/adapter.h"
#include "ballast/cache.h"
#include "ballast/model_options.h"
#include "ballast/spec.h"
#include "model/block/weights.h"
#include "model/classifier.h"
#include "model/draft_head.h"
#include "model/embedding_and_head.h"
#include "model/experts/expert_cache.h"
#include "model/forward/forward.h"
#include "model/source/model_source.h"
#include "model/source/sentence_modules.h"
#include "model/source/token_heads.h"
#include "model/token_input.h"
#include "text/tokenizer.h"

namespace ballast::model {

/// Tokens that continue one sequence, and the number of wanted outputs.
struct SequenceTokens {
  TokenSpan tokens;
  SequenceState* state = nullptr;
  std::size_t wanted = 0;  ///< outputs of the last tokens; at most tokens.size()
};

/// Buffers of forward passes, reused from call to call so that a token needs no allocation. One thread at a time; the
/// spans that Model::forward returns point into it.
class Workspace {
 public:
  Workspace() = default;
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  Workspace(Workspace&&) = default;
  Workspace& operator=(Workspace&&) = default;

 private:
  friend class Model;

  /// A sequence's tokens in one pass.
  struct Piece {
    TokenSpan tokens;
    std::size_t output_row = 0;  ///< of the first wanted token
  };

  std::vector<std::size_t> done_;  ///< tokens of each sequence that passes have seen
  std::vector<Piece> pieces_;
  std::vector<PlacedToken> tokens_;                     ///< of the pieces
  std::vector<BatchSequence> batch_;                    ///< of the pieces
  std::vector<std::vector<std::uint8_t>> fp16_tokens_;  ///< of the pieces
  RopeAngles angles_;
  BlockActivations activations_;
  std::vector<float> hidden_;
  std::vector<float> token_inputs_;  ///< of all layers
  std::vector<float> output_;        ///< [wanted rows of all sequences][hidden_size]
  std::vector<float> prepared_;
};

/// Returns options for conversions and comparisons: a GGUF's matrices and their inputs in floats.
inline ModelOptions all_floats(const ComputeOptions& compute = {}) {
  return {.activations = ActivationType::kFloat, .compute = compute};
}

/// The error of a model without a head where logits are needed: it was published for vectors of texts.
inline constexpr const char* kNoHead =
    "has no head (lm_head.weight or the like), which predicts tokens: it makes vectors of texts (embed), and no text";

/// Where a model's plain matrices are.
enum class FloatLayout {
  kRows,   ///< in the mapped file: they need not fit into memory, and many tokens are equally fast
  kPanels  ///< copied to panels: single tokens run at memory speed
};

/// Immutable once loaded: any number of threads may run it, each with its own workspace and states.
///
/// A sequence's output is the same bits alone and in any batch, for any division of its tokens into calls, any number
/// of threads, and whether its first tokens were run now or were in the cache.
class Model {
 public:
  /// The number of tokens that pass the blocks at once: longer input is divided into passes.
  static constexpr std::size_t kPassTokens = 512;

  /// Loads all weights, except experts that the options leave on disk. Throws Error.
  explicit Model(const std::filesystem::path& path, FloatLayout layout = FloatLayout::kRows,
                 const ModelOptions& options = all_floats());
  explicit Model(std::unique_ptr<ModelSource> source, FloatLayout layout = FloatLayout::kRows,
                 const ModelOptions& options = all_floats());

  /// Loads all weights as floats from files that others read, too, with the source's ComputeOptions.
  explicit Model(std::shared_ptr<const ModelSource> source, FloatLayout layout = FloatLayout::kRows);

  const ModelSource& source() const { return *source_; }
  const ModelSpec& spec() const { return source_->spec(); }

  /// Runs the encoder over source texts, from which sequences are to continue: SequenceState::set_source. The texts
  /// have their special tokens. `type`: of these sequences' caches. Throws Error for a text that is empty or too long,
  /// or a token that is not in the vocabulary. Precondition: spec().encoder.
  std::vector<std::shared_ptr<EncodedSource>> encode(std::span<const TokenSpan> texts, kernels::CacheType type,
                                                     Workspace& workspace) const;

  /// Throws the Error that forward() would throw for tokens that continue a sequence, before anything has run.
  void check(const TokenSpan& tokens, const SequenceState& state) const;

  /// Runs all blocks over the batch and advances the states. Returns the last block's output for the wanted tokens,
  /// grouped by sequence, [all wanted][hidden_size]; valid until the workspace's next use. Throws Error, with the
  /// states unchanged, for a token that is not in the vocabulary or a cache without room.
  std::span<const float> forward(std::span<const SequenceTokens> batch, Workspace& workspace) const;

  /// Returns the checkpoint's draft head; null if it has none, or if it was not loaded.
  const DraftHead* draft_head() const { return draft_head_ ? &*draft_head_ : nullptr; }

  /// Runs the draft head (DraftHead::forward) and computes logits [batch.size()][vocab_size] from its output.
  /// Precondition: draft_head() is not null.
  void run_draft_head(std::span<const DraftHeadTokens> batch, float* output, float* logits,
                      DraftHeadWorkspace& workspace) const;

  /// Computes logits [count][vocab_size] for rows of hidden values. The step's adapters are those of the head
  /// (SequenceState::head_adapter).
  void logits(const float* hidden, const StepRows& step, float* logits, Workspace& workspace) const;

  /// Returns hidden values after the last norm, as an embedding of their tokens. Valid until the workspace's next use.
  std::span<const float> normalized(std::span<const float> hidden, Workspace& workspace) const;

  /// Returns the classifier; null if the model has none.
  const Classifier* classifier() const { return classifier_ ? &*classifier_ : nullptr; }

  /// Returns the dense modules that pooled vectors of texts pass.
  const TextDense& text_dense() const { return text_dense_; }
  const TokenHeads& token_heads() const { return token_heads_; }

  /// Computes forward() and logits [all wanted][vocab_size] without waking threads in between.
  void run(std::span<const SequenceTokens> batch, float* logits, Workspace& workspace) const;

  /// Returns the residual stream of a new sequence after the first `blocks` blocks, [tokens.size()][hidden_size]; after
  /// none it is the embedding. Uses a cache in F32. Throws as forward() does.
  std::vector<float> residual_stream(const TokenSpan& tokens, std::size_t blocks) const;

  /// Returns the state of a sequence without tokens, with a cache for `capacity` tokens, or for any number if it is
  /// rolling. The model's prefix is in it before every sequence and does not count in `capacity`; a rolling cache keeps
  /// it as sinks. The tokens after the prefix run with the adapter; null:
  /// without one. Throws Error if the model does not support the
  /// options.
  SequenceState make_state(const CacheOptions& options, std::size_t capacity,
                           std::shared_ptr<const Adapter> adapter = nullptr) const;

  /// Returns the same in F32, for exact comparisons.
  SequenceState make_exact_state(std::size_t capacity, std::shared_ptr<const Adapter> adapter = nullptr) const;

  /// Returns the largest number of tokens of a sequence that the model was trained for, without the prefix.
  std::size_t context_length() const { return source_->context_length(); }

  /// Loads an adapter of this model, or of the original that was converted to it: a folder of PEFT, or a GGUF. Throws
  /// Error.
  std::shared_ptr<const Adapter> load_adapter(const AdapterFiles& files) const;
  std::shared_ptr<const Adapter> load_adapter(const std::optional<AdapterFiles>& files) const {
    return files ? load_adapter(*files) : nullptr;
  }

  /// Throws FileError if the model reads its files while it runs and they are not complete any more: results computed
  /// since then are wrong.
  void check_files() const;

  /// Returns the bytes that a token of a source text takes at most: the encoder's output, and keys and values in 32
  /// bits.
  std::size_t source_token_bytes() const;

  /// Returns the bytes of weights that one token's forward pass reads, head included.
  std::size_t streamed_bytes() const;

  /// Returns whether a block has an integer matrix, for which inputs are rounded to integers, too.
  bool multiplies_integers() const;

  /// Returns the statistics of the expert cache; nullopt if all experts are in memory.
  std::optional<ExpertFigures> expert_figures() const;

  /// Returns the number of matrix elements that each token of a prompt is multiplied with, on average.
  double prompt_weights(std::size_t tokens) const;

 private:
  /// Loads the model. The source must be prepared by the options.
  Model(std::shared_ptr<const ModelSource> source, FloatLayout layout, const ModelOptions& options);

  void check_cache_options(const CacheOptions& options) const;

  bool cut_pass(std::span<const SequenceTokens> batch, Workspace& workspace) const;
  void begin_pass(Workspace& workspace) const;
  void run_blocks(std::size_t begin, std::size_t end, bool wanted_only, Workspace& workspace) const;
  std::size_t first_layer() const { return spec().encoder ? spec().encoder->layers : 0; }
  void check_source(const TokenSpan& text) const;
  void run_pass(Workspace& workspace) const;
  kernels::CacheType cache_type(CacheOptions::Type type) const;

  /// Writes to fp16_tokens which of consecutive tokens an INT8 cache stores in F16: 1 for those, else 0.
  void choose_fp16_tokens(const TokenSpan& tokens, std::size_t position, std::vector<std::uint8_t>& fp16_tokens) const;

  std::shared_ptr<const ModelSource> source_;
  std::unique_ptr<const ExpertCache> experts_;  ///< null if all experts are in the blocks
  std::vector<BlockWeights> blocks_;
  EmbeddingAndHead embedding_and_head_;
  bool lies_in_file_ = false;  ///< some weights are read from the files while the model runs
  RopeTable rope_;
  TextDense text_dense_;
  TokenHeads token_heads_;
  std::optional<Classifier> classifier_;
  std::optional<DraftHead> draft_head_;
};

/// Returns a model's tokenizer, which refuses texts with a token for which the embedding has no row; null if there is
/// none. Throws Error if the tokenizer and the embedding do not belong together.
std::unique_ptr<text::Tokenizer> read_tokenizer(const ModelSource& source);

/// Returns the tokenizer; throws Error if there is none.
std::unique_ptr<text::Tokenizer> require_tokenizer(const ModelSource& source);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_MODEL_H_
