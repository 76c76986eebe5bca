// The statistics of a model's activations from a calibration, and their file.
#ifndef BALLAST_STATISTICS_H_
#define BALLAST_STATISTICS_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace ballast {

/// A value of a block's output is massive if its magnitude is > 100 and >= 1000 x the median of the magnitudes (Sun et
/// al. 2024, arXiv:2402.17762).
inline constexpr double kMassiveMagnitude = 100.0;
inline constexpr double kMassiveRatio = 1000.0;
inline bool is_massive(double magnitude, double median) {
  return magnitude > kMassiveMagnitude && magnitude >= kMassiveRatio * median;
}

/// One large value of a block's output.
struct TopValue {
  float value = 0;           ///< signed
  std::size_t sample = 0;    ///< index of the calibration sample
  std::size_t position = 0;  ///< of the token in its sample
  int token = 0;
  std::string token_text;  ///< UTF-8, as shown to a reader
  std::size_t channel = 0;
};

/// A block's output, the residual stream. Layer 0 is the embedding's output.
struct LayerStatistics {
  std::size_t layer = 0;
  double median = 0;          ///< of the magnitudes, over all samples, tokens and channels
  std::vector<TopValue> top;  ///< the largest value of each of the largest channels, in descending order of magnitude
  bool massive = false;       ///< the largest is massive
};

/// A channel of the residual stream with massive values.
struct MassiveChannel {
  std::size_t channel = 0;
  std::size_t samples = 0;  ///< number of samples in which it has a massive value
};

/// A token with massive values: the first of a sample, or one (a delimiter) that repeats.
struct MassiveToken {
  static constexpr int kFirst = -1;
  int token = kFirst;        ///< kFirst: any token at position 0 (not with a prefix)
  std::size_t position = 0;  ///< the earliest at which it was massive
  std::string token_text;    ///< empty for kFirst
  std::size_t samples = 0;   ///< in which it is massive
};

/// Ranges of a set of channels over all tokens. Every vector has one entry per channel.
struct ChannelStatistics {
  std::vector<float> min;
  std::vector<float> max;
  std::vector<float> mean;
  std::vector<float> mean_square;
  std::vector<float> ordinary_absmax;  ///< absmax without massive tokens; empty if not recorded

  /// Returns max(|min|, |max|) of a channel.
  float absmax(std::size_t channel) const;
};

/// The input that one or more linears read: q, k and v share theirs, so do gate and up.
struct LinearInputStatistics {
  std::vector<std::string> linears;  ///< "model.layers.0.self_attn.q_proj", ...
  ChannelStatistics channels;

  /// Returns the largest channel's absmax divided by the median channel's.
  double absmax_ratio() const;

  /// Returns the channels whose absmax on ordinary tokens is at least kOutlierRatio times the median channel's,
  /// ascending.
  std::vector<std::size_t> outlier_channels() const;
  static constexpr double kOutlierRatio = 6.0;
};

/// Keys after rotation, and values; channel = kv_head * head_size + i. Empty for a layer without attention.
struct KeyValueStatistics {
  ChannelStatistics keys;
  ChannelStatistics values;
};

/// How the router of a layer distributed the samples' tokens among its experts.
struct ExpertStatistics {
  std::size_t layer = 0;                 ///< from 1
  std::size_t columns = 0;               ///< of an expert's last linear
  std::vector<std::uint64_t> tokens;     ///< of each expert
  std::vector<std::uint64_t> stand_ins;  ///< tokens that were not routed to it and on which it was measured, too

  /// Returns the entropy of the choice in bits, over all tokens: log2(experts) if all are chosen equally often.
  double entropy() const;

  /// Returns the experts with fewer tokens than columns.
  std::vector<std::size_t> starved() const;
};

/// |activation| of one sample at the output of the layer with the largest value: for the report's map.
struct ActivationMap {
  std::size_t layer = 0;
  std::vector<std::string> tokens;    ///< text of the rows' tokens, the sample's first ones
  std::vector<std::size_t> channels;  ///< of the columns: the largest ones and an even sample of the rest, ascending
  std::vector<float> magnitudes;      ///< [tokens][channels]
};

/// The share of attention to the first token from which a head counts as a sink head.
inline constexpr double kSinkShare = 0.3;

struct Statistics {
  std::string model;  ///< name of the directory or file that was measured
  std::string text;   ///< the source of the text: file names, or "sampled from the model"
  std::size_t samples = 0;
  std::size_t length = 0;  ///< tokens per sample
  std::uint64_t seed = 0;
  std::vector<int> tokens;              ///< [samples][length]; conversion runs them again
  std::vector<int> prefix;              ///< tokens before every sample; not counted or measured
  std::size_t heads = 0;                ///< of the layer with the most
  std::vector<LayerStatistics> layers;  ///< layers + 1 entries, the embedding first
  std::vector<MassiveChannel> massive_channels;
  std::vector<MassiveToken> massive_tokens;
  /// [layers][heads]: mean attention to the first token, that of the prefix if there is one, over all queries after it;
  /// 0 for heads that a layer does not have.
  std::vector<float> sink_share;
  std::vector<LinearInputStatistics> inputs;   ///< in the order of the forward pass
  std::vector<KeyValueStatistics> key_values;  ///< [layers]
  std::vector<ExpertStatistics> experts;       ///< of the layers with experts
  ActivationMap map;
};

/// Returns the bytes of a safetensors file: vectors as tensors, the rest as JSON in its metadata. The same statistics
/// give the same bytes.
std::string serialize_statistics(const Statistics& statistics);

/// Throws Error naming `context` if `file` is not a complete statistics file.
Statistics parse_statistics(std::string_view file, std::string_view context);

/// Writes the file completely or not at all; an existing file is an Error unless `replace`.
void save_statistics(const Statistics& statistics, const std::filesystem::path& path, bool replace);

Statistics load_statistics(const std::filesystem::path& path);

/// Returns the object that `ballast calibrate --json` prints. `top` values per layer are cut to 3.
std::string statistics_json(const Statistics& statistics);

}  // namespace ballast

#endif  // BALLAST_STATISTICS_H_
