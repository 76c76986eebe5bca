// Runs samples through a model block by block, for calibration and conversion.
#ifndef BALLAST_SAMPLES_BLOCK_RUNNER_H_
#define BALLAST_SAMPLES_BLOCK_RUNNER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ballast/spec.h"
#include "model/forward/forward.h"
#include "model/forward/shared_keys.h"
#include "model/model.h"
#include "samples/observer.h"
#include "samples/sample_tokens.h"

namespace ballast::samples {

/// Tokens that pass a block at once: enough to amortize the unpacking of weights, few enough that activations stay in
/// the cache.
inline constexpr std::size_t kBatchTokens = 1024;

/// The state of samples between two blocks: a row for each token.
struct StreamRows {
  std::vector<float> hidden;       ///< the residual stream
  std::vector<float> shared_keys;  ///< model::SharedKeys: keys and values that later blocks read, too
  /// In a model with an encoder, the stream that rests: before the decoder's first block its text, then what the
  /// encoder made of the source text.
  std::vector<float> resting;

  /// Returns all of them.
  std::array<std::span<float>, 3> all() { return {hidden, shared_keys, resting}; }

  /// Returns rows of zeros of these sizes.
  StreamRows zeros() const;

  void append(const StreamRows& others);
};

/// Holds samples of one length and runs them through blocks. The samples are those of this rank. One thread. In a model
/// with an encoder, a sample is both texts: the decoder repeats the source text.
class BlockRunner {
 public:
  /// `check_cancelled` is called after every batch that a block ran, and may throw.
  BlockRunner(const ModelSpec& spec, std::size_t length, std::function<void()> check_cancelled = {});

  StreamRows& rows() { return rows_; }
  const StreamRows& rows() const { return rows_; }
  std::size_t length() const { return length_; }  ///< tokens of a sample

  /// Puts `ids` before every sample. A prefix passes each block once, before the samples, which then begin with its
  /// state. Must be called before embed().
  void set_prefix(std::shared_ptr<const model::Embedding> embedding, std::span<const int> ids);
  StreamRows& prefix_rows() { return prefix_rows_; }

  /// Adds samples before the first block. Where blocks read token inputs, the embedding is kept.
  void embed(std::shared_ptr<const model::Embedding> embedding, const SampleTokens& tokens);

  /// Sets which tokens samples that were embedded elsewhere have, as blocks that read token inputs need to know. If
  /// there are more samples than tokens, the tokens begin anew. The ids must outlive this.
  void set_origin(std::shared_ptr<const model::Embedding> embedding, const SampleTokens& tokens);
  void set_origin(const BlockRunner& other) { set_origin(other.embedding_, other.tokens_); }

  /// Resizes the rows for samples of these tokens.
  void resize(const SampleTokens& tokens);

  /// Advances the samples past a block, at most `at_once` of them at a time.
  void advance(const model::BlockWeights& block, std::size_t layer, std::size_t at_once = SIZE_MAX);

  /// Runs the samples through a block and shows each batch to all observers. The samples then stay where they are, or
  /// have moved to after the block.
  enum class Then { kStay, kAdvance };
  void observe(const model::BlockWeights& block, std::size_t layer, const SampleSharing& sharing, Then then,
               const model::ForwardOptions& options, std::initializer_list<Observer*> observers);

  /// Shows the samples where they are to all observers, one at a time, without running them: before the first block, or
  /// after the last.
  void observe_stream(const SampleSharing& sharing, std::initializer_list<Observer*> observers);

  /// Advances some samples past a block, for an observer of another runner that compares the two.
  ObservedBatch run(const model::BlockWeights& block, std::size_t layer, std::size_t first, std::size_t count,
                    const model::ForwardOptions& options);

  /// Returns the same samples before the block, without running them.
  ObservedBatch look(std::size_t first, std::size_t count);

  /// Buffers that an observer may use after observe().
  model::BlockActivations& scratch() { return activations_; }

 private:
  /// Samples of this runner, or copies of them.
  struct Samples {
    std::size_t first = 0;
    std::size_t count = 0;
    std::span<float> hidden{};
    std::span<float> shared_keys{};
    std::span<float> resting{};

    /// Returns the samples from index `begin` on, at most `most`.
    Samples part(std::size_t begin, std::size_t most) const;
  };
  using Visit = std::function<void(const Samples& batch)>;

  Samples all();
  ObservedBatch observed(const Samples& batch, const model::ForwardOptions& options) const;

  /// Runs samples in place, batch by batch.
  void run_batches(const model::BlockWeights& block, std::size_t layer, const Samples& samples,
                   const model::ForwardOptions& options, const Visit& visit);
  void run_batch(const model::BlockWeights& block, std::size_t layer, const Samples& batch,
                 const model::ForwardOptions& options);
  void embed_decoder(const model::Embedding& embedding, std::span<const int> sample, float* hidden) const;
  void begin_decoder(const Samples& batch) const;
  void run_prefix(const model::BlockWeights& block, std::size_t layer);
  void forward(const model::BlockWeights& block, std::size_t layer, std::span<const model::BatchSequence> sequences,
               std::span<float> hidden, const model::ForwardOptions& options);
  model::StridedRows token_inputs_of(const Samples& batch, std::size_t layer);
  std::size_t batch_samples() const;

  ModelSpec spec_;
  std::size_t length_;
  std::function<void()> check_cancelled_;
  model::RopeTable rope_;
  model::RopeAngles angles_;
  model::BlockActivations activations_;
  model::SharedKeys shared_keys_;
  std::shared_ptr<const model::Embedding> embedding_;  ///< null if no block reads token inputs
  SampleTokens tokens_;
  std::vector<float> token_inputs_;  ///< for a batch
  StreamRows rows_;
  std::vector<int> prefix_;
  StreamRows prefix_rows_;
  std::optional<model::SequenceState> after_prefix_;  ///< in the current block; nullopt without a prefix
};

}  // namespace ballast::samples

#endif  // BALLAST_SAMPLES_BLOCK_RUNNER_H_
