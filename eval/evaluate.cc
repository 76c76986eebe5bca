#include "ballast/evaluate.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "ballast/error.h"
#include "eval/position_scores.h"
#include "eval/reference_logits.h"
#include "eval/scorer.h"
#include "eval/text_chunks.h"
#include "eval/token_scores.h"
#include "files/text_file.h"
#include "jobs/common_failure.h"
#include "jobs/sharded_sum.h"
#include "kernels/clock.h"
#include "model/model.h"
#include "model/structure/block_structure.h"

namespace ballast {

namespace {

using kernels::Clock;

// Tokens of a stream per forward pass.
constexpr std::size_t kStreamBatch = 512;
static_assert(kStreamBatch % eval::kLogitRows == 0);

eval::SequenceRunner make_runner(const model::Model& model, const EvaluateOptions& options, const CacheOptions& cache,
                                 std::shared_ptr<const model::Adapter> adapter = nullptr) {
  const std::size_t capacity = options.stream > 0 ? options.stream : options.context;
  return {model, model.make_state(cache, capacity, std::move(adapter))};
}

void check_options(const EvaluateOptions& options, const model::ModelSource& source) {
  if (!options.reference) {
    if (options.worst > 0) throw Error("worst", "lists what diverges most from a reference: name one");
    if (options.reference_cache) throw Error("reference cache", "keeps a reference's logits: name a reference");
  }
  if (options.stream > 0) {
    if (source.spec().encoder) throw Error("stream", "is one text, and the model reads a source text before each");
    if (options.stream < 2) throw Error("stream", "must be at least 2 tokens");
    if (options.reference_cache) throw Error("reference cache", "keeps logits of chunks, not of a stream");
    if (ranks_or_single(options.ranks).size() > 1) throw Error("stream", "is one sequence, which ranks cannot share");
    return;
  }
  if (options.cache.window > 0)
    throw Error("window", "only rolls along a stream: say how many tokens to score (--stream)");
  eval::check_chunk_size(options.context, source.context_length());
}

void require_causal(const model::ModelSource& source) {
  if (source.spec().causal && !source.spec().has_head) {
    throw Error(source.checkpoint().path().string(), std::string(model::kNoHead) + ": compare these (eval --vectors)");
  }
  if (source.spec().causal) return;
  throw Error(source.checkpoint().path().string(),
              "is an encoder: it does not predict what comes next; compare the vectors of texts (eval --vectors)");
}

/// Opens a model with a context that is long enough for the chunks or the stream, if it can be extended.
std::unique_ptr<model::ModelSource> open_source(const std::filesystem::path& path, const EvaluateOptions& options) {
  auto source = std::make_unique<model::ModelSource>(path);
  if (options.cache.window == 0) source->lengthen_for(options.stream > 0 ? options.stream : options.context);
  return source;
}

std::unique_ptr<model::ModelSource> open_reference(const EvaluateOptions& options, const model::ModelSource& source) {
  if (!options.reference) return nullptr;
  std::unique_ptr<model::ModelSource> reference = open_source(*options.reference, options);
  if (reference->spec().vocab_size != source.spec().vocab_size) {
    throw Error(options.reference->string(), "has another vocabulary than the model it is compared with");
  }
  return reference;
}

eval::TextChunks cut_text(std::string_view text, const text::Tokenizer& tokenizer, const EvaluateOptions& options) {
  const bool stream = options.stream > 0;
  eval::TextChunks chunks = eval::cut_text(text, options.text_file.string(), tokenizer,
                                           stream ? options.stream : options.context, stream ? 1 : options.chunks);
  chunks.headline = stream ? 0 : options.context / 2;
  chunks.first = options.per_position ? 0 : chunks.headline;
  return chunks;
}

/// The scores of a rank, with facts about the models for the result.
struct OwnScores {
  std::vector<eval::TokenScore> scores;  ///< [chunks][positions]
  double seconds = 0;                    ///< in the forward passes
  std::size_t cache_bytes = 0;
  std::uint64_t weights = 0;
  std::optional<ExpertFigures> experts;
};

/// Scores chunks.
class ChunkScorer {
 public:
  /// `reference` may be null. Weights are loaded after all checks.
  ChunkScorer(std::unique_ptr<model::ModelSource> source, std::unique_ptr<model::ModelSource> reference,
              const eval::TextChunks& chunks, const EvaluateOptions& options, const Progress& progress)
      : options_(options),
        progress_(progress),
        chunks_(chunks),
        model_(std::move(source), model::FloatLayout::kRows, options.model),
        runner_(make_runner(model_, options, options.cache, model_.load_adapter(options.adapter))) {
    own_.scores.resize(chunks_.count() * chunks_.positions());
    if (reference) prepare_reference(std::move(reference));
  }

