// The calibration samples on their way through a model that is being converted, block by block.
#ifndef BALLAST_QUANT_SAMPLE_STREAM_H_
#define BALLAST_QUANT_SAMPLE_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ballast/spec.h"
#include "model/forward/forward.h"
#include "model/forward/shared_keys.h"
#include "model/model.h"
#include "quant/sample_sharing.h"
#include "quant/working_block.h"

namespace ballast::quant {

/// Sequences of `length` tokens each, one after the other.
struct SampleTokens {
  std::span<const int> ids;
  std::size_t length = 0;
  std::size_t prefix = 0;  ///< of a sequence's tokens, those of the model's prefix: its text begins after them

  std::size_t count() const { return length == 0 ? 0 : ids.size() / length; }

  /// The first of a sample's tokens whose predictions are compared: those of its text's later half are.
  std::size_t first_compared() const { return prefix + (length - prefix) / 2; }

  /// The first `count` of them.
  SampleTokens first(std::size_t count) const { return {ids.first(count * length), length, prefix}; }
};

/// The part of all samples that a rank has.
SampleTokens own_samples(const SampleTokens& all, const SampleSharing& sharing);

/// What is known of samples between two blocks, a row for each token.
struct SampleRows {
  std::vector<float> hidden;       ///< the residual stream
  std::vector<float> shared_keys;  ///< model::SharedKeys: keys and values that later blocks read, too

  void append(const SampleRows& others);
};

/// Samples on their way.
class SampleStream {
 public:
  /// `check_cancelled` is called after every few samples that a block ran, and may throw.
  SampleStream(const ModelSpec& spec, std::size_t length, std::function<void()> check_cancelled = {});

  SampleRows& rows() { return rows_; }
  const SampleRows& rows() const { return rows_; }
  std::size_t length() const { return length_; }  ///< tokens of a sample

  /// Samples in front of the first block, after those that are there already. Where blocks read token inputs, the
  /// embedding is kept: quant::runnable_embedding.
  void embed(std::shared_ptr<const model::Embedding> embedding, const SampleTokens& tokens);

  /// Where samples that were embedded elsewhere come from, as blocks that read token inputs need to know. Of more
  /// samples than there are tokens of, the tokens begin anew. They must outlive this.
  void set_origin(std::shared_ptr<const model::Embedding> embedding, const SampleTokens& tokens);
  void set_origin(const SampleStream& other) { set_origin(other.embedding_, other.tokens_); }

  /// Gives the rows the size that they have for samples of these tokens.
  void resize(const SampleTokens& tokens);

  /// Samples move on to after a block, at most `at_once` of them side by side.
  void advance(const model::BlockWeights& block, std::size_t layer, std::size_t at_once = SIZE_MAX);

  /// Gives the inputs of `block` the moments, and if asked to where they become INT8 the peaks, of what its linears
  /// read, over the samples of all ranks; `weights` are what runs of it. The samples are a rank's own ones; they stay
  /// where they are, or move on, too.
  ///
  /// In front of linears that write the stream, a token counts by what the next norm will make of an error there: by
  /// the inverse of its mean square after the block (about alike for all where the block ends with a norm), the
  /// original one where that runs beside it. Else a massive token, whose errors no norm lets through, would outweigh
  /// all others.
  ///
  /// Experts that get fewer tokens than their last linear has columns are measured on others, too: see
  /// calib::ExpertTokens. They count in the moments, but with routed_share in what rounding costs.
  enum class Then { kStay, kAdvance };
  enum class Inputs {
    kAll,
    kBeforeDown,  ///< all but those below
    kOfDown,      ///< of the last linears of an MLP, experts' too
  };
  struct What {
    Inputs inputs = Inputs::kAll;
    bool peaks = false;
    bool each_expert = false;  ///< WorkingInput::expert_moments, too
    bool shrink = true;        ///< false: experts are known from their own tokens alone
    /// The same samples in the original model: with kOfDown after this block, else in front of it, which they then pass
    /// by the weights given. Null: WorkingInput::drift is not asked for.
    SampleStream* original = nullptr;
  };
  void measure(const model::BlockWeights& weights, std::size_t layer, const SampleSharing& sharing, Then then,
               What what, WorkingBlock& block);

 private:
  /// Samples of this, or copies of them.
  struct Samples {
    std::size_t first = 0;
    std::size_t count = 0;
    std::span<float> hidden{};
    std::span<float> shared_keys{};

    /// Those from the `begin`th of them on, at most `most`.
    Samples part(std::size_t begin, std::size_t most) const;
  };
  using Visit = std::function<void(const Samples& batch)>;

  Samples all();

  /// Runs samples, a few at a time, in place; `visit` sees each batch after the block, its inputs, where the options
  /// ask for them, recorded in `activations_`.
  void run(const model::BlockWeights& block, std::size_t layer, const Samples& samples,
           const model::ForwardOptions& options, const Visit& visit);
  void run_batch(const model::BlockWeights& block, std::size_t layer, const Samples& batch,
                 const model::ForwardOptions& options);
  void measure_shard(const model::BlockWeights& weights, std::size_t layer, const Samples& samples, Then then,
                     const model::ForwardOptions& options, const Visit& visit);
  model::StridedRows token_inputs(std::size_t layer, const Samples& batch);
  std::size_t batch_samples() const;

  ModelSpec spec_;
  std::size_t length_;
  std::function<void()> check_cancelled_;
  model::RopeTable rope_;
  model::RopeAngles angles_;
  model::BlockActivations activations_;
  model::SharedKeys shared_keys_;
  std::shared_ptr<const model::Embedding> embedding_;  ///< null where no block reads token inputs
  SampleTokens tokens_;
  std::vector<float> token_inputs_;  ///< of a batch
  SampleRows rows_;
};

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_SAMPLE_STREAM_H_
