#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ballast/error.h"
#include "model/mixer/mixer_kind.h"
#include "quant/passes/fold_arithmetic.h"
#include "quant/passes/fold_rules.h"
#include "quant/passes/passes.h"
#include "quant/quantize/rounding_error.h"

namespace ballast::quant {

namespace {

using model::Role;

// Factors are between this and its inverse, so that bounds on values are known in advance and no group's scale leaves
// F16's range.
constexpr float kLargestFactor = 16.0F;

// The grid of the search: exponents in eighths.
constexpr int kStrengths = 8;

/// The exponents of s = activation^activation_power / weight^weight_power.
struct Strength {
  double activation_power = 0;
  double weight_power = 0;
};

/// SmoothQuant's proposal, used if there is no rounding whose error could be minimized.
constexpr Strength kBalanced = {0.5, 0.5};

/// Returns the strengths of SmoothQuant, whose powers add up to 1, and of AWQ, which uses only activations.
std::vector<Strength> candidate_strengths() {
  std::vector<Strength> candidates;
  for (int i = 0; i <= kStrengths; ++i) {
    const double power = static_cast<double>(i) / kStrengths;
    candidates.push_back({power, 1 - power});
    if (i > 0 && i < kStrengths) candidates.push_back({power, 0});
  }
  return candidates;
}

/// The matrix that writes an input, if its rows can take factors.
struct Producer {
  WorkingLinear* linear = nullptr;
  HeadSharing heads{};
};

/// Logarithms to base 2, from which all strengths make their factors.
struct ChannelSizes {
  std::vector<double> activations;
  std::vector<double> weights;
  std::vector<bool> used;  ///< neither is zero
};

/// The measure of a channel's size: its root mean square, which determines the cost of rounded weights, or its largest
/// ordinary value, which determines INT8 grids.
enum class SizeKind { kRms, kRange };

ChannelSizes channel_sizes(std::span<const WeightRowSample> readers, const ChannelStatistics& channels, SizeKind kind) {
  const std::size_t count = channels.min.size();
  ChannelSizes sizes{std::vector<double>(count), std::vector<double>(count), std::vector<bool>(count)};
  std::vector<double> energy(count, 0.0);
  for (const WeightRowSample& reader : readers) {
    const double share = reader.share();
    for (std::size_t r = 0; r < reader.rows; ++r) {
      const float* row = reader.values.data() + r * count;
      for (std::size_t c = 0; c < count; ++c) energy[c] += double{row[c]} * double{row[c]} / share;
    }
  }
  for (std::size_t c = 0; c < count; ++c) {
    const float size = kind == SizeKind::kRange ? channels.ordinary_absmax[c] : ordinary_rms(channels, c);
    sizes.used[c] = size > 0 && energy[c] > 0;
    if (!sizes.used[c]) continue;
    sizes.activations[c] = std::log2(double{size});
    sizes.weights[c] = 0.5 * std::log2(energy[c]);
  }
  return sizes;
}

class Smooth : public Pass {
 public:
  Smooth(const Recipe& recipe, const ModelSpec& spec, std::shared_ptr<SmoothingFactors> chosen)
      : recipe_(recipe), spec_(spec), chosen_(std::move(chosen)) {}

  void run(WorkingBlock& block) override {
    for (WorkingInput& input : block.inputs) {
      WorkingNorm* norm = input.norm ? &block.norms[*input.norm] : nullptr;
      const Producer matrix = norm == nullptr ? matrix_producer(block, input) : Producer{};
      if (norm == nullptr && matrix.linear == nullptr) continue;
      if (!input.statistics) throw Error("smooth", "needs the statistics of a calibration (--stats)");
      ++inputs_;
      const SmoothingFactors::Factors factors = factors_for(block, input, matrix.heads);
      if (factors) {
        ++smoothed_;
        apply(block, input, *factors, norm, matrix);
      }
      // The same bound for all factors, so that a plan gives the same result.
      for (const std::size_t reader : input.readers) block.linears[reader].absmax *= kLargestFactor;
      if (matrix.linear != nullptr) matrix.linear->absmax *= kLargestFactor;
    }
  }

