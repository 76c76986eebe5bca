// Measures the ranges of the inputs of a block's linears, of its keys, values and output, and its attention to sinks.
#ifndef BALLAST_CALIB_RANGE_OBSERVER_H_
#define BALLAST_CALIB_RANGE_OBSERVER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ballast/statistics.h"
#include "calib/accumulators.h"
#include "jobs/sharded_sum.h"
#include "model/forward/forward.h"
#include "samples/expert_tokens.h"
#include "samples/observer.h"
#include "samples/sample_tokens.h"

namespace ballast::calib {

/// An input of linears that is being measured.
struct InputRanges {
  std::vector<model::Part> readers;
  ChannelRanges ranges;
  std::optional<std::size_t> expert = {};  ///< the expert whose last linear reads it

  void end_shard(std::size_t shard) { ranges.end_shard(shard); }
};

class RangeObserver : public samples::Observer {
 public:
  /// `massive` has an entry for each token of this rank's samples, each of `length` tokens: not 0 if the token has
  /// massive values before the block; the observer sets it to whether it has after the block. All references must
  /// outlive this object.
  RangeObserver(const ModelSpec& spec, std::size_t layer, std::size_t length, const samples::SampleSharing& sharing,
                std::span<std::uint8_t> massive);

  void add(const samples::ObservedBatch& batch) override;
  void end_shard(std::size_t shard) override;

  /// The ranges of an input, and the linears that read it.
  struct FinishedInput {
    std::vector<model::Part> readers;
    ChannelStatistics channels;
  };

  /// Returns the inputs of the block's linears over all ranks. All ranks call it once. Experts that got too few tokens
  /// are also run on others. `scratch` are the buffers with which the block was run.
  std::vector<FinishedInput> finish_inputs(const model::BlockWeights& block, model::BlockActivations& scratch);

  /// Keys, values and shares have no channels if the layer has no attention.
  ChannelRanges keys;
  ChannelRanges values;
  OutputMagnitudes output;
  jobs::ShardedSum<double> first_token_share;
  std::optional<ExpertStatistics> expert_statistics;  ///< set by finish_inputs(), if the layer has experts

 private:
  void add_input(const model::LinearInput& input, std::size_t index, const std::vector<std::uint8_t>& massive);
  void add_attention(const model::BlockActivations& activations, const std::vector<std::uint8_t>& massive);
  void add_stand_ins(const model::BlockWeights& block, model::BlockActivations& scratch, std::size_t expert,
                     ChannelStatistics& channels);

  const ModelSpec& spec_;
  std::size_t layer_;  ///< counted from 0
  std::size_t length_;
  const samples::SampleSharing& sharing_;
  std::span<std::uint8_t> massive_;
  samples::InputAccumulators<InputRanges> inputs_;
  std::optional<samples::ExpertTokens> experts_;
};

}  // namespace ballast::calib

#endif  // BALLAST_CALIB_RANGE_OBSERVER_H_
