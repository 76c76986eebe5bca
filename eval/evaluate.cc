#include "ballast/evaluate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "ballast/error.h"
#include "eval/scorer.h"
#include "kernels/logits.h"
#include "model/text_file.h"

namespace ballast {

namespace {

using Clock = std::chrono::steady_clock;

/// What is kept of every scored position.
struct Scores {
  std::vector<double> nll;
  std::vector<double> reference_nll;
  std::vector<double> kl;
  std::vector<std::uint8_t> same_top;
};

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// Standard error of exp(mean), from the values' variance by the delta method.
double perplexity_error(const std::vector<double>& nll) {
  if (nll.size() < 2) return 0;
  const double center = mean(nll);
  double squares = 0;
  for (const double value : nll) squares += (value - center) * (value - center);
  const auto count = static_cast<double>(nll.size());
  return std::exp(center) * std::sqrt(squares / (count - 1) / count);
}

double quantile(std::vector<double> values, double fraction) {
  const auto at = static_cast<std::ptrdiff_t>(fraction * static_cast<double>(values.size() - 1));
  std::ranges::nth_element(values, values.begin() + at);
  return values[static_cast<std::size_t>(at)];
}

// Tokens of a stream that pass the model at once.
constexpr std::size_t kStreamBatch = 512;

// Stretches of a stream whose perplexities are told apart.
constexpr std::size_t kStreamSegments = 50;

eval::SequenceRunner make_runner(model::Model& model, const EvaluateOptions& options, const CacheOptions& cache) {
  if (options.stream > 0) return {model, model.make_cache(cache, options.stream, kStreamBatch)};
  return {model, model.make_cache(cache, options.context, options.context)};
}

void check_options(const EvaluateOptions& options, const model::Model& model) {
  if (!model.spec().causal) {
    throw Error(model.source().checkpoint().path().string(),
                "is an encoder: it does not predict what comes next; compare it by verify");
  }
  if (options.stream > 0) {
    if (options.stream < 2) throw Error("stream", "must be at least 2 tokens");
    return;
  }
  if (options.cache.window > 0)
    throw Error("window", "only rolls along a stream: say how many tokens to score (--stream)");
  if (options.context < 4) throw Error("context", "must be at least 4 tokens");
  if (options.context > model.spec().context_length) {
    throw Error("context", std::to_string(options.context) + " is more than the model's " +
                               std::to_string(model.spec().context_length));
  }
}

class TextEvaluation {
 public:
  TextEvaluation(const std::filesystem::path& path, const EvaluateOptions& options, const Progress& progress)
      : options_(options), progress_(progress), model_(path) {
    check_options(options, model_);
    runner_.emplace(make_runner(model_, options, options.cache));
    if (!options.reference) return;
    reference_ = std::make_unique<model::Model>(*options.reference);
    if (reference_->spec().vocab_size != model_.spec().vocab_size) {
      throw Error(options.reference->string(), "has another vocabulary than the model it shall be compared with");
    }
    CacheOptions exact = options.cache;  // or the comparison would not see what the cache costs
    exact.type = CacheOptions::Type::kF32;
    reference_runner_.emplace(make_runner(*reference_, options, exact));
  }

  Evaluation run() {
    const std::vector<int> ids = read_ids();
    Evaluation result;
    if (options_.stream > 0) {
      result.chunks = 1;
      score_stream(std::span(ids).first(options_.stream));
      result.segments = segments();
      result.cache_bytes = runner_->cache().memory_bytes();
    } else {
      result.chunks = score_chunks(ids);
    }
    result.tokens = scores_.nll.size();
    result.ppl = std::exp(mean(scores_.nll));
    result.ppl_stderr = perplexity_error(scores_.nll);
    if (reference_) {
      result.reference_ppl = std::exp(mean(scores_.reference_nll));
      result.kl_mean = mean(scores_.kl);
      result.kl_p99 = quantile(scores_.kl, 0.99);
      const auto same = std::ranges::count(scores_.same_top, 1);
      result.top1_agreement = static_cast<double>(same) / static_cast<double>(result.tokens);
    }
    result.file_bytes = model_.source().checkpoint().file_bytes();
    result.bits_per_weight = 8.0 * static_cast<double>(result.file_bytes) / static_cast<double>(model_.all_weights());
    result.seconds = seconds_;
    return result;
  }

 private:
  std::vector<int> read_ids() {
    const auto tokenizer = model::require_tokenizer(model_.source());
    std::vector<int> ids = tokenizer->encode(model::read_text_file(options_.text_file));
    if (tokenizer->adds_bos()) bos_ = tokenizer->bos();
    if (bos_) ids.insert(ids.begin(), *bos_);
    const std::size_t least = options_.stream > 0 ? options_.stream : options_.context;
    if (ids.size() < least) {
      throw Error(options_.text_file.string(), "holds " + std::to_string(ids.size()) + " tokens, fewer than " +
                                                   (options_.stream > 0 ? "a stream of " : "one chunk of ") +
                                                   std::to_string(least));
    }
    return ids;
  }

  std::size_t score_chunks(const std::vector<int>& ids) {
    const std::size_t there = ids.size() / options_.context;
    const std::size_t chunks = options_.chunks == 0 ? there : std::min(there, options_.chunks);
    for (std::size_t i = 0; i < chunks; ++i) {
      std::vector<int> chunk(ids.begin() + static_cast<std::ptrdiff_t>(i * options_.context),
                             ids.begin() + static_cast<std::ptrdiff_t>((i + 1) * options_.context));
      score_chunk(chunk);
      if (progress_) progress_("evaluating", i + 1, chunks);
    }
    return chunks;
  }

