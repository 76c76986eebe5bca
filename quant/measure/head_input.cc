#include "quant/measure/head_input.h"

#include <optional>
#include <utility>
#include <vector>

#include "model/embedding_and_head.h"
#include "quant/block/runnable_block.h"

namespace ballast::quant {

namespace {

// The share of a tied embedding's moments. For SmolLM2-135M with its embedding alone in 5 bits (8 chunks), the head's
// and the stream's losses are as 9 to 1 when rounded to nearest, and their sum is smallest with this share (0.0049;
// 0.0055 with a hundredth, 0.0065 with the whole mean).
constexpr double kTableShare = 0.1;

void add_table_share(Hessian& moments) {
  double sum = 0;
  for (std::size_t c = 0; c < moments.cols; ++c) sum += double{moments.values[c * (moments.cols + 1)]};
  const double added = kTableShare * sum / static_cast<double>(moments.cols);
  for (std::size_t c = 0; c < moments.cols; ++c) moments.values[c * (moments.cols + 1)] += static_cast<float>(added);
}

class HeadInputObserver : public samples::Observer {
 public:
  HeadInputObserver(const ModelSpec& spec, const WorkingBlock& back, jobs::SumOrder order, bool peaks)
      : hidden_size_(spec.hidden_size),
        inputs_(spec.embedding_channels()),
        preparation_(spec, runnable_parts(back, spec, run_with_int16)),
        moments_(inputs_, order) {
    if (peaks) peaks_.emplace(inputs_, order);
  }

  void add(const samples::ObservedBatch& batch) override {
    const std::size_t tokens = batch.hidden.size() / hidden_size_;
    rows_.resize(tokens * inputs_);
    preparation_.prepare(batch.hidden.data(), tokens, rows_.data(), scratch_);
    moments_.add(rows_.data(), tokens);
    if (peaks_) peaks_->add(rows_.data(), tokens, {});
  }

  void end_shard(std::size_t shard) override {
    moments_.end_shard(shard);
    if (peaks_) peaks_->end_shard(shard);
  }

  HeadInput finish(bool tied, Ranks& ranks) {
    Hessian moments = moments_.finish(ranks);
    if (tied) add_table_share(moments);
    HeadInput input{.moments = std::make_shared<const Hessian>(std::move(moments)), .peaks = nullptr};
    if (peaks_) input.peaks = std::make_shared<const InputPeaks>(peaks_->finish(ranks));
    return input;
  }

 private:
  std::size_t hidden_size_;
  std::size_t inputs_;  ///< of the head
  model::HeadPreparation preparation_;
  HessianSum moments_;
  std::optional<PeakSum> peaks_;
  std::vector<float> rows_;
  model::LinearScratch scratch_;
};

}  // namespace

HeadInput measure_head_input(const ModelSpec& spec, const WorkingBlock& back, samples::BlockRunner& runner,
                             const samples::SampleSharing& sharing, bool peaks) {
  HeadInputObserver observer(spec, back, sharing.order, peaks);
  runner.observe_stream(sharing, {&observer});
  return observer.finish(spec.tied_embeddings, *sharing.ranks);
}

}  // namespace ballast::quant
