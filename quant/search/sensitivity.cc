#include "quant/search/sensitivity.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "ballast/error.h"
#include "quant/block/runnable_block.h"
#include "quant/measure/head_input.h"
#include "quant/measure/measure_inputs.h"
#include "quant/rounding/rounding.h"
#include "quant/search/candidates.h"
#include "quant/search/logit_rows.h"
#include "quant/search/output_error.h"

namespace ballast::quant {

namespace {

// The format of a matrix that is rounded for a probe: its error is large enough to exceed F32's, and small enough to be
// proportional.
constexpr WeightFormat kProbeFormat = {.bits = 4, .group_size = 32, .symmetric = false};

// The share of the loss of rounding the blocks' weights that remains after drift correction (docs/method.md).
constexpr double kShareLeftByDrift = 0.78;

/// Keeps matrices rounded to the probe's format during its lifetime.
class ProbeRounding {
 public:
  explicit ProbeRounding(std::span<WorkingLinear* const> linears) : linears_(linears) {
    for (WorkingLinear* linear : linears_) {
      linear->quantized =
          round_to_nearest(LinearValues(*linear).all(), linear->rows, linear->cols, kProbeFormat, {}, linear->absmax);
    }
  }
  ProbeRounding(const ProbeRounding&) = delete;
  ProbeRounding& operator=(const ProbeRounding&) = delete;
  ~ProbeRounding() {
    for (WorkingLinear* linear : linears_) linear->quantized.reset();
  }

 private:
  std::span<WorkingLinear* const> linears_;
};

/// Adds the cost of rounding a matrix's input to INT8.
void add_activation_costs(const WorkingLinear& linear, const InputPeaks& peaks, MatrixChoice& matrix) {
  const ActivationErrors errors(linear, peaks);
  matrix.outlier_gains = errors.gains();
  for (FormatOption& option : matrix.options) {
    option.activation_cost = errors.total(activation_group_size(option.format));
  }
}

/// Computes to += changed - unchanged.
void add_difference(std::span<float> to, std::span<const float> changed, std::span<const float> unchanged) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += changed[i] - unchanged[i];
}

/// Returns the squares of the change divided by those of the values: a sum over the tokens whose predictions are
/// compared.
double relative_error(const samples::StreamRows& changed, const samples::StreamRows& unchanged, std::size_t size,
                      const samples::SampleTokens& tokens) {
  double error = 0;
  for (std::size_t token = 0; token < unchanged.hidden.size() / size; ++token) {
    if (token % tokens.length < tokens.first_compared()) continue;
    double difference = 0;
    double whole = 0;
    for (std::size_t i = token * size; i < (token + 1) * size; ++i) {
      difference += std::pow(double{changed.hidden[i]} - double{unchanged.hidden[i]}, 2);
      whole += std::pow(double{unchanged.hidden[i]}, 2);
    }
    if (whole > 0) error += difference / whole;
  }
  return error;
}

/// Returns the cost of an error in each channel if only single channels were measured.
std::vector<float> channel_importance(const WorkingInput& input, model::Role role, std::size_t cols) {
  std::vector<float> equal(cols, 1.0F);
  if (!input.statistics) return equal;
  if (is_routed_expert(role)) return std::vector<float>(cols, 0.0F);  // no token was sent there: nothing is lost
  std::vector<float> importance = input.statistics->channels.mean_square;
  double mean = 0;
  for (const float value : importance) mean += double{value} / static_cast<double>(cols);
  if (!(mean > 0)) return equal;
  for (float& value : importance) value += static_cast<float>(kLeastDamping * mean);
  return importance;
}

/// Returns whether the embedding is also the head.
bool is_tied(const WorkingBlock& front) {
  return !front.inputs.empty();
}

/// Returns the readers of an input that have a free format.
std::vector<WorkingLinear*> free_readers(WorkingBlock& block, const WorkingInput& input) {
  std::vector<WorkingLinear*> linears;
  for (const std::size_t reader : input.readers) {
    if (block.linears[reader].free_format) linears.push_back(&block.linears[reader]);
  }
  return linears;
}

/// Frees the tables of `front`, so that models created later for their heads do not read vocabularies.
void forget_tables(WorkingBlock& front) {
  for (WorkingLinear& linear : front.linears) {
    if (linear.part.role == model::Role::kEmbedding || linear.part.role == model::Role::kTokenInputTable) {
      linear.load = nullptr;
    }
  }
}

}  // namespace

