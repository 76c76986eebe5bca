// Vectors of texts, and their comparison with the original model's.
#ifndef BALLAST_EMBED_H_
#define BALLAST_EMBED_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ballast/cache.h"
#include "ballast/model_options.h"
#include "ballast/progress.h"
#include "ballast/spec.h"

namespace ballast {

/// Options that are absent have the model's values (ModelSpec::text_vectors), or else the defaults of TextVectorSpec.
struct EmbedOptions {
  std::optional<Pooling> pooling{};
  std::optional<bool> normalized{};
  std::optional<std::size_t> most_tokens{};  ///< of a text, including special tokens
  std::optional<std::string> prompt_name{};  ///< of TextVectorSpec::prompts; "": none
  std::optional<std::size_t> dimensions{};   ///< first values of a vector that are kept, for models trained for that
  CacheOptions::Type cache_type = CacheOptions::Type::kAuto;
};

struct TextVectors {
  std::size_t size = 0;       ///< values of a vector
  std::vector<float> values;  ///< [texts][size]
  std::size_t tokens = 0;     ///< of all texts
  std::size_t cut = 0;        ///< number of truncated texts
};

/// The weights of a text's words, by the ids of their tokens; those of 0 are left out.
using WordWeights = std::map<int, float>;

/// Vectors of the tokens of texts but their first, each of length 1.
struct TokenVectors {
  std::size_t size = 0;                   ///< values of a vector
  std::vector<std::vector<float>> texts;  ///< [tokens][size] each
};

struct VectorOptions {
  std::filesystem::path text_file;  ///< one text per line; at least two
  std::filesystem::path reference;  ///< model to compare with, usually the unquantized original
  EmbedOptions embed{};
  ModelOptions model{};  ///< for the model, not for the reference
};

/// Compares ranks: those of all other texts by the cosine of their vector with a text's own, among the first
/// kRankedTexts texts.
struct VectorComparison {
  static constexpr std::size_t kRankedTexts = 2000;

  std::size_t texts = 0;
  std::size_t tokens = 0;
  double cosine_mean = 0;  ///< of a text's two vectors
  double cosine_p1 = 0;    ///< 99 % are above it
  double cosine_min = 0;
  std::size_t ranked_texts = 0;
  double rank_correlation = 0;   ///< Spearman's of both models' ranks, mean over the texts
  double nearest_agreement = 0;  ///< share of texts whose nearest text is the same
  double top10_agreement = 0;    ///< share of the ten nearest texts that are the same; of all, if there are fewer
  std::uint64_t file_bytes = 0;  ///< of the model's tensor files
  double bits_per_weight = 0;
  double seconds = 0;  ///< of the model for all texts
};

/// Throws Error, also if the vectors have different sizes.
VectorComparison compare_vectors(const std::filesystem::path& model, const VectorOptions& options,
                                 const Progress& progress = {});
std::string vector_comparison_json(const VectorComparison& comparison);

}  // namespace ballast

#endif  // BALLAST_EMBED_H_
