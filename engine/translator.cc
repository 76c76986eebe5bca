#include "engine/translator.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "ballast/error.h"
#include "engine/beam_search.h"
#include "engine/source_text.h"
#include "kernels/parallel.h"

namespace ballast::engine {

namespace {

/// Throws Error for options that no search can have.
void check_options(const TranslateOptions& options, std::size_t vocab_size) {
  constexpr std::size_t kMostBeams = 256;
  if (options.beams == 0 || options.beams > kMostBeams) {
    throw Error("beams", "must be from 1 to " + std::to_string(kMostBeams));
  }
  if (options.hypotheses == 0 || options.hypotheses > options.beams) {
    throw Error("hypotheses", "must be from 1 to the number of beams, " + std::to_string(options.beams));
  }
  if (!(options.repetition_penalty >= 0.01 && options.repetition_penalty <= 100)) {
    throw Error("repetition_penalty", "must be from 0.01 to 100");
  }
  if (!std::isfinite(options.length_penalty)) throw Error("length_penalty", "must be a number");
  if (options.texts_at_once == 0) throw Error("texts_at_once", "must be at least 1");
  std::vector<int> forced = options.first_tokens;
  if (options.last_token) forced.push_back(*options.last_token);
  for (const int token : forced) {
    if (token >= 0 && static_cast<std::size_t>(token) < vocab_size) continue;
    throw Error("first_tokens and last_token", std::to_string(token) + " is not in the vocabulary");
  }
  for (const std::vector<int>& sequence : options.forbidden_sequences) {
    if (sequence.empty()) throw Error("forbidden_sequences", "one has no tokens");
  }
}

/// Writes texts from their sources, many at once: where one ends, the next begins.
class Translator {
 public:
  /// `start`: the token with which the decoder begins.
  Translator(const LoadedModel& model, const TranslateOptions& options, int start,
             std::span<const std::vector<int>> sources)
      : model_(model),
        options_(options),
        sources_(sources),
        start_{start},
        ends_(end_tokens(model)),
        results_(sources.size()) {
    const std::size_t room = model.model.context_length() - start_.size();
    most_tokens_ = options.max_tokens == 0 ? room : std::min(options.max_tokens, room);
    order_.resize(sources.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    // The longest come first, so that no long one is left alone at the end.
    std::ranges::stable_sort(order_, std::ranges::greater{}, [&](std::size_t i) { return sources[i].size(); });
  }

  std::vector<Translation> run(const Progress& progress) {
    while (begun_ < order_.size() || !running_.empty()) {
      // Encoders read several texts at once much faster than one.
      if (running_.size() <= options_.texts_at_once * 3 / 4) begin_texts();
      step();
      if (progress) progress("translating", ended_, order_.size());
    }
    return std::move(results_);
  }

 private:
  struct Text {
    std::size_t index;
    BeamSearch search;
    std::vector<Sequence> beams;
  };

  void begin_texts() {
    const std::size_t count = std::min(options_.texts_at_once - running_.size(), order_.size() - begun_);
    std::vector<model::TokenSpan> texts;
    std::vector<Sequence> sequences;
    for (std::size_t i = begun_; i < begun_ + count; ++i) {
      texts.emplace_back(sources_[order_[i]]);
      sequences.emplace_back(model_.model, CacheOptions{.type = options_.cache_type}, start_.size() + most_tokens_);
    }
    if (count == 0) return;
    auto encoded = model_.engine.encode(texts, sequences.front().state().cache().type());
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t index = order_[begun_ + i];
      sequences[i].set_source(std::move(encoded[i]));
      sequences[i].append(std::span<const int>(start_));
      results_[index].source_tokens = texts[i].size();
      Text& text = running_.emplace_back(
          Text{.index = index, .search = BeamSearch(options_, start_, ends_, most_tokens_), .beams = {}});
      text.beams.push_back(std::move(sequences[i]));
    }
    begun_ += count;
  }

  void step() {
    std::vector<Sequence*> sequences;
    for (Text& text : running_) {
      for (Sequence& beam : text.beams) sequences.push_back(&beam);
    }
    model_.engine.step(sequences);
    kernels::TaskFailure failure;
    kernels::parallel_tasks(running_.size(), kernels::available_threads(),
                            [&](std::size_t i, std::size_t) { failure.keep(i, [&] { advance(running_[i]); }); });
    failure.rethrow();
    std::erase_if(running_, [&](Text& text) {
      if (!text.search.ended()) return false;
      finish(text);
      return true;
    });
  }

  static void advance(Text& text) {
    std::vector<std::span<const float>> logits;
    for (const Sequence& beam : text.beams) logits.push_back(beam.logits());
    text.search.advance(logits);
    if (text.search.ended()) return;
    std::vector<std::size_t> children(text.beams.size());
    for (const BeamSearch::Beam& beam : text.search.beams()) ++children[beam.parent];
    std::vector<Sequence> given_up;  // their memory serves others
    for (std::size_t i = 0; i < children.size(); ++i) {
      if (children[i] == 0) given_up.push_back(std::move(text.beams[i]));
    }
    const auto copy = [&](const Sequence& parent) {
      if (given_up.empty()) return Sequence(parent.state(), parent.ids());
      Sequence child = std::move(given_up.back());
      given_up.pop_back();
      child.continue_from(parent);
      return child;
    };
    std::vector<Sequence> next;
    for (const BeamSearch::Beam& beam : text.search.beams()) {
      Sequence& parent = text.beams[beam.parent];
      // The last child takes the parent itself.
      next.push_back(--children[beam.parent] > 0 ? copy(parent) : std::move(parent));
      next.back().append(beam.tokens.back());
    }
    text.beams = std::move(next);
  }

  void finish(const Text& text) {
    Translation& result = results_[text.index];
    result.texts = text.search.results();
    for (WrittenText& written : result.texts) {
      if (model_.own_tokenizer != nullptr) written.text = text::decode(*model_.own_tokenizer, written.tokens);
    }
    ++ended_;
  }

  const LoadedModel& model_;
  const TranslateOptions& options_;
  std::span<const std::vector<int>> sources_;
  std::vector<int> start_;
  std::vector<int> ends_;
  std::size_t most_tokens_ = 0;
  std::vector<std::size_t> order_;
  std::size_t begun_ = 0;
  std::size_t ended_ = 0;
  std::vector<Text> running_;
  std::vector<Translation> results_;
};

}  // namespace

std::vector<Translation> translate(const LoadedModel& model, std::span<const std::vector<int>> sources,
                                   const TranslateOptions& options, const Progress& progress) {
  require_encoder(model);
  check_options(options, model.model.spec().vocab_size);
  return Translator(model, options, model.model.spec().encoder->start_token, sources).run(progress);
}

std::vector<Translation> translate_texts(const LoadedModel& model, std::span<const std::string> texts,
                                         const TranslateOptions& options, const Progress& progress) {
  require_encoder(model);
  std::vector<std::vector<int>> sources;
  for (const std::string& text : texts) sources.push_back(encode_source(model, text, options.source_language));
  TextStart start = start_in_language(model, options.target_language);
  TranslateOptions in_language = options;
  if (!start.first.empty()) in_language.first_tokens = std::move(start.first);
  check_options(in_language, model.model.spec().vocab_size);
  return Translator(model, in_language, start.token, sources).run(progress);
}

}  // namespace ballast::engine
