// Multiple choice: measures which answer a model finds most likely.
#ifndef BALLAST_CHOICES_H_
#define BALLAST_CHOICES_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ballast/cache.h"
#include "ballast/model_options.h"
#include "ballast/progress.h"

namespace ballast {

struct ChoiceOptions {
  /// One JSON object per line: {"question": TEXT, "choices": [TEXT, ...], "answer": INDEX FROM 0}; other members and
  /// empty lines are ignored.
  std::filesystem::path questions_file;
  std::optional<std::filesystem::path> reference;  ///< model to compare with, usually the unquantized original
  std::string delimiter = " ";                     ///< text between question and choice
  /// F32 by default, so that weights are compared, not caches. The reference's is always F32.
  CacheOptions cache{.type = CacheOptions::Type::kF32};
  ModelOptions model{};  ///< for the model, not for the reference
};

/// A model's scores for one question.
struct ChoiceAnswer {
  std::vector<double> log_likelihoods;  ///< of each choice after the question, nats
  std::size_t pick = 0;                 ///< the most likely choice, the first on a tie
  std::size_t pick_norm = 0;            ///< the most likely per character
};

struct ChoiceFigures {
  double acc = 0;  ///< share of questions for which `pick` is the answer
  double acc_stderr = 0;
  double acc_norm = 0;  ///< the same for `pick_norm`
  double acc_norm_stderr = 0;
  std::vector<ChoiceAnswer> answers;  ///< in the file's order
};

struct ChoiceEvaluation {
  std::size_t questions = 0;
  ChoiceFigures model;
  std::optional<ChoiceFigures> reference;
  std::optional<double> agreement;  ///< share of questions for which both models pick the same
  std::optional<double> agreement_norm;
  std::uint64_t file_bytes = 0;  ///< of the model's tensor files
  double bits_per_weight = 0;
  double seconds = 0;  ///< of the forward passes
};

/// Evaluates like lm-evaluation-harness for tasks of the type multiple_choice, so that figures are comparable: a
/// choice's log-likelihood is that of its tokens after those of the question, whose beginning is cut if both do not fit
/// the model. BOS comes first if the tokenizer adds it to every text. White space at the question's end belongs to the
/// choice; `acc_norm` divides by the characters of the choice without the delimiter. Throws Error, for an invalid line
/// naming file and line.
ChoiceEvaluation evaluate_choices(const std::filesystem::path& model, const ChoiceOptions& options,
                                  const Progress& progress = {});
std::string choice_evaluation_json(const ChoiceEvaluation& evaluation);

}  // namespace ballast

#endif  // BALLAST_CHOICES_H_
