#include "quant/search/sensitivity.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "ballast/error.h"
#include "quant/rounding/rounding.h"
#include "quant/runnable_block.h"
#include "quant/search/candidates.h"
#include "quant/search/logit_rows.h"
#include "quant/search/output_error.h"

namespace ballast::quant {

namespace {

// What each matrix is rounded to alone: an error large enough to show above F32's, small enough to be in proportion.
constexpr WeightFormat kProbeFormat = {.bits = 4, .group_size = 32, .symmetric = false};

void round_to_probe(WorkingLinear& linear) {
  linear.quantized =
      round_to_nearest(LinearValues(linear).all(), linear.rows, linear.cols, kProbeFormat, {}, linear.absmax);
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

}  // namespace

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
  std::vector<float> importance = input.moments != nullptr
                                      ? factorize(*input.moments, {}, kDamping).importance
                                      : channel_importance(input, linears.front()->part.role, cols);
  for (float& value : importance) value = static_cast<float>(double{value} * input.routed_share);
  InputChoice choice{.cols = cols, .matrices = {}, .tied = options_.format->ties_formats()};
  if (is_routed_expert(linears.front()->part.role)) {
    choice.share = spec_.layers[*block.layer].mlp.expert_share();
  }
  bool holds_outliers = true;
  for (WorkingLinear* linear : linears) {
    BlockProbe& block_probe = probes[linear->part.role];
    block_probe.linears.push_back(linear);
    block_probe.probe.role = linear->part.role;
    block_probe.probe.matrices.emplace_back(choices_.size(), choice.matrices.size());
    round_to_probe(*linear);
    block_probe.probe.error += input.routed_share * output_error(*linear, input.moments.get(), importance);
    linear->quantized.reset();

    const std::uint64_t column_bytes = bytes_of_column(plan_linear(*linear, block.layer.value_or(0)), *options_.format);
    holds_outliers &= column_bytes > 0;
    choice.matrices.push_back({.id = block.id_of(*linear),
                               .name = linear->name,
                               .rows = linear->rows,
                               .options = {},
                               .column_bytes = column_bytes,
                               .outlier_gains = {}});
    add_options(*linear, input, importance, choice.matrices.back());
  }
  if (holds_outliers) {
    choice.most_outliers = static_cast<std::size_t>(options_.most_outliers * static_cast<double>(cols));
  }
  choices_.push_back(std::move(choice));
}

void SensitivityAnalysis::add_options(const WorkingLinear& linear, const WorkingInput& input,
                                      std::span<const float> importance, MatrixChoice& matrix) const {
  std::optional<ActivationErrors> activations;
  if (input.peaks != nullptr) activations.emplace(linear, *input.peaks);
  if (activations) matrix.outlier_gains = activations->gains();
  for (const ModulePlan& plan : candidate_plans(plan_linear(linear, matrix.id.layer), *options_.format)) {
    FormatOption option{.format = plan.format, .bytes = options_.format->bytes(plan), .column_costs = {}, .cost = 0};
    for (const double error : column_errors(linear, plan.format, importance)) {
      option.column_costs.push_back(static_cast<float>(error));
      option.cost += error;
    }
    if (activations) option.activation_cost = activations->total(activation_group_size(plan.format));
    matrix.options.push_back(std::move(option));
  }
}

bool SensitivityAnalysis::begin_probe(BlockProbe& block_probe) {
  probes_.push_back(std::move(block_probe.probe));
  return is_own(probes_.size() - 1);
}

bool SensitivityAnalysis::is_own(std::size_t probe) const {
  return probe % options_.sharing.ranks->size() == options_.sharing.ranks->rank();
}

void SensitivityAnalysis::add_front(WorkingBlock& front) {
  const auto embedding = [&] { return runnable_embedding(front, spec_, fine_rounding); };
  const SampleTokens probe_tokens = tokens_.first(options_.probe_samples);
  samples_.embed(embedding(), own_samples(tokens_, options_.sharing));
  base_.embed(embedding(), probe_tokens);
  streams_.set_origin(base_);
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
  samples_.measure(weights(), layer, options_.sharing, SampleStream::Then::kAdvance,
                   {.peaks = true, .shrink = options_.shrink_experts}, block);
  BlockProbes probes;
  for (const WorkingInput& input : block.inputs) add_input(block, input, probes);
  // No batch holds samples of two probes: which probes a rank has must not show in a float sum.
  streams_.advance(weights(), layer, options_.probe_samples);
  // Most blocks are alike: space for all at once.
  const std::size_t streams = spec_.layers.size() * probes.size() / options_.sharing.ranks->size() + 2;
  streams_.rows().hidden.reserve(streams * base_.rows().hidden.size());
  streams_.rows().shared_keys.reserve(streams * base_.rows().shared_keys.size());
  for (auto& [role, block_probe] : probes) {
    if (!begin_probe(block_probe)) continue;
    for (WorkingLinear* linear : block_probe.linears) round_to_probe(*linear);
    SampleStream changed(spec_, tokens_.length);
    changed.rows() = base_.rows();
    changed.set_origin(base_);
    changed.advance(weights(), layer);
    streams_.rows().append(changed.rows());
    for (WorkingLinear* linear : block_probe.linears) linear->quantized.reset();
  }
  base_.advance(weights(), layer);
}

void SensitivityAnalysis::measure_divergence(WorkingBlock& front, WorkingBlock& back, BlockProbes& back_probes) {
  const auto plain = outer_weights(spec_, front, back);
  const LogitRows base(spec_, plain, base_.rows().hidden);
  const std::size_t stream = base_.rows().hidden.size();
  std::vector<std::size_t> own;  // this rank's probes
  std::vector<LogitRows> changed;
  for (std::size_t i = 0; i < probes_.size(); ++i) {
    if (!is_own(i)) continue;
    // An embedding that is the head too was rounded in both places.
    WorkingLinear* rounded = probes_[i].in_front ? front.find(probes_[i].role) : nullptr;
    if (rounded != nullptr) round_to_probe(*rounded);
    const std::span<const float> hidden = std::span(streams_.rows().hidden).subspan(own.size() * stream, stream);
    changed.emplace_back(spec_, rounded != nullptr ? outer_weights(spec_, front, back) : plain, hidden);
    own.push_back(i);
    if (rounded != nullptr) rounded->quantized.reset();
  }
  for (auto& [role, block_probe] : back_probes) {
    if (!begin_probe(block_probe)) continue;
    for (WorkingLinear* linear : block_probe.linears) round_to_probe(*linear);
    changed.emplace_back(spec_, outer_weights(spec_, front, back), base_.rows().hidden);
    own.push_back(probes_.size() - 1);
    for (WorkingLinear* linear : block_probe.linears) linear->quantized.reset();
  }
  const std::vector<double> measured = mean_divergences(spec_, base, changed, tokens_, options_.probe_samples);
  std::vector<double> divergences(probes_.size());
  for (std::size_t i = 0; i < own.size(); ++i) divergences[own[i]] = measured[i];
  options_.sharing.ranks->sum(divergences);  // each was measured by one rank: nothing is rounded
  for (std::size_t i = 0; i < probes_.size(); ++i) set_costs(probes_[i], divergences[i]);
}

void SensitivityAnalysis::set_costs(const Probe& probe, double divergence) {
  if (!std::isfinite(divergence)) {
    throw Error(choices_[probe.matrices.front().first].matrices.front().name,
                "the model gives values that are not finite when this matrix is rounded");
  }
  // Matrices that lie on the probe's grids show nothing; they cost nothing in any format either.
  const double cost_of_error = probe.error == 0 ? 0 : divergence / probe.error;
  for (const auto& [input, matrix] : probe.matrices) {
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

std::vector<InputChoice> SensitivityAnalysis::finish(WorkingBlock& front, WorkingBlock& back) {
  BlockProbes probes;
  for (const WorkingInput& input : back.inputs) add_input(back, input, probes);
  measure_divergence(front, back, probes);
  return std::move(choices_);
}

}  // namespace ballast::quant