SensitivityAnalysis::SensitivityAnalysis(const ModelSpec& spec, const samples::SampleTokens& tokens,
                                         const SensitivityOptions& options)
    : spec_(spec),
      tokens_(tokens),
      options_(options),
      samples_(spec, tokens.length, options.check_cancelled),
      base_(spec, tokens.length, options.check_cancelled),
      copies_(spec, tokens.length, options.check_cancelled) {
  options_.probe_samples = std::min(options_.probe_samples, tokens.count());
}

void SensitivityAnalysis::add_input(WorkingBlock& block, const WorkingInput& input, BlockProbes& probes) {
  const std::vector<WorkingLinear*> linears = free_readers(block, input);
  if (linears.empty()) return;
  const std::size_t cols = linears.front()->cols;
  std::vector<float> importance = input.moments != nullptr
                                      ? column_importance(*input.moments, damping_for(*input.moments))
                                      : channel_importance(input, linears.front()->part.role, cols);
  for (float& value : importance) value = static_cast<float>(double{value} * input.routed_share);
  InputChoice choice{.cols = cols, .matrices = {}, .tied = options_.format->ties_formats()};
  if (is_routed_expert(linears.front()->part.role)) {
    choice.share = spec_.layers[*block.layer].mlp.expert_share();
  }
  bool holds_outliers = true;
  for (WorkingLinear* linear : linears) {
    if (options_.check_cancelled) options_.check_cancelled();
    BlockProbe& block_probe = probes[linear->part.role];
    block_probe.linears.push_back(linear);
    {
      const ProbeRounding rounding(std::span(&linear, 1));
      block_probe.probe.matrices.push_back(
          {.input = choices_.size(),
           .matrix = choice.matrices.size(),
           .error = input.routed_share * output_error(*linear, input.moments.get(), importance)});
    }

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
  const WeightRowSample sample(linear, every_nth_row(linear.rows, kFormatSampleRows));
  for (const ModulePlan& plan : candidate_plans(plan_linear(linear, matrix.id.layer), *options_.format)) {
    FormatOption option{.format = plan.format, .bytes = options_.format->bytes(plan), .column_costs = {}, .cost = 0};
    for (const double error : column_errors(sample, plan.format, importance)) {
      option.column_costs.push_back(static_cast<float>(error));
      option.cost += error;
    }
    matrix.options.push_back(std::move(option));
  }
  if (input.peaks != nullptr) add_activation_costs(linear, *input.peaks, matrix);
}

bool SensitivityAnalysis::is_own(std::size_t index) const {
  return index % options_.sharing.ranks->size() == options_.sharing.ranks->rank();
}

samples::StreamRows SensitivityAnalysis::run_probes(BlockProbes& probes,
                                                    const std::function<model::BlockWeights()>& weights,
                                                    std::size_t layer, const samples::StreamRows& before) {
  const samples::StreamRows& after = base_.rows();
  samples::StreamRows change = after.zeros();
  std::size_t turn = 0;
  for (auto& [role, block_probe] : probes) {
    samples::BlockRunner changed(spec_, tokens_.length);
    if (is_own(turn++)) {
      const ProbeRounding rounding(block_probe.linears);
      changed.rows() = before;
      changed.set_origin(base_);
      changed.advance(weights(), layer);
    } else {
      changed.resize(tokens_.first(options_.probe_samples));
    }
    // All ranks except one have zeros, so the sum is exact.
    for (const std::span<float> rows : changed.rows().all()) options_.sharing.ranks->sum(rows);
    block_probe.probe.stream_error = relative_error(changed.rows(), after, spec_.hidden_size, tokens_);
    for (std::size_t i = 0; i < change.all().size(); ++i) {
      add_difference(change.all()[i], changed.rows().all()[i], base_.rows().all()[i]);
    }
    if (options_.corrects_drift) block_probe.probe.share_kept = kShareLeftByDrift;
    probes_.push_back(std::move(block_probe.probe));
  }
  return change;
}

void SensitivityAnalysis::add_front(WorkingBlock& front) {
  const auto embedding = [&] { return runnable_embedding(front, spec_, run_with_int16); };
  const samples::SampleTokens probe_tokens = tokens_.first(options_.probe_samples);
  samples_.embed(embedding(), samples::own_samples(tokens_, options_.sharing));
  base_.embed(embedding(), probe_tokens);
  copies_.set_origin(base_);
  BlockProbes probes;
  if (is_tied(front)) {  // its effect is at the other end of the model: see finish()
    for (const WorkingInput& input : front.inputs) {
      for (WorkingLinear* linear : free_readers(front, input)) probes[linear->part.role].linears.push_back(linear);
    }
  } else {  // nothing reads through it
    WorkingInput table{.readers = {}, .norm = {}, .statistics = {}};
    for (std::size_t i = 0; i < front.linears.size(); ++i) {
      if (front.linears[i].part.role == model::Role::kEmbedding) table.readers.push_back(i);
    }
    add_input(front, table, probes);
    if (!choices_.empty()) choices_.back().most_outliers = 0;
  }
  for (auto& [role, block_probe] : probes) {
    if (is_own(front_roles_.size())) {
      const ProbeRounding rounding(block_probe.linears);
      copies_.embed(embedding(), probe_tokens);
    }
    front_roles_.push_back(role);
    probes_.push_back(std::move(block_probe.probe));
  }
  if (!is_tied(front)) forget_tables(front);  // their rows were read
}

void SensitivityAnalysis::add_block(WorkingBlock& block, std::size_t layer) {
  const auto weights = [&] { return model::assemble_block(spec_, layer, runnable_parts(block, spec_, run_decoded)); };
  const ActivationRoundings measured = rounding_over_tokens(tokens_.ids.size());
  measure_inputs(samples_, model::assemble_block(spec_, layer, runnable_parts(block, spec_, measured)), spec_, layer,
                 options_.sharing,
                 {.then = samples::BlockRunner::Then::kAdvance, .peaks = true, .shrink = options_.shrink_experts},
                 block);
  BlockProbes probes;
  for (const WorkingInput& input : block.inputs) add_input(block, input, probes);
  // No batch contains samples of two copies, so that sums in floats do not depend on the rank of a copy. They would
  // differ by much more than products in BF16 do.
  copies_.advance(model::assemble_block(spec_, layer, runnable_parts(block, spec_, measured)), layer,
                  options_.probe_samples);
  const samples::StreamRows before = base_.rows();
  base_.advance(weights(), layer);
  carry(run_probes(probes, weights, layer, before), layer);
}

std::size_t SensitivityAnalysis::group_of(std::size_t layer) const {
  return layer * std::min(kMostGroups, spec_.layers.size()) / spec_.layers.size();
}

void SensitivityAnalysis::carry(samples::StreamRows change, std::size_t layer) {
  const std::size_t group = group_of(layer);
  const bool begins = group == groups_.size();
  if (begins) groups_.push_back({.first_probe = groups_.empty() ? front_roles_.size() : groups_.back().end_probe});
  groups_.back().end_probe = probes_.size();
  if (!is_own(front_roles_.size() + group)) return;
  if (begins) copies_.rows().append(base_.rows());
  for (std::size_t part = 0; part < change.all().size(); ++part) {
    const std::span<const float> values = change.all()[part];
    float* last = copies_.rows().all()[part].last(values.size()).data();
    for (std::size_t i = 0; i < values.size(); ++i) last[i] += values[i];
  }
}

void SensitivityAnalysis::measure_divergences(WorkingBlock& front, WorkingBlock& back, BlockProbes& back_probes) {
  const auto plain = outer_weights(spec_, front, back);
  const std::size_t stream = base_.rows().hidden.size();
  const std::size_t in_front = front_roles_.size();
  // An embedding that is also the head is rounded in both places, and in the head alone, which gives the cost of
  // rounding its input. Otherwise its error is in the copies.
  const bool tied = is_tied(front);
  const std::size_t at_end = in_front + groups_.size();
  const std::size_t first_head = at_end + back_probes.size();
  const std::size_t models = first_head + (tied ? in_front : 0);
  std::vector<std::size_t>
      own;  // those of the changed models that this rank measures: in front, groups, at the end, heads
  std::vector<LogitRows> changed;
  const auto add = [&](std::size_t model, std::shared_ptr<const model::EmbeddingAndHead> outer,
                       std::span<const float> hidden) {
    changed.emplace_back(spec_, std::move(outer), hidden);
    own.push_back(model);
  };
  std::span<const float> copies = copies_.rows().hidden;
  for (std::size_t model = 0; model < at_end; ++model) {
    if (!is_own(model)) continue;
    const bool rounds_outer = tied && model < in_front;
    const std::vector<WorkingLinear*> rounded =
        rounds_outer ? front.find_all(front_roles_[model]) : std::vector<WorkingLinear*>();
    const ProbeRounding rounding(rounded);
    const auto outer = rounds_outer ? outer_weights(spec_, front, back) : plain;
    add(model, outer, copies.first(stream));
    copies = copies.subspan(stream);
    if (rounds_outer) add(first_head + model, outer, base_.rows().hidden);
  }
  const std::size_t first_at_end = probes_.size();
  std::size_t model = at_end;
  for (auto& [role, block_probe] : back_probes) {
    probes_.push_back(std::move(block_probe.probe));
    if (is_own(model)) {
      const ProbeRounding rounding(block_probe.linears);
      add(model, outer_weights(spec_, front, back), base_.rows().hidden);
    }
    ++model;
  }
  const LogitRows base(spec_, plain, base_.rows().hidden);
  TokenWeights weights(spec_.vocab_size);
  const std::vector<double> measured = mean_divergences(spec_, base, changed, tokens_, options_.probe_samples, weights);
  token_weights_ = is_own(0) ? weights.finish() : std::vector<double>(spec_.vocab_size);
  options_.sharing.ranks->sum(token_weights_);  // those of the first rank, so that all choose the same
  std::vector<double> divergences(models);
  for (std::size_t i = 0; i < own.size(); ++i) divergences[own[i]] = measured[i];
  options_.sharing.ranks->sum(divergences);  // each was measured by one rank: nothing is rounded
  for (std::size_t i = 0; i < in_front; ++i) {
    probes_[i].divergence = divergences[i];
    if (tied) probes_[i].head_divergence = divergences[first_head + i];
  }
  for (std::size_t i = first_at_end; i < probes_.size(); ++i) {
    probes_[i].divergence = divergences[at_end + i - first_at_end];
  }
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    const auto probes =
        std::span(probes_).subspan(groups_[group].first_probe, groups_[group].end_probe - groups_[group].first_probe);
    double error = 0;
    for (const Probe& probe : probes) error += probe.stream_error;
    if (error == 0) continue;
    for (Probe& probe : probes) probe.divergence = divergences[in_front + group] * probe.stream_error / error;
  }
}

