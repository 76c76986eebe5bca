// The effect of a change to a model on its predictions, from the residual stream after its last block.
#ifndef BALLAST_QUANT_SEARCH_LOGIT_ROWS_H_
#define BALLAST_QUANT_SEARCH_LOGIT_ROWS_H_

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "ballast/spec.h"
#include "model/model.h"
#include "quant/block/working_block.h"
#include "samples/sample_tokens.h"

namespace ballast::quant {

/// Returns the weights before and after the blocks, rounded or not. The blocks must outlive the result.
std::shared_ptr<const model::EmbeddingAndHead> outer_weights(const ModelSpec& spec, const WorkingBlock& front,
                                                             const WorkingBlock& back);

/// Logits of a model, a few positions at a time.
class LogitRows {
 public:
  struct Scratch {
    model::LinearScratch activations;
    std::vector<float> prepared;
    std::vector<float> logits;
  };

  /// `hidden` is the output of the last block, [positions][hidden]. The spec and `hidden` must outlive this.
  LogitRows(const ModelSpec& spec, std::shared_ptr<const model::EmbeddingAndHead> outer, std::span<const float> hidden)
      : spec_(&spec), outer_(std::move(outer)), hidden_(hidden) {}

  /// Returns [count][vocab], valid until the scratch is used again.
  std::span<const float> compute(std::size_t first, std::size_t count, Scratch& scratch) const;

 private:
  const ModelSpec* spec_;
  std::shared_ptr<const model::EmbeddingAndHead> outer_;
  std::span<const float> hidden_;
};

/// What an error in each token's logit counts: sum p (1 - p) over predictions, to which the divergence of small errors
/// that are independent of each other is proportional.
class TokenWeights {
 public:
  explicit TokenWeights(std::size_t vocab) : sums_(vocab) {}

  /// Adds predictions, [][vocab].
  void add(std::span<const float> logits);

  /// Returns the weights, with a mean of 1. A part is the same for all tokens: the samples are few, and other texts
  /// have other tokens.
  std::vector<double> finish() const;

 private:
  std::vector<double> sums_;
};

/// Returns the mean divergence of each of `changed` from `base`, in nats per token, over the second half of the first
/// `samples` samples: as in evaluation, predictions with little context are not representative. The base's predictions
/// are added to `weights`.
std::vector<double> mean_divergences(const ModelSpec& spec, const LogitRows& base, std::span<const LogitRows> changed,
                                     const samples::SampleTokens& tokens, std::size_t samples, TokenWeights& weights);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_SEARCH_LOGIT_ROWS_H_
