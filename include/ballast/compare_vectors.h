// How near the vectors of texts that a model makes are to another model's, usually the unquantized original.
#ifndef BALLAST_COMPARE_VECTORS_H_
#define BALLAST_COMPARE_VECTORS_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "ballast/embed.h"
#include "ballast/model_options.h"
#include "ballast/progress.h"

namespace ballast {

struct VectorOptions {
  std::filesystem::path text_file;  ///< a text in each line; at least two
  std::filesystem::path reference;
  EmbedOptions embed{};
  ModelOptions model{};  ///< of the model, not of the reference
};

/// Ranks are those of all other texts by the cosine of their vector with a text's own, among the first
/// kRankedTexts texts.
struct VectorComparison {
  static constexpr std::size_t kRankedTexts = 2000;

  std::size_t texts = 0;
  std::size_t tokens = 0;
  double cosine_mean = 0;  ///< of a text's two vectors
  double cosine_p1 = 0;    ///< 99 % are above
  double cosine_min = 0;
  std::size_t ranked_texts = 0;
  double rank_correlation = 0;   ///< Spearman's of both models' ranks, mean over the texts
  double nearest_agreement = 0;  ///< share of texts whose nearest text is the same
  double top10_agreement = 0;    ///< share of the ten nearest that are the same; of all, where there are fewer
  std::uint64_t file_bytes = 0;  ///< of the model's tensor files
  double bits_per_weight = 0;
  double seconds = 0;  ///< that the model took for all texts
};

/// Throws Error, also where the vectors have different sizes.
VectorComparison compare_vectors(const std::filesystem::path& model, const VectorOptions& options,
                                 const Progress& progress = {});
std::string vector_comparison_json(const VectorComparison& comparison);

}  // namespace ballast

#endif  // BALLAST_COMPARE_VECTORS_H_
