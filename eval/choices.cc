#include "ballast/choices.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "ballast/error.h"
#include "eval/questions.h"
#include "eval/scorer.h"
#include "files/utf8.h"
#include "kernels/clock.h"
#include "kernels/logits.h"
#include "model/model.h"
#include "model/structure/block_structure.h"

namespace ballast {
namespace {

using kernels::Clock;

/// A question as token ids.
struct Task {
  std::vector<eval::ContinuationIds> choices;
  std::vector<double> lengths;  ///< characters of each choice
  std::size_t answer = 0;
};

std::vector<Task> encode_questions(const std::vector<eval::Question>& questions, const text::Tokenizer& tokenizer,
                                   const std::string& delimiter, std::size_t context_length) {
  std::vector<Task> tasks;
  for (const eval::Question& question : questions) {
    Task& task = tasks.emplace_back();
    task.answer = question.answer;
    for (const std::string& choice : question.choices) {
      eval::ContinuationIds ids =
          eval::encode_continuation(tokenizer, question.text, delimiter + choice, question.location);
      // The last token of the continuation is predicted, not read.
      const std::size_t read = ids.continuation.size() - 1;
      if (read >= context_length) {
        throw Error(question.location, "a choice of " + std::to_string(ids.continuation.size()) +
                                           " tokens does not fit the model's " + std::to_string(context_length));
      }
      const std::size_t room = context_length - read;
      if (ids.context.size() > room) {
        ids.context.erase(ids.context.begin(), ids.context.end() - static_cast<std::ptrdiff_t>(room));
      }
      task.choices.push_back(std::move(ids));
      task.lengths.push_back(static_cast<double>(files::count_code_points(choice)));
    }
  }
  return tasks;
}

std::size_t longest_sequence(const std::vector<Task>& tasks) {
  std::size_t longest = 0;
  for (const Task& task : tasks) {
    for (const eval::ContinuationIds& ids : task.choices) {
      longest = std::max(longest, ids.context.size() + ids.continuation.size() - 1);
    }
  }
  return longest;
}

/// Computes log-likelihoods with one model. The question runs once; each choice continues from its cache.
class ChoiceScorer {
 public:
  ChoiceScorer(const model::Model& model, const CacheOptions& cache, std::size_t longest)
      : model_(model), runner_(model, model.make_state(cache, longest)) {}

  ChoiceAnswer answer(const Task& task) {
    ChoiceAnswer answer;
    std::vector<double> per_character;
    for (std::size_t i = 0; i < task.choices.size(); ++i) {
      answer.log_likelihoods.push_back(log_likelihood(task.choices[i]));
      per_character.push_back(answer.log_likelihoods.back() / task.lengths[i]);
    }
    answer.pick = largest(answer.log_likelihoods);
    answer.pick_norm = largest(per_character);
    return answer;
  }

 private:
  static std::size_t largest(const std::vector<double>& values) {
    return static_cast<std::size_t>(std::ranges::max_element(values) - values.begin());
  }

  double log_likelihood(const eval::ContinuationIds& ids) {
    run_context(ids.context);
    const std::span<const int> targets = ids.continuation;
    double sum = log_probability(after_context_.data(), targets[0]);
    if (targets.size() > 1) {
      runner_.run(targets.first(targets.size() - 1));
      for (std::size_t first = 1; first < targets.size(); first += eval::kLogitRows) {
        const std::size_t count = std::min(eval::kLogitRows, targets.size() - first);
        const float* rows = runner_.logits(first - 1, count).data();
        for (std::size_t i = 0; i < count; ++i) {
          sum += log_probability(rows + i * model_.spec().vocab_size, targets[first + i]);
        }
      }
    }
    if (!std::isfinite(sum)) {
      throw Error(model_.source().checkpoint().path().string(), "gives logits that are not finite");
    }
    return sum;
  }

  // Runs the context and keeps its cache and its last logits.
  void run_context(const std::vector<int>& context) {
    if (context == context_ && runner_.restore(context_end_)) return;
    runner_.restart();
    runner_.run(context);
    const std::span<const float> logits = runner_.logits(context.size() - 1, 1);
    after_context_.assign(logits.begin(), logits.end());
    context_end_ = runner_.snapshot();
    context_ = context;
  }

  double log_probability(const float* logits, int id) const {
    return double{logits[id]} - kernels::log_sum_exp(logits, model_.spec().vocab_size);
  }

  const model::Model& model_;
  eval::SequenceRunner runner_;
  std::vector<int> context_;                    ///< the context that ran last
  std::vector<float> after_context_;            ///< logits after the context [vocab_size]
  model::SequenceState::Snapshot context_end_;  ///< the state after the context
};

// Returns the standard error of a share of `count` draws, with the sample's variance.
double share_error(double share, std::size_t count) {
  return count < 2 ? 0 : std::sqrt(share * (1 - share) / static_cast<double>(count - 1));
}

double share_of(const std::vector<Task>& tasks, const auto& holds) {
  std::size_t sum = 0;
  for (std::size_t i = 0; i < tasks.size(); ++i) sum += holds(i) ? 1 : 0;
  return static_cast<double>(sum) / static_cast<double>(tasks.size());
}

class ChoiceTest {
 public:
  ChoiceTest(const ChoiceOptions& options, const Progress& progress) : options_(options), progress_(progress) {
    if (options.cache.window > 0) throw Error("window", "only rolls along a stream, not over questions");
  }