double SensitivityAnalysis::weight_of_errors(const ModuleId& id) const {
  if (!is_vocabulary(id.role)) return 1;
  const std::vector<std::size_t> begins = vocabulary_ranges(token_weights_.size());
  if (id.expert + 1 >= begins.size()) return 1;
  const auto rows = std::span(token_weights_).subspan(begins[id.expert], begins[id.expert + 1] - begins[id.expert]);
  double sum = 0;
  for (const double weight : rows) sum += weight;
  return sum / static_cast<double>(rows.size());
}

void SensitivityAnalysis::set_costs(const Probe& probe) {
  if (!std::isfinite(probe.divergence) || !std::isfinite(probe.head_divergence.value_or(0))) {
    throw Error(choices_[probe.matrices.front().input].matrices.front().name,
                "the model gives values that are not finite when this matrix is rounded");
  }
  double error = 0;
  for (const auto& [input, matrix, own_error] : probe.matrices) {
    error += own_error * weight_of_errors(choices_[input].matrices[matrix].id);
  }
  // Matrices with values on the probe's grids show no error, and are treated as free.
  const auto cost_of = [&](double divergence) { return error == 0 ? 0 : divergence / error; };
  const double cost_of_error = cost_of(probe.divergence * probe.share_kept);
  const double cost_of_input_error = cost_of(probe.head_divergence.value_or(probe.divergence));
  for (const auto& [input, index, own_error] : probe.matrices) {
    MatrixChoice& matrix = choices_[input].matrices[index];
    const double weight = weight_of_errors(matrix.id);
    for (float& gain : matrix.outlier_gains) gain = static_cast<float>(double{gain} * weight * cost_of_input_error);
    for (FormatOption& option : matrix.options) {
      option.cost *= weight * cost_of_error;
      option.activation_cost *= weight * cost_of_input_error;
      for (float& cost : option.column_costs) cost = static_cast<float>(double{cost} * weight * cost_of_error);
    }
  }
}

void SensitivityAnalysis::measure_head(WorkingBlock& front, WorkingBlock& back) {
  WorkingBlock& block = is_tied(front) ? front : back;
  WorkingInput* input = block.head_input();
  if (!spec_.has_head || input == nullptr) return;
  const bool peaks = block.linears[input->readers.front()].activations == ActivationType::kInt8;
  const HeadInput measured = measure_head_input(spec_, back, samples_, options_.sharing, peaks);
  input->moments = measured.moments;
  input->peaks = measured.peaks;
  if (is_tied(front)) tied_head_moments_ = measured.moments;
}

std::vector<InputChoice> SensitivityAnalysis::finish(WorkingBlock& front, WorkingBlock& back) {
  measure_head(front, back);
  BlockProbes front_probes;
  for (const WorkingInput& input : front.inputs) add_input(front, input, front_probes);
  for (std::size_t i = 0; auto& [role, block_probe] : front_probes) probes_[i++] = std::move(block_probe.probe);
  BlockProbes probes;
  for (const WorkingInput& input : back.inputs) add_input(back, input, probes);
  measure_divergences(front, back, probes);
  for (const Probe& probe : probes_) set_costs(probe);
  return std::move(choices_);
}

}  // namespace ballast::quant
