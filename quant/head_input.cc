#include "quant/head_input.h"

#include <optional>
#include <utility>
#include <vector>

#include "model/embedding_and_head.h"
#include "quant/runnable_block.h"

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

}  // namespace

HeadInput measure_head_input(const ModelSpec& spec, const WorkingBlock& back, const samples::BlockRunner& runner,
                             const samples::SampleSharing& sharing, bool peaks, const std::function<void()>& check) {
  const model::HeadPreparation preparation(spec, runnable_parts(back, spec, run_with_int16));
  const std::size_t size = spec.hidden_size;
  HessianSum moments(size, sharing.order);
  std::optional<PeakSum> peak_sum;
  if (peaks) peak_sum.emplace(size, sharing.order);
  std::vector<float> rows(runner.length() * size);
  kernels::QuantizedActivations scratch;
  const float* hidden = runner.rows().hidden.data();
  samples::for_each_shard(sharing, [&](std::size_t shard, jobs::IndexRange samples) {
    for (std::size_t i = samples.size(); i > 0; --i) {
      preparation.prepare(hidden, runner.length(), rows.data(), scratch);
      moments.add(rows.data(), runner.length());
      if (peak_sum) peak_sum->add(rows.data(), runner.length(), {});
      hidden += rows.size();
    }
    moments.end_shard(shard);
    if (peak_sum) peak_sum->end_shard(shard);
    if (check) check();
  });
  Hessian sum = moments.finish(*sharing.ranks);
  if (spec.tied_embeddings) add_table_share(sum);
  HeadInput input{.moments = std::make_shared<const Hessian>(std::move(sum)), .peaks = nullptr};
  if (peak_sum) input.peaks = std::make_shared<const InputPeaks>(peak_sum->finish(*sharing.ranks));
  return input;
}

}  // namespace ballast::quant