  std::string note() const override {
    return "smooth: " + std::to_string(smoothed_) + " of " + std::to_string(inputs_) +
           " inputs are scaled by channel against the linears that read them";
  }

 private:
  Producer matrix_producer(WorkingBlock& block, const WorkingInput& input) const {
    if (!block.layer) return {};
    const LayerSpec& layer = spec_.layers[*block.layer];
    const model::Part& reader = block.linears[input.readers.front()].part;
    const std::optional<model::ValuePath> path = model::value_path(layer);
    if (path && path->output == reader.role) {
      return path->scaling.legal ? Producer{block.find(path->value), HeadSharing(*path)} : Producer{};
    }
    const std::optional<Role> producer = model::role_row(layer, reader.role).producer;
    if (!producer || !up_scaling(layer.mlp).legal) return {};
    return {.linear = block.find(*producer, reader.expert)};
  }

  /// Returns the factors of an input, searched for when the block is prepared for the first time; none in a plan.
  SmoothingFactors::Factors factors_for(const WorkingBlock& block, const WorkingInput& input,
                                        const HeadSharing& heads) const {
    const auto is_planned = [&](std::size_t reader) { return !block.linears[reader].has_values(); };
    if (std::ranges::any_of(input.readers, is_planned)) return {};
    const ModuleId first = block.id_of(block.linears[input.readers.front()]);
    if (const SmoothingFactors::Factors* known = chosen_->find(first)) return *known;
    SmoothingFactors::Factors factors = choose_factors(block, input, heads);
    chosen_->keep(first, factors);
    return factors;
  }

  /// Returns one factor per channel of the input, or none if unchanged inputs give the smallest error.
  SmoothingFactors::Factors choose_factors(const WorkingBlock& block, const WorkingInput& input,
                                           const HeadSharing& heads) const {
    std::vector<WeightRowSample> readers;
    bool rounded = false;
    bool float32 = true;
    for (const std::size_t reader : input.readers) {
      const WorkingLinear& linear = block.linears[reader];
      rounded |= linear.format.quantizes();
      float32 &= linear.format.kind == WeightFormat::Kind::kF32;
      readers.push_back(rounding_error_sample(linear));
    }
    const ChannelStatistics& channels = input.statistics->channels;
    if (!rounded) {
      if (!float32) return {};
      return factors_of(kBalanced, channel_sizes(readers, channels, SizeKind::kRms), heads);
    }
    double best_error = rounding_error(readers, channels, recipe_);
    std::optional<std::vector<float>> best;
    std::vector<SizeKind> kinds = {SizeKind::kRms};
    const bool int8 = readers.front().activations == ActivationType::kInt8;
    if (int8 && !channels.ordinary_absmax.empty()) kinds.push_back(SizeKind::kRange);
    for (const SizeKind kind : kinds) {
      const ChannelSizes sizes = channel_sizes(readers, channels, kind);
      for (const Strength& strength : candidate_strengths()) {
        std::vector<float> factors = factors_of(strength, sizes, heads);
        const double error = error_with(factors, readers, channels);
        if (!(error < best_error)) continue;
        best_error = error;
        best = std::move(factors);
      }
    }
    return best;
  }

  double error_with(const std::vector<float>& factors, std::vector<WeightRowSample> readers,
                    ChannelStatistics channels) const {
    std::vector<float> inverse(factors.size());
    std::ranges::transform(factors, inverse.begin(), [](float factor) { return 1 / factor; });
    scale_channels(channels, inverse);
    for (WeightRowSample& reader : readers) {
#pragma omp parallel for
      for (std::size_t r = 0; r < reader.rows; ++r) {
        float* row = reader.values.data() + r * reader.cols;
        for (std::size_t c = 0; c < reader.cols; ++c) row[c] *= factors[c];
      }
      reader.absmax *= kLargestFactor;
    }
    return rounding_error(readers, channels, recipe_);
  }

