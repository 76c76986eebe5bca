// Counts the tokens of a block's experts, and chooses additional tokens for experts with too few.
#ifndef BALLAST_SAMPLES_EXPERT_TOKENS_H_
#define BALLAST_SAMPLES_EXPERT_TOKENS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "ballast/ranks.h"
#include "ballast/spec.h"
#include "jobs/sharded_sum.h"
#include "model/forward/forward.h"
#include "samples/sample_tokens.h"

namespace ballast::samples {

/// An expert needs about as many tokens as its last linear has columns; with fewer, the statistics of its input do not
/// cover all directions. An expert that got fewer is also run on other tokens, for statistics only: in each sample on
/// the same number of them, those that were closest to being routed to it (by its logit relative to the lowest of the
/// chosen experts). They are taken from every few tokens of each sample, twice as many in all as there are columns.
///
/// The choice depends on the sample alone: not on the number of ranks or the size of batches.
class ExpertTokens {
 public:
  struct Shape {
    ExpertSpec experts;
    std::size_t hidden_size = 0;
    std::size_t samples = 0;  ///< of all ranks
    std::size_t length = 0;   ///< tokens of each
    jobs::IndexRange own;     ///< samples of this rank
  };

  explicit ExpertTokens(const Shape& shape);

  /// For a layer with experts and samples of `length` tokens.
  ExpertTokens(const ModelSpec& spec, std::size_t layer, std::size_t length, const SampleSharing& sharing);

  /// Adds a batch of whole samples of this rank, from sample `first` on. `marks` has a value for each token that is
  /// returned to the caller later.
  void add(const model::RoutedTokens& routing, std::size_t first, std::span<const float> marks);

  /// Completes the counts over all ranks, which all call it once.
  void finish(Ranks& ranks);

  /// Returns the tokens of each expert, after finish().
  std::span<const std::uint64_t> counts() const { return counts_; }

  /// Returns whether an expert got fewer tokens than its last linear has columns, after finish().
  bool is_starved(std::size_t expert) const { return counts_[expert] < shape_.experts.size; }

  /// Calls visit(rows [count][hidden_size], count, marks) with the additional tokens of a starved expert in a sample of
  /// this rank, if there are any.
  using Visit = std::function<void(const float* rows, std::size_t count, std::span<const float> marks)>;
  void visit(std::size_t expert, std::size_t sample, const Visit& visit) const;

 private:
  std::vector<std::size_t> chosen(std::size_t expert, std::size_t sample) const;

  Shape shape_;
  std::size_t kept_ = 0;  ///< kept tokens of a sample
  std::vector<std::uint64_t> counts_;
  std::vector<float> rows_;     ///< [own samples][kept][hidden_size]
  std::vector<float> margins_;  ///< [own samples][kept][experts]: logit relative to the lowest of the chosen ones
  std::vector<float> marks_;    ///< [own samples][kept]
};

/// Runs an expert on its additional tokens. Calls add() with the inputs of its last linear, rows [count][columns], and
/// the tokens' marks; then end_shard() after each of this rank's shards.
struct StandInVisitor {
  std::function<void(const float* rows, std::size_t count, std::span<const float> marks)> add;
  std::function<void(std::size_t shard)> end_shard;
};
void run_stand_ins(const ExpertTokens& tokens, std::size_t expert, const model::LoneExpert& weights,
                   const SampleSharing& sharing, model::BlockActivations& scratch, const StandInVisitor& visitor);

}  // namespace ballast::samples

#endif  // BALLAST_SAMPLES_EXPERT_TOKENS_H_
