#include "calib/calibration_samples.h"

#include "ballast/error.h"
#include "calib/calibration_plan.h"
#include "jobs/sharded_sum.h"

namespace ballast::calib {

namespace {

void tell_plan(const model::ModelSource& source, const model::EmbeddingAndHead& outer, const CalibrateOptions& options,
               std::size_t samples, Ranks& ranks) {
  const JobPlan plan = plan_calibration(source, outer, options, samples, ranks);
  if (ranks.first() && options.on_plan) options.on_plan(plan);
}

}  // namespace

std::size_t fitting_length(std::size_t length, const ModelSpec& spec, std::size_t prefix) {
  constexpr std::size_t kUsual = 512;
  return std::min(length == 0 ? kUsual : length, spec.context_length - std::min(spec.context_length, prefix));
}

void check_options(const CalibrateOptions& options, const model::ModelSource& source, std::size_t prefix,
                   const Ranks& ranks) {
  if (options.samples == 0) throw Error("samples", "must be at least 1");
  if (options.length < 2) throw Error("length", "must be at least 2");
  const std::size_t context = source.spec().context_length - prefix;
  if (options.length > context) {
    throw Error("length",
                std::to_string(options.length) + " is more than the model's context of " + std::to_string(context));
  }
  jobs::check_sharing(options.samples, ranks);
}

ChosenSamples choose_samples(const std::shared_ptr<const model::ModelSource>& source,
                             const model::EmbeddingAndHead& outer, const CalibrateOptions& options, Ranks& ranks,
                             jobs::JobState* state, const Progress& progress) {
  if (options.text_files.empty()) {
    if (source->spec().causal && !source->spec().has_head) {
      throw Error(source->checkpoint().path().string(),
                  "has no head (lm_head.weight), which would write samples: calibrate with texts (--text FILE)");
    }
    tell_plan(*source, outer, options, options.samples, ranks);
    return {samples_from_model(source, options, ranks, state, progress), "sampled from the model"};
  }
  ChosenSamples chosen{samples_from_text(*model::require_tokenizer(*source), options), {}};
  for (const auto& path : options.text_files) {
    chosen.text += (chosen.text.empty() ? "" : ", ") + path.filename().string();
  }
  tell_plan(*source, outer, options, chosen.samples.size(), ranks);
  return chosen;
}

ChosenSamples samples_of(const Statistics& statistics) {
  ChosenSamples chosen{{}, statistics.text};
  for (auto ids = statistics.tokens.begin(); ids != statistics.tokens.end();) {
    const auto end = ids + static_cast<std::ptrdiff_t>(statistics.length);
    chosen.samples.emplace_back(ids, end);
    ids = end;
  }
  return chosen;
}

}  // namespace ballast::calib