  /// Returns factors with a geometric mean of 1. Heads that share a value head share its factors.
  static std::vector<float> factors_of(const Strength& strength, const ChannelSizes& sizes, const HeadSharing& heads) {
    const std::size_t count = sizes.used.size();
    std::vector<double> logarithms(count, 0.0);
    double sum = 0;
    std::size_t used = 0;
    for (std::size_t c = 0; c < count; ++c) {
      if (!sizes.used[c]) continue;
      logarithms[c] = strength.activation_power * sizes.activations[c] - strength.weight_power * sizes.weights[c];
      sum += logarithms[c];
      ++used;
    }
    const double mean = used == 0 ? 0 : sum / static_cast<double>(used);
    for (std::size_t c = 0; c < count; ++c) logarithms[c] = sizes.used[c] ? logarithms[c] - mean : 0;
    if (heads.sharing > 1) average_over_heads(logarithms, heads);
    std::vector<float> factors(count);
    const double largest = std::log2(double{kLargestFactor});
    std::ranges::transform(logarithms, factors.begin(), [&](double logarithm) {
      return static_cast<float>(std::exp2(std::clamp(logarithm, -largest, largest)));
    });
    return factors;
  }

  static void average_over_heads(std::vector<double>& logarithms, const HeadSharing& heads) {
    const auto [size, sharing] = heads;
    for (std::size_t first = 0; first < logarithms.size(); first += sharing * size) {
      for (std::size_t i = 0; i < size; ++i) {
        double sum = 0;
        for (std::size_t head = 0; head < sharing; ++head) sum += logarithms[first + head * size + i];
        for (std::size_t head = 0; head < sharing; ++head) {
          logarithms[first + head * size + i] = sum / static_cast<double>(sharing);
        }
      }
    }
  }

  void apply(WorkingBlock& block, WorkingInput& input, const std::vector<float>& factors, WorkingNorm* norm,
             const Producer& matrix) const {
    std::vector<float> inverse(factors.size());
    std::ranges::transform(factors, inverse.begin(), [](float factor) { return 1 / factor; });
    for (const std::size_t reader : input.readers) {
      WorkingLinear& linear = block.linears[reader];
      const float bound = linear.absmax;
      scale_columns(linear, factors);
      linear.absmax = bound;
    }
    scale_channels(input.statistics->channels, inverse);
    if (norm != nullptr) {
      for (std::size_t c = 0; c < norm->gain.size(); ++c) norm->gain[c] *= inverse[c];
      for (std::size_t c = 0; c < norm->bias.size(); ++c) norm->bias[c] *= inverse[c];
      return;
    }
    scale_rows(*matrix.linear, of_rows(inverse, matrix.heads));
  }

  /// Returns the vector that repeat_for_heads expands to `repeated`.
  static std::vector<float> of_rows(const std::vector<float>& repeated, const HeadSharing& heads) {
    const auto [size, sharing] = heads;
    std::vector<float> factors(repeated.size() / sharing);
    for (std::size_t r = 0; r < factors.size(); ++r) factors[r] = repeated[r / size * sharing * size + r % size];
    return factors;
  }

  Recipe recipe_;
  ModelSpec spec_;
  std::shared_ptr<SmoothingFactors> chosen_;
  std::size_t inputs_ = 0;
  std::size_t smoothed_ = 0;
};

}  // namespace

std::unique_ptr<Pass> make_smooth(const Recipe& recipe, const ModelSpec& spec,
                                  std::shared_ptr<SmoothingFactors> chosen) {
  return std::make_unique<Smooth>(recipe, spec, std::move(chosen));
}

}  // namespace ballast::quant
