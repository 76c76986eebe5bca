#include "quant/search/sensitivity.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "ballast/error.h"
#include "kernels/logits.h"
#include "kernels/matrix/float_matrix.h"
#include "quant/rounding/rounding.h"
#include "quant/runnable_block.h"
#include "quant/search/output_error.h"

namespace ballast::quant {

namespace {

// What each matrix is rounded to alone: an error large enough to show above F32's, small enough to be in proportion.
constexpr WeightFormat kProbeFormat = {.bits = 4, .group_size = 32, .symmetric = false};

std::uint64_t bytes_of(const WorkingLinear& linear, const WeightFormat& format) {
  const std::uint64_t rows = linear.rows;
  const std::uint64_t groups = (linear.cols + format.group_size - 1) / format.group_size;
  std::uint64_t bytes = rows * packed_row_bytes(linear.cols, format.bits);
  bytes += format.scale_bits == 8 ? rows * (groups + 2) : rows * groups * 2;
  if (!format.symmetric) bytes += rows * packed_row_bytes(groups, format.bits);
  return bytes;
}

void round_to_probe(WorkingLinear& linear) {
  linear.quantized = round_to_nearest(linear.values, linear.rows, linear.cols, kProbeFormat, {}, linear.absmax);
}

/// What an error in each channel costs when nothing was measured but single channels.
std::vector<float> channel_importance(const WorkingInput& input, model::Role role, std::size_t cols) {
  std::vector<float> equal(cols, 1.0F);
  if (!input.statistics) return equal;
  if (is_routed_expert(role)) return std::vector<float>(cols, 0.0F);  // no token was sent there: nothing is lost
  std::vector<float> importance = input.statistics->channels.mean_square;
  double mean = 0;
  for (const float value : importance) mean += double{value} / static_cast<double>(cols);
  if (!(mean > 0)) return equal;
  for (float& value : importance) value += static_cast<float>(kDamping * mean);
  return importance;
}

// Positions whose logits are compared at once.
constexpr std::size_t kLogitRows = 64;

struct LogitScratch {
  kernels::QuantizedActivations activations;
  std::vector<float> prepared;
  std::vector<float> logits;
};

/// Logits of some positions at a time, from the last block's output.
class LogitRows {
 public:
  LogitRows(const ModelSpec& spec, std::shared_ptr<const model::OuterWeights> outer, std::span<const float> hidden)
      : spec_(&spec), outer_(std::move(outer)), hidden_(hidden) {}

  /// Valid as long as the scratch is not used again.
  std::span<const float> compute(std::size_t first, std::size_t count, LogitScratch& scratch) const {
    scratch.prepared.resize(count * spec_->hidden_size);
    scratch.logits.resize(count * spec_->vocab_size);
    outer_->prepare_head(hidden_.data() + first * spec_->hidden_size, count, scratch.prepared.data(),
                         scratch.activations);
    outer_->head(scratch.prepared.data(), count, scratch.logits.data(), scratch.activations);
    return scratch.logits;
  }

