// Multiple choice: which answer a model finds most likely.
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
  /// One JSON object per line: {"question": TEXT, "choices": [TEXT, ...], "answer": INDEX FROM 0}; other members are
  /// ignored, and empty lines.
  std::filesystem::path questions_file;
  std::optional<std::filesystem::path> reference;  ///< model to compare with, usually the unquantized original
  std::string delimiter = " ";                     ///< stands between question and choice
  /// F32 unless said otherwise, so that weights are compared, not caches. The reference's is F32 always.
  CacheOptions cache{.type = CacheOptions::Type::kF32};
  ModelOptions model{};  ///< of the model, not of the reference
};

/// What a model says to one question.
struct ChoiceAnswer {
  std::vector<double> log_likelihoods;  ///< of each choice after the question, nats
  std::size_t pick = 0;                 ///< the most likely choice, the first on a tie
  std::size_t pick_norm = 0;            ///< the most likely per character
};

struct ChoiceFigures {
  double acc = 0;  ///< share of questions whose `pick` is the answer
  double acc_stderr = 0;
  double acc_norm = 0;  ///< the same of `pick_norm`
  double acc_norm_stderr = 0;
  std::vector<ChoiceAnswer> answers;  ///< in the file's order
};

struct ChoiceEvaluation {
  std::size_t questions = 0;
  ChoiceFigures model;
  std::optional<ChoiceFigures> reference;
  std::optional<double> agreement;  ///< share of questions to which both pick the same
  std::optional<double> agreement_norm;
  std::uint64_t file_bytes = 0;  ///< of the model's tensor files
  double bits_per_weight = 0;
  double seconds = 0;  ///< spent in the forward passes
};

/// As lm-evaluation-harness does for tasks of the type multiple_choice, so that figures compare: a choice's
/// log-likelihood is that of its tokens after those of the question, which is cut at its beginning where both do not
/// fit the model. BOS stands in front where the tokenizer adds it to every text. The white space at the question's end
/// belongs to the choice; `acc_norm` divides by the characters of the choice without the delimiter. Throws Error, for a
/// bad line naming file and line.
ChoiceEvaluation evaluate_choices(const std::filesystem::path& model, const ChoiceOptions& options,
                                  const Progress& progress = {});
std::string choice_evaluation_json(const ChoiceEvaluation& evaluation);

}  // namespace ballast

#endif  // BALLAST_CHOICES_H_
