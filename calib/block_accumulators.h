// What the batches of one block are folded into while calibration runs them.
#ifndef BALLAST_CALIB_BLOCK_ACCUMULATORS_H_
#define BALLAST_CALIB_BLOCK_ACCUMULATORS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ballast/statistics.h"
#include "calib/accumulators.h"
#include "calib/expert_tokens.h"
#include "jobs/sharded_sum.h"
#include "model/forward/forward.h"

namespace ballast::calib {

/// A linear input that is being measured.
struct InputRanges {
  std::vector<std::string> linears;
  ChannelRanges ranges;
  std::optional<std::size_t> expert = {};  ///< whose last linear reads it
};

class BlockAccumulators {
 public:
  struct Samples {
    std::size_t count = 0;   ///< of all ranks
    std::size_t length = 0;  ///< tokens of each
  };

  /// Keys, values and shares have no channels where the layer does not attend. All references must outlive this.
  BlockAccumulators(const ModelSpec& spec, std::size_t layer, const Samples& samples, Ranks& ranks);

  /// A batch of whole samples of the present shard, from `first_sample` on; `massive` has an entry for each token.
  void add(const model::BlockActivations& activations, const std::vector<std::uint8_t>& massive,
           std::size_t first_sample, std::size_t shard);
  void end_shard(std::size_t shard);

  /// What the block's linears read, of all ranks, which all call it once. Experts that got too few tokens are run on
  /// others, too. `scratch` is what the block was run with.
  std::vector<LinearInputStatistics> finish_inputs(const model::BlockWeights& block, model::BlockActivations& scratch);

  ChannelRanges keys;
  ChannelRanges values;
  OutputMagnitudes output;
  jobs::ShardedSum<double> first_token_share;
  std::optional<ExpertStatistics> expert_statistics;  ///< after finish_inputs(), where the layer has experts

 private:
  void add_input(const model::LinearInput& input, std::size_t index, const std::vector<std::uint8_t>& massive,
                 std::size_t shard);
  void add_attention(const model::BlockActivations& activations, const std::vector<std::uint8_t>& massive);
  void add_stand_ins(const model::BlockWeights& block, model::BlockActivations& scratch, std::size_t expert,
                     ChannelStatistics& channels);

  const ModelSpec& spec_;
  std::size_t layer_;  ///< from 0
  Samples samples_;
  Ranks& ranks_;
  std::vector<InputRanges> inputs_;  ///< filled by the first batch
  std::optional<ExpertTokens> experts_;
};

}  // namespace ballast::calib

#endif  // BALLAST_CALIB_BLOCK_ACCUMULATORS_H_