  ChoiceEvaluation run(const std::filesystem::path& path) {
    ChoiceEvaluation result;
    {
      auto source = std::make_unique<model::ModelSource>(path);
      if (!source->spec().causal) throw Error(path.string(), "is an encoder: it does not predict what comes next");
      if (source->spec().encoder) throw Error(path.string(), "writes from source texts, which questions do not have");
      if (!source->spec().has_head) throw Error(path.string(), model::kNoHead);
      const std::vector<eval::Question> questions = eval::read_questions(options_.questions_file);
      check_reference(source->spec().vocab_size);
      const auto tokenizer = model::require_tokenizer(*source);
      tasks_ = encode_questions(questions, *tokenizer, options_.delimiter, source->context_length());
      result.questions = tasks_.size();
      const model::Model model(std::move(source), model::FloatLayout::kRows, options_.model);
      result.model = figures(model, options_.cache, "answering");
      result.file_bytes = model.source().checkpoint().file_bytes();
      const auto weights = static_cast<double>(model::count_weights(model.spec()));
      result.bits_per_weight = 8.0 * static_cast<double>(result.file_bytes) / weights;
    }  // one model at a time is in memory
    if (options_.reference) {
      model::Model reference(*options_.reference, model::FloatLayout::kRows, model::all_floats(options_.model.compute));
      CacheOptions exact = options_.cache;  // so that the comparison includes the effect of the cache
      exact.type = CacheOptions::Type::kF32;
      result.reference = figures(reference, exact, "the reference's answers");
      const std::vector<ChoiceAnswer>& mine = result.model.answers;
      const std::vector<ChoiceAnswer>& other = result.reference->answers;
      result.agreement = share_of(tasks_, [&](std::size_t i) { return mine[i].pick == other[i].pick; });
      result.agreement_norm = share_of(tasks_, [&](std::size_t i) { return mine[i].pick_norm == other[i].pick_norm; });
    }
    result.seconds = seconds_;
    return result;
  }

 private:
  void check_reference(std::size_t vocab_size) const {
    if (!options_.reference) return;
    if (model::ModelSource(*options_.reference).spec().vocab_size != vocab_size) {
      throw Error(options_.reference->string(), "has another vocabulary than the model it is compared with");
    }
  }

  ChoiceFigures figures(const model::Model& model, const CacheOptions& cache, std::string_view stage) {
    ChoiceScorer scorer(model, cache, longest_sequence(tasks_));
    ChoiceFigures figures;
    const Clock::time_point start = Clock::now();
    for (const Task& task : tasks_) {
      figures.answers.push_back(scorer.answer(task));
      if (progress_) progress_(stage, figures.answers.size(), tasks_.size());
    }
    seconds_ += kernels::seconds_since(start);
    const std::vector<ChoiceAnswer>& answers = figures.answers;
    figures.acc = share_of(tasks_, [&](std::size_t i) { return answers[i].pick == tasks_[i].answer; });
    figures.acc_norm = share_of(tasks_, [&](std::size_t i) { return answers[i].pick_norm == tasks_[i].answer; });
    figures.acc_stderr = share_error(figures.acc, tasks_.size());
    figures.acc_norm_stderr = share_error(figures.acc_norm, tasks_.size());
    return figures;
  }

  const ChoiceOptions& options_;
  const Progress& progress_;
  std::vector<Task> tasks_;
  double seconds_ = 0;
};

nlohmann::json answers_json(const ChoiceFigures& figures) {
  nlohmann::json list = nlohmann::json::array();
  for (const ChoiceAnswer& answer : figures.answers) {
    list.push_back(
        {{"pick", answer.pick}, {"pick_norm", answer.pick_norm}, {"log_likelihoods", answer.log_likelihoods}});
  }
  return list;
}

}  // namespace

ChoiceEvaluation evaluate_choices(const std::filesystem::path& model, const ChoiceOptions& options,
                                  const Progress& progress) {
  return ChoiceTest(options, progress).run(model);
}

std::string choice_evaluation_json(const ChoiceEvaluation& evaluation) {
  nlohmann::json result = {{"questions", evaluation.questions},
                           {"file_bytes", evaluation.file_bytes},
                           {"bits_per_weight", evaluation.bits_per_weight},
                           {"seconds", evaluation.seconds}};
  const auto add = [&](const std::string& prefix, const ChoiceFigures& figures) {
    result[prefix + "acc"] = figures.acc;
    result[prefix + "acc_stderr"] = figures.acc_stderr;
    result[prefix + "acc_norm"] = figures.acc_norm;
    result[prefix + "acc_norm_stderr"] = figures.acc_norm_stderr;
    result[prefix + "answers"] = answers_json(figures);
  };
  add("", evaluation.model);
  if (evaluation.reference) {
    add("reference_", *evaluation.reference);
    result["agreement"] = evaluation.agreement.value();
    result["agreement_norm"] = evaluation.agreement_norm.value();
  }
  return result.dump();
}

}  // namespace ballast
