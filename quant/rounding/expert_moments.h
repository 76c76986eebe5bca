// Second moments of the inputs of a block's experts, some of which have few tokens.
#ifndef BALLAST_QUANT_ROUNDING_EXPERT_MOMENTS_H_
#define BALLAST_QUANT_ROUNDING_EXPERT_MOMENTS_H_

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "quant/rounding/hessian.h"
#include "samples/sample_tokens.h"

namespace ballast::quant {

/// Moments of an input of which too few tokens are known, drawn toward those of all tokens: with n own tokens and c
/// columns, when n < c,
///
///     H = n mean(own x x^T) + (c - n) mean(all x x^T)
///
/// so that it is made of a token for each column, and of own ones alone from as many on. `all.rows` must not be 0.
Hessian shrunk(Hessian own, const Hessian& all);

/// Stores the router's input of a block, and computes from it the moments of each expert's tokens: one matrix per
/// expert, one in memory at a time.
class ExpertMoments {
 public:
  ExpertMoments(std::size_t experts, std::size_t cols, const samples::SampleSharing& sharing)
      : cols_(cols), sharing_(sharing), rows_(experts) {}

  /// Adds a batch of the current shard: rows [tokens][cols], and each expert's tokens.
  void add(const float* rows, std::size_t tokens, std::span<const std::vector<std::size_t>> of_expert);
  void end_shard() { ++shards_; }

  /// Sets the moments of all tokens, towards which each expert's are shrunk.
  void shrink_toward(std::shared_ptr<const Hessian> all) { all_ = std::move(all); }

  /// Moments of one expert's tokens; without shrinking of no rows where it got none. All ranks call it for the same
  /// experts in the same order, and hold the same bytes then.
  Hessian of(std::size_t expert) const;

 private:
  struct Row {
    std::size_t shard = 0;  ///< counted from this rank's first
    const float* values = nullptr;
  };

  std::size_t cols_;
  samples::SampleSharing sharing_;
  std::size_t shards_ = 0;                   ///< completed shards
  std::vector<std::vector<float>> batches_;  ///< [tokens][cols] each
  std::vector<std::vector<Row>> rows_;       ///< of each expert, in the batches
  std::shared_ptr<const Hessian> all_;
};

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_ROUNDING_EXPERT_MOMENTS_H_
