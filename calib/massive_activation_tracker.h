// Tracks the largest values in the outputs of blocks, the channels and tokens with massive values, and the map for the
// report.
#ifndef BALLAST_CALIB_MASSIVE_ACTIVATION_TRACKER_H_
#define BALLAST_CALIB_MASSIVE_ACTIVATION_TRACKER_H_

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ballast/statistics.h"
#include "calib/accumulators.h"
#include "calib/samples.h"
#include "jobs/saved_arrays.h"
#include "text/tokenizer.h"

namespace ballast::calib {

class MassiveActivationTracker {
 public:
  /// Returns the first `count` rows of a sample's output of the current layer, consecutive.
  using RowsOf = std::function<std::vector<float>(std::size_t sample, std::size_t count)>;

  /// All arguments must outlive this object; without a tokenizer tokens have no text. `encoder`: of the model, if it
  /// has one; its layers read the samples, and the decoder's read them after the token that begins its texts.
  MassiveActivationTracker(const Samples& samples, const std::vector<int>& prefix, const text::Tokenizer* tokenizer,
                           const std::optional<EncoderSpec>& encoder)
      : samples_(samples), prefix_(prefix), tokenizer_(tokenizer), encoder_(encoder) {}

  /// Adds a layer's complete output.
  LayerStatistics add(std::size_t layer, const OutputMagnitudes& output, const RowsOf& rows);

  /// Sets the massive channels and tokens and the map of all layers.
  void describe(Statistics& statistics) const;

  /// Adds the results of the layers so far to `arrays`, or reads them, to continue after a kill. This object must
  /// outlive `arrays`.
  void save(jobs::SavedArrays& arrays) const;
  void restore(jobs::SavedArraysReader& arrays);

 private:
  /// The first tokens' activations of the sample with the largest value so far.
  struct MapCandidate {
    float largest = 0;
    std::size_t layer = 0;
    std::size_t sample = 0;
    std::vector<float> rows;
  };
  struct MassiveSeen {
    std::size_t position = 0;
    std::set<std::size_t> samples;
  };

  std::size_t length() const { return samples_.front().size(); }
  bool in_encoder(std::size_t layer) const { return encoder_ && layer <= encoder_->layers; }
  int token_at(std::size_t layer, std::size_t sample, std::size_t position) const;
  TopValue top_value(std::size_t layer, const Peak& peak) const;
  std::string token_text(int token) const;
  ActivationMap draw_map() const;

  const Samples& samples_;
  const std::vector<int>& prefix_;  ///< before every sample
  const text::Tokenizer* tokenizer_;
  const std::optional<EncoderSpec>& encoder_;
  MapCandidate map_;
  std::map<std::size_t, std::set<std::size_t>> massive_channels_;
  std::map<int, MassiveSeen> massive_tokens_;
};

}  // namespace ballast::calib

#endif  // BALLAST_CALIB_MASSIVE_ACTIVATION_TRACKER_H_
