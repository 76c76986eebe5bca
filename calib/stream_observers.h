// Observers of the residual stream before the first block and after the last.
#ifndef BALLAST_CALIB_STREAM_OBSERVERS_H_
#define BALLAST_CALIB_STREAM_OBSERVERS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ballast/ranks.h"
#include "ballast/statistics.h"
#include "calib/accumulators.h"
#include "model/embedding_and_head.h"
#include "samples/block_runner.h"
#include "samples/observer.h"
#include "samples/sample_tokens.h"

namespace ballast::calib {

/// Measures the magnitudes of the embedding's output, and flags the tokens that are massive in it.
class EmbeddingObserver : public samples::Observer {
 public:
  /// `massive` has an entry for each token of this rank's samples, each of `length` tokens, and must outlive this.
  EmbeddingObserver(std::size_t hidden_size, std::size_t length, const samples::SampleSharing& sharing,
                    std::span<std::uint8_t> massive)
      : output(hidden_size), length_(length), first_sample_(sharing.own().begin), massive_(massive) {}

  void add(const samples::ObservedBatch& batch) override {
    output.add(batch.hidden.data(), (first_sample_ + batch.first) * length_,
               massive_.subspan(batch.first * length_, batch.count * length_));
  }
  void end_shard(std::size_t /*shard*/) override {}

  OutputMagnitudes output;

 private:
  std::size_t length_;
  std::size_t first_sample_;
  std::span<std::uint8_t> massive_;
};

/// Measures the ranges of the head's input, and of the input of its transform if the model has one.
class HeadObserver : public samples::Observer {
 public:
  /// `massive` is the same as in EmbeddingObserver. `scratch` is a buffer. All references must outlive this object.
  HeadObserver(const model::EmbeddingAndHead& outer, const ModelSpec& spec, std::size_t length,
               std::span<const std::uint8_t> massive, model::BlockActivations& scratch)
      : outer_(outer),
        hidden_size_(spec.hidden_size),
        inputs_(spec.embedding_channels()),
        length_(length),
        massive_(massive),
        scratch_(scratch),
        head_(inputs_),
        transform_(hidden_size_) {}

  void add(const samples::ObservedBatch& batch) override {
    const RowFlags massive = massive_.subspan(batch.first * length_, batch.count * length_);
    prepared_.resize(massive.size() * inputs_);
    outer_.preparation().prepare(batch.hidden.data(), massive.size(), prepared_.data(), scratch_.linears);
    head_.add(prepared_.data(), inputs_, massive);
    if (outer_.preparation().transform()) transform_.add(batch.hidden.data(), hidden_size_, massive);
  }
  void end_shard(std::size_t shard) override {
    head_.end_shard(shard);
    transform_.end_shard(shard);
  }

  /// Returns the inputs in the order of the forward pass. All ranks call it once.
  std::vector<LinearInputStatistics> finish(Ranks& ranks) {
    std::vector<LinearInputStatistics> inputs;
    if (const auto& transform = outer_.preparation().transform()) {
      inputs.push_back({.linears = {transform->name}, .channels = transform_.finish(ranks)});
    }
    inputs.push_back({.linears = {outer_.head_linear().name}, .channels = head_.finish(ranks)});
    return inputs;
  }

 private:
  const model::EmbeddingAndHead& outer_;
  std::size_t hidden_size_;
  std::size_t inputs_;  ///< of the head
  std::size_t length_;
  std::span<const std::uint8_t> massive_;
  model::BlockActivations& scratch_;
  ChannelRanges head_;
  ChannelRanges transform_;
  std::vector<float> prepared_;
};

}  // namespace ballast::calib

#endif  // BALLAST_CALIB_STREAM_OBSERVERS_H_