  OwnScores run() {
    if (options_.stream > 0) {
      score_stream();
      own_.cache_bytes = runner_.state().memory_bytes();
    } else {
      for (std::size_t i = 0; i < chunks_.count(); ++i) {
        score_chunk(i);
        if (progress_) progress_("evaluating", i + 1, chunks_.count());
      }
    }
    own_.weights = model::count_weights(model_.spec());
    own_.experts = model_.expert_figures();
    return std::move(own_);
  }

 private:
  void prepare_reference(std::unique_ptr<model::ModelSource> source) {
    if (chunks_.count() == 0) return;
    if (options_.reference_cache) {
      stored_reference_.emplace(*options_.reference_cache, std::move(source), options_.model.compute, chunks_,
                                progress_);
      return;
    }
    reference_ = std::make_unique<model::Model>(std::move(source), model::FloatLayout::kRows,
                                                model::all_floats(options_.model.compute));
    CacheOptions exact = options_.cache;  // so that the comparison includes the effect of the cache
    exact.type = CacheOptions::Type::kF32;
    reference_runner_.emplace(make_runner(*reference_, options_, exact));
  }

  void score_chunk(std::size_t i) {
    const Clock::time_point start = Clock::now();
    runner_.run_chunk(chunks_, i);
    if (reference_runner_) reference_runner_->run_chunk(chunks_, i);
    for (const eval::PositionRun& run : chunks_.runs()) score_run(i, 0, run);
    own_.seconds += kernels::seconds_since(start);
  }

  // Scores every token from the second on, with all tokens before it that are still in the cache.
  void score_stream() {
    const Clock::time_point start = Clock::now();
    const std::span<const int> ids = chunks_.ids;
    std::size_t batch = 0;
    std::size_t batch_end = 0;
    for (const eval::PositionRun& run : chunks_.runs()) {
      if (run.first == batch_end) {
        batch = batch_end;
        batch_end = std::min(batch + kStreamBatch, chunks_.end());
        runner_.run(ids.subspan(batch, batch_end - batch));
        if (reference_runner_) reference_runner_->run(ids.subspan(batch, batch_end - batch));
      }
      score_run(0, batch, run);
      if (progress_) progress_("evaluating", run.first + run.count, chunks_.end());
    }
    own_.seconds += kernels::seconds_since(start);
  }

  // Scores positions of the last forward pass, whose first token is at `offset` in the chunk.
  void score_run(std::size_t chunk, std::size_t offset, const eval::PositionRun& run) {
    const std::size_t at = run.first - offset;
    const float* logits = runner_.logits(at, run.count).data();
    const float* reference = nullptr;
    if (reference_runner_) reference = reference_runner_->logits(at, run.count).data();
    if (stored_reference_) reference = stored_reference_->rows(chunk, run);
    const std::span<const int> next = chunks_.chunk(chunk).subspan(run.first + 1, run.count);
    eval::TokenScore* dst = own_.scores.data() + chunk * chunks_.positions() + (run.first - chunks_.first);
    if (eval::score_rows(next, logits, reference, model_.spec().vocab_size, dst)) return;
    throw Error(model_.source().checkpoint().path().string(),
                options_.reference ? "gives logits that are not finite, or its reference does"
                                   : "gives logits that are not finite");
  }