 private:
  const ModelSpec* spec_;
  std::shared_ptr<const model::OuterWeights> outer_;
  std::span<const float> hidden_;
};

/// The parts before the blocks and behind them.
model::BlockParts joint_parts(const WorkingBlock& front, const WorkingBlock& back, const ModelSpec& spec) {
  const auto has = [](const auto& list, const auto& key, auto field) {
    return std::ranges::find(list, key, field) != list.end();
  };
  const model::BlockParts before = runnable_parts(front, spec, fine_rounding);
  const model::BlockParts behind = runnable_parts(back, spec, fine_rounding);
  return {.linear =
              [&front, has, before, behind](model::Part part) {
                return has(front.linears, part, &WorkingLinear::part) ? before.linear(part) : behind.linear(part);
              },
          .norm =
              [&front, has, before, behind](model::Role role) {
                return has(front.norms, role, &WorkingNorm::role) ? before.norm(role) : behind.norm(role);
              },
          .vector = behind.vector};
}

}  // namespace

std::vector<WeightFormat> candidate_formats() {
  std::vector<WeightFormat> formats;
  for (const std::size_t group_size : {std::size_t{32}, std::size_t{64}, std::size_t{128}}) {
    for (const int bits : {4, 5, 6, 8}) {
      formats.push_back({.bits = bits, .group_size = group_size, .symmetric = bits == 8, .scale_bits = 8});
    }
  }
  return formats;
}

SensitivityAnalysis::SensitivityAnalysis(const ModelSpec& spec, const SampleTokens& tokens,
                                         const SensitivityOptions& options)
    : spec_(spec),
      tokens_(tokens),
      options_(options),
      samples_(spec, tokens.length, options.check_cancelled),
      base_(spec, tokens.length, options.check_cancelled),
      streams_(spec, tokens.length, options.check_cancelled) {
  options_.probe_samples = std::min(options_.probe_samples, tokens.count());
}

void SensitivityAnalysis::add_input(WorkingBlock& block, const WorkingInput& input, BlockProbes& probes) {
  std::vector<WorkingLinear*> linears;
  for (const std::size_t reader : input.readers) {
    if (block.linears[reader].free_format) linears.push_back(&block.linears[reader]);
  }
  if (linears.empty()) return;
  const std::size_t cols = linears.front()->cols;
  const std::vector<float> importance = input.moments != nullptr
                                            ? factorize(*input.moments, {}, kDamping).importance
                                            : channel_importance(input, linears.front()->part.role, cols);
  InputChoice choice{.cols = cols, .matrices = {}, .most_outliers = 0};
  if (is_routed_expert(linears.front()->part.role)) {
    choice.share = spec_.layers[*block.layer].mlp.expert_share();
  }
  choice.most_outliers = static_cast<std::size_t>(options_.most_outliers * static_cast<double>(cols));
  for (WorkingLinear* linear : linears) {
    BlockProbe& block_probe = probes[linear->part.role];
    block_probe.linears.push_back(linear);
    block_probe.probe.role = linear->part.role;
    block_probe.probe.matrices.emplace_back(choices_.size(), choice.matrices.size());
    round_to_probe(*linear);
    block_probe.probe.error += output_error(*linear, input.moments.get(), importance);
    linear->quantized.reset();

    MatrixChoice& matrix = choice.matrices.emplace_back();
    matrix.name = linear->name;
    matrix.rows = linear->rows;
    std::optional<ActivationErrors> activations;
    if (input.peaks != nullptr) activations.emplace(*linear, *input.peaks);
    if (activations) matrix.outlier_gains = activations->gains();
    for (const WeightFormat& format : candidate_formats()) {
      FormatOption option{.format = format, .bytes = bytes_of(*linear, format), .column_costs = {}, .cost = 0};
      for (const double error : column_errors(*linear, format, importance)) {
        option.column_costs.push_back(static_cast<float>(error));
        option.cost += error;
      }
      if (activations) option.activation_cost = activations->total(format.group_size);
      matrix.options.push_back(std::move(option));
    }
  }
  choices_.push_back(std::move(choice));
}

bool SensitivityAnalysis::begin_probe(BlockProbe& block_probe) {
  probes_.push_back(std::move(block_probe.probe));
  return is_own(probes_.size() - 1);
}

bool SensitivityAnalysis::is_own(std::size_t probe) const {
  return probe % options_.sharing.ranks->size() == options_.sharing.ranks->rank();
}

void SensitivityAnalysis::add_front(WorkingBlock& front) {
  const auto embedding = [&] { return model::Embedding(spec_, runnable_parts(front, spec_, fine_rounding)); };
  const SampleTokens probe_tokens = tokens_.first(options_.probe_samples);
  samples_.embed(embedding(), own_samples(tokens_, options_.sharing));
  base_.embed(embedding(), probe_tokens);
  BlockProbes probes;
  if (front.inputs.empty()) {  // the embedding is no head: nothing reads through it
    WorkingInput table{.readers = {0}, .norm = {}, .statistics = {}};
    add_input(front, table, probes);
    if (!choices_.empty()) choices_.back().most_outliers = 0;
  }
  for (const WorkingInput& input : front.inputs) add_input(front, input, probes);
  for (auto& [role, block_probe] : probes) {
    block_probe.probe.in_front = true;
    if (begin_probe(block_probe)) {
      for (WorkingLinear* linear : block_probe.linears) round_to_probe(*linear);
      streams_.embed(embedding(), probe_tokens);
      for (WorkingLinear* linear : block_probe.linears) linear->quantized.reset();
    }
  }
}

void SensitivityAnalysis::add_block(WorkingBlock& block, std::size_t layer) {
  const auto weights = [&] { return model::assemble_block(spec_, layer, runnable_parts(block, spec_, fine_rounding)); };
  samples_.measure(weights(), layer, options_.sharing, SampleStream::Then::kAdvance, SampleStream::What::kAlsoPeaks,
                   block);
  BlockProbes probes;
  for (const WorkingInput& input : block.inputs) add_input(block, input, probes);
  // No batch holds samples of two probes: which probes a rank has must not show in a float sum.
  streams_.advance(weights(), layer, options_.probe_samples);
  // Most blocks are alike: space for all at once.
  streams_.hidden().reserve((spec_.layers.size() * probes.size() / options_.sharing.ranks->size() + 2) *
                            base_.hidden().size());
  for (auto& [role, block_probe] : probes) {
    if (!begin_probe(block_probe)) continue;
    for (WorkingLinear* linear : block_probe.linears) round_to_probe(*linear);
    SampleStream changed(spec_, tokens_.length);
    changed.hidden() = base_.hidden();
    changed.advance(weights(), layer);
    streams_.hidden().insert(streams_.hidden().end(), changed.hidden().begin(), changed.hidden().end());
    for (WorkingLinear* linear : block_probe.linears) linear->quantized.reset();
  }
  base_.advance(weights(), layer);
}

void SensitivityAnalysis::measure_divergence(WorkingBlock& front, WorkingBlock& back, BlockProbes& back_probes) {
  const auto outer = [&] {
    return std::make_shared<const model::OuterWeights>(spec_, joint_parts(front, back, spec_));
  };
  const auto plain = outer();
  LogitRows base(spec_, plain, base_.hidden());
  const std::size_t stream = base_.hidden().size();
  std::vector<std::pair<std::size_t, LogitRows>> changed;  // this rank's probes
  for (std::size_t i = 0; i < probes_.size(); ++i) {
    if (!is_own(i)) continue;
    // An embedding that is the head too was rounded in both places.
    WorkingLinear* rounded = probes_[i].in_front ? front.find(probes_[i].role) : nullptr;
    if (rounded != nullptr) round_to_probe(*rounded);
    const std::span<const float> hidden = std::span(streams_.hidden()).subspan(changed.size() * stream, stream);
    changed.emplace_back(i, LogitRows(spec_, rounded != nullptr ? outer() : plain, hidden));
    if (rounded != nullptr) rounded->quantized.reset();
  }
  for (auto& [role, block_probe] : back_probes) {
    if (!begin_probe(block_probe)) continue;
    for (WorkingLinear* linear : block_probe.linears) round_to_probe(*linear);
    changed.emplace_back(probes_.size() - 1, LogitRows(spec_, outer(), base_.hidden()));
    for (WorkingLinear* linear : block_probe.linears) linear->quantized.reset();
  }

  std::vector<double> divergence(probes_.size());
  std::vector<double> row_divergence(kLogitRows);
  LogitScratch base_scratch;
  LogitScratch scratch;
  std::size_t scored = 0;
  for (std::size_t sample = 0; sample < options_.probe_samples; ++sample) {
    // As in evaluation, where little has been read yet says little.
    for (std::size_t position = tokens_.prefix + (tokens_.length - tokens_.prefix) / 2; position < tokens_.length;
         position += kLogitRows) {
      const std::size_t count = std::min(kLogitRows, tokens_.length - position);
      const std::size_t first = sample * tokens_.length + position;
      const std::span<const float> expected = base.compute(first, count, base_scratch);
      for (auto& [probe, rows] : changed) {
        const std::span<const float> logits = rows.compute(first, count, scratch);
#pragma omp parallel for
        for (std::size_t r = 0; r < count; ++r) {
          row_divergence[r] = kernels::kl_divergence(expected.data() + r * spec_.vocab_size,
                                                     logits.data() + r * spec_.vocab_size, spec_.vocab_size);
        }
        for (std::size_t r = 0; r < count; ++r) divergence[probe] += row_divergence[r];
      }
      scored += count;
    }
  }
  options_.sharing.ranks->sum(divergence);  // each was measured by one rank: nothing is rounded
  for (std::size_t i = 0; i < probes_.size(); ++i) {
    if (!std::isfinite(divergence[i])) {
      throw Error(choices_[probes_[i].matrices.front().first].matrices.front().name,
                  "the model gives values that are not finite when this matrix is rounded");
    }
    // Matrices that lie on the probe's grids show nothing; they cost nothing in any format either.
    const double error = probes_[i].error;
    const double cost_of_error = error == 0 ? 0 : divergence[i] / static_cast<double>(scored) / error;
    for (const auto& [input, matrix] : probes_[i].matrices) {
      for (float& gain : choices_[input].matrices[matrix].outlier_gains) {
        gain = static_cast<float>(double{gain} * cost_of_error);
      }
      for (FormatOption& option : choices_[input].matrices[matrix].options) {
        option.cost *= cost_of_error;
        option.activation_cost *= cost_of_error;
        for (float& cost : option.column_costs) cost = static_cast<float>(double{cost} * cost_of_error);
      }
    }
  }
}

std::vector<InputChoice> SensitivityAnalysis::finish(WorkingBlock& front, WorkingBlock& back) {
  BlockProbes probes;
  for (const WorkingInput& input : back.inputs) add_input(back, input, probes);
  measure_divergence(front, back, probes);
  return std::move(choices_);
}

}  // namespace ballast::quant