  void score_chunk(std::vector<int>& chunk) {
    if (bos_) chunk.front() = *bos_;
    const Clock::time_point start = Clock::now();
    runner_->restart();
    runner_->run(chunk);
    if (reference_runner_) {
      reference_runner_->restart();
      reference_runner_->run(chunk);
    }
    // Position p predicts token p + 1; the last token of a chunk predicts what is not in it.
    score_run(std::span(chunk).subspan(1), options_.context / 2, options_.context - 1);
    seconds_ += std::chrono::duration<double>(Clock::now() - start).count();
  }

  // Every token from the second on, in the context of all before it that the cache still has.
  void score_stream(std::span<const int> ids) {
    const Clock::time_point start = Clock::now();
    for (std::size_t first = 0; first + 1 < ids.size(); first += kStreamBatch) {
      const std::size_t count = std::min(kStreamBatch, ids.size() - 1 - first);
      runner_->run(ids.subspan(first, count));
      if (reference_runner_) reference_runner_->run(ids.subspan(first, count));
      score_run(ids.subspan(first + 1, count), 0, count);
      if (progress_) progress_("evaluating", first + count, ids.size() - 1);
    }
    seconds_ += std::chrono::duration<double>(Clock::now() - start).count();
  }

  // Scores positions begin ... end - 1 of the last run; `next` holds the token behind each position.
  void score_run(std::span<const int> next, std::size_t begin, std::size_t end) {
    for (std::size_t first = begin; first < end; first += eval::kLogitRows) {
      const std::size_t count = std::min(eval::kLogitRows, end - first);
      const float* logits = runner_->logits(first, count).data();
      const float* reference = reference_runner_ ? reference_runner_->logits(first, count).data() : nullptr;
      score_rows(next.subspan(first, count), logits, reference);
    }
  }

  std::vector<StreamSegment> segments() const {
    const std::size_t size = (scores_.nll.size() + kStreamSegments - 1) / kStreamSegments;
    std::vector<StreamSegment> list;
    for (std::size_t first = 0; first < scores_.nll.size(); first += size) {
      const std::size_t count = std::min(size, scores_.nll.size() - first);
      const auto begin = scores_.nll.begin() + static_cast<std::ptrdiff_t>(first);
      const std::vector<double> part(begin, begin + static_cast<std::ptrdiff_t>(count));
      list.push_back({.first = first + 1, .tokens = count, .ppl = std::exp(mean(part))});
    }
    return list;
  }

  void score_rows(std::span<const int> targets, const float* logits, const float* reference) {
    const std::size_t vocab_size = model_.spec().vocab_size;
    const std::size_t begin = scores_.nll.size();
    const std::size_t end = begin + targets.size();
    scores_.nll.resize(end);
    if (reference != nullptr) {
      scores_.reference_nll.resize(end);
      scores_.kl.resize(end);
      scores_.same_top.resize(end);
    }
#pragma omp parallel for
    for (std::size_t i = 0; i < targets.size(); ++i) {
      const auto target = static_cast<std::size_t>(targets[i]);
      const float* row = logits + i * vocab_size;
      scores_.nll[begin + i] = kernels::log_sum_exp(row, vocab_size) - double{row[target]};
      if (reference == nullptr) continue;
      const float* expected = reference + i * vocab_size;
      scores_.reference_nll[begin + i] = kernels::log_sum_exp(expected, vocab_size) - double{expected[target]};
      scores_.kl[begin + i] = kernels::kl_divergence(expected, row, vocab_size);
      scores_.same_top[begin + i] = kernels::argmax(expected, vocab_size) == kernels::argmax(row, vocab_size) ? 1 : 0;
    }
    for (std::size_t i = begin; i < end; ++i) {
      if (!std::isfinite(scores_.nll[i])) {
        throw Error(model_.source().checkpoint().path().string(), "gives logits that are not finite");
      }
    }
  }

  const EvaluateOptions& options_;
  const Progress& progress_;
  model::Model model_;
  std::optional<eval::SequenceRunner> runner_;
  std::unique_ptr<model::Model> reference_;
  std::optional<eval::SequenceRunner> reference_runner_;
  std::optional<int> bos_;
  Scores scores_;
  double seconds_ = 0;
};

}  // namespace

Evaluation evaluate(const std::filesystem::path& model, const EvaluateOptions& options, const Progress& progress) {
  return TextEvaluation(model, options, progress).run();
}

std::string evaluation_json(const Evaluation& evaluation) {
  nlohmann::json result = {{"chunks", evaluation.chunks},
                           {"tokens", evaluation.tokens},
                           {"ppl", evaluation.ppl},
                           {"ppl_stderr", evaluation.ppl_stderr},
                           {"file_bytes", evaluation.file_bytes},
                           {"bits_per_weight", evaluation.bits_per_weight},
                           {"seconds", evaluation.seconds}};
  const auto add = [&](const char* name, const std::optional<double>& value) {
    if (value) result[name] = *value;
  };
  add("reference_ppl", evaluation.reference_ppl);
  add("kl_mean", evaluation.kl_mean);
  add("kl_p99", evaluation.kl_p99);
  add("top1_agreement", evaluation.top1_agreement);
  if (!evaluation.segments.empty()) {
    nlohmann::json segments = nlohmann::json::array();
    for (const StreamSegment& segment : evaluation.segments) {
      segments.push_back({{"first", segment.first}, {"tokens", segment.tokens}, {"ppl", segment.ppl}});
    }
    result["segments"] = segments;
    result["cache_bytes"] = evaluation.cache_bytes;
  }
  return result.dump();
}

}  // namespace ballast