  const EvaluateOptions& options_;
  const Progress& progress_;
  const eval::TextChunks& chunks_;
  model::Model model_;
  eval::SequenceRunner runner_;
  std::unique_ptr<model::Model> reference_;  ///< null if its logits are stored
  std::optional<eval::SequenceRunner> reference_runner_;
  std::optional<eval::ReferenceLogits> stored_reference_;
  OwnScores own_;
};

/// Gathers the scores of all ranks, in the order of chunks, on each of them. The seconds are those of the slowest rank.
OwnScores gather_scores(OwnScores own, Ranks& ranks) {
  if (ranks.size() == 1) return own;
  const auto bytes = std::as_bytes(std::span(own.scores));
  const std::vector<std::string> parts =
      ranks.gather(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  std::string all;
  for (const std::string& part : parts) all += part;
  own.scores.resize(all.size() / sizeof(eval::TokenScore));
  std::memcpy(own.scores.data(), all.data(), all.size());
  auto seconds = static_cast<float>(own.seconds);
  ranks.maximum(std::span(&seconds, 1));
  own.seconds = seconds;
  if (own.experts) {
    std::array<std::uint64_t, 3> counts = {own.experts->used, own.experts->found, own.experts->loaded_bytes};
    ranks.sum(counts);
    own.experts->used = counts[0];
    own.experts->found = counts[1];
    own.experts->loaded_bytes = counts[2];
  }
  return own;
}

std::vector<eval::TokenScore> headline_scores(const eval::TextChunks& chunks, std::span<const eval::TokenScore> all) {
  std::vector<eval::TokenScore> scores;
  for (std::size_t i = 0; i < chunks.count(); ++i) {
    const auto scored = all.subspan(i * chunks.positions(), chunks.positions()).subspan(chunks.headline - chunks.first);
    scores.insert(scores.end(), scored.begin(), scored.end());
  }
  return scores;
}

Evaluation evaluation_of(const eval::TextChunks& chunks, const OwnScores& all, std::uint64_t file_bytes,
                         const EvaluateOptions& options, const text::Tokenizer& tokenizer) {
  const bool has_reference = options.reference.has_value();
  Evaluation result;
  result.chunks = chunks.count();
  if (options.stream > 0) result.segments = eval::stream_segments(all.scores, has_reference);
  result.cache_bytes = all.cache_bytes;
  eval::summarize(headline_scores(chunks, all.scores), has_reference, result);
  if (options.per_position) result.positions = eval::position_ranges(chunks, all.scores, has_reference);
  result.worst = eval::most_divergent(chunks, all.scores, options.worst, tokenizer);
  result.file_bytes = file_bytes;
  result.bits_per_weight = 8.0 * static_cast<double>(file_bytes) / static_cast<double>(all.weights);
  result.seconds = all.seconds;
  result.experts = all.experts;
  return result;
}

/// The models and the text of an evaluation.
struct EvaluationInput {
  std::unique_ptr<model::ModelSource> source;
  std::unique_ptr<model::ModelSource> reference;  ///< or null
  std::unique_ptr<text::Tokenizer> tokenizer;
  eval::TextChunks chunks;
};

EvaluationInput read_input(const std::filesystem::path& model, const EvaluateOptions& options) {
  EvaluationInput input{.source = open_source(model, options), .reference = {}, .tokenizer = {}, .chunks = {}};
  require_causal(*input.source);
  const std::string text = files::read_text_file(options.text_file);
  check_options(options, *input.source);
  input.reference = open_reference(options, *input.source);
  input.tokenizer = model::require_tokenizer(*input.source);
  input.chunks = cut_text(text, *input.tokenizer, options);
  if (const std::optional<EncoderSpec>& encoder = input.source->spec().encoder) {
    eval::begin_with(encoder->start_token, input.tokenizer->source_frame(""), input.chunks);
  }
  return input;
}

}  // namespace

Evaluation evaluate(const std::filesystem::path& model, const EvaluateOptions& options, const Progress& progress) {
  Ranks& ranks = ranks_or_single(options.ranks);
  EvaluationInput input = jobs::fail_together(ranks, [&] { return read_input(model, options); });
  const std::uint64_t file_bytes = input.source->checkpoint().file_bytes();
  const jobs::IndexRange own = jobs::even_part(input.chunks.count(), ranks.rank(), ranks.size());
  const eval::TextChunks own_chunks = input.chunks.part(own.begin, own.end);
  const OwnScores scores = jobs::fail_together(ranks, [&] {
    return ChunkScorer(std::move(input.source), std::move(input.reference), own_chunks, options, progress).run();
  });
  return evaluation_of(input.chunks, gather_scores(scores, ranks), file_bytes, options, *input.tokenizer);
}

}  // namespace ballast
