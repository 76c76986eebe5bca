// Which tokens the experts of a block got, and tokens that stand in for those that an expert lacks.
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

/// An expert needs about as many tokens as its last linear has columns, or what it reads is known in fewer directions
/// than it has. An expert that got fewer is also run on others, for statistics only: in each sample on the same number
/// of them, those that came nearest to being sent to it (by its logit below the lowest of the chosen experts). They are
/// taken from every few tokens of each sample, twice as many in all as there are columns.
///
/// What is chosen depends on a sample alone: not on the number of ranks or the size of batches.
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

  /// Of a layer that has experts, for samples of `length` tokens.
  ExpertTokens(const ModelSpec& spec, std::size_t layer, std::size_t length, const SampleSharing& sharing);

  /// A batch of whole samples of this rank, from sample `first` on. `marks` has what the caller wants to know of each
  /// token again.
  void add(const model::RoutedTokens& routing, std::size_t first, std::span<const float> marks);

  /// The counts are those of all ranks, which all call it once.
  void finish(Ranks& ranks);

  /// After finish(): tokens that each expert got.
  std::span<const std::uint64_t> counts() const { return counts_; }

  /// The same: whether an expert got fewer tokens than its last linear has columns.
  bool is_starved(std::size_t expert) const { return counts_[expert] < shape_.experts.size; }

  /// Calls visit(rows [count][hidden_size], count, marks) for what an expert that is starved is also run on of a sample
  /// of this rank, if there is anything.
  using Visit = std::function<void(const float* rows, std::size_t count, std::span<const float> marks)>;
  void visit(std::size_t expert, std::size_t sample, const Visit& visit) const;

 private:
  std::vector<std::size_t> chosen(std::size_t expert, std::size_t sample) const;

  Shape shape_;
  std::size_t kept_ = 0;  ///< tokens of a sample
  std::vector<std::uint64_t> counts_;
  std::vector<float> rows_;     ///< [own samples][kept][hidden_size]
  std::vector<float> margins_;  ///< [own samples][kept][experts]: logit above the lowest of the chosen
  std::vector<float> marks_;    ///< [own samples][kept]
};

/// Runs an expert on the tokens that stand in for those that it lacks. Calls add() with what its last linear reads,
/// rows [count][columns], and the tokens' marks; then end_shard() after each of this rank's shards.
struct StandInVisitor {
  std::function<void(const float* rows, std::size_t count, std::span<const float> marks)> add;
  std::function<void(std::size_t shard)> end_shard;
};
void run_stand_ins(const ExpertTokens& tokens, std::size_t expert, const model::LoneExpert& weights,
                   const SampleSharing& sharing, model::BlockActivations& scratch, const StandInVisitor& visitor);

}  // namespace ballast::samples

#endif  // BALLAST_SAMPLES_EXPERT_TOKENS_H_
