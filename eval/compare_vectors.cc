#include "ballast/embed.h"

#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "ballast/error.h"
#include "ballast/inspect.h"
#include "ballast/model.h"
#include "eval/vector_agreement.h"
#include "files/text_file.h"
#include "kernels/clock.h"

namespace ballast {

VectorComparison compare_vectors(const std::filesystem::path& model_path, const VectorOptions& options,
                                 const Progress& progress) {
  const std::vector<std::string> texts = files::read_text_lines(options.text_file);
  if (texts.size() < 2) throw Error(options.text_file.string(), "has one line: at least two texts are compared");
  VectorComparison result{.texts = texts.size()};
  TextVectors vectors;
  {
    const Model model(model_path, options.model);
    const kernels::Clock::time_point start = kernels::Clock::now();
    vectors = model.embed(texts, options.embed, progress);
    result.seconds = kernels::seconds_since(start);
    result.tokens = vectors.tokens;
    const ModelSummary summary = inspect(model_path);
    result.file_bytes = summary.file_bytes;
    result.bits_per_weight = summary.bits_per_weight;
  }  // one model at a time is in memory
  const TextVectors expected = [&] {
    EmbedOptions exact = options.embed;  // so that the comparison includes the effect of the cache
    exact.cache_type = CacheOptions::Type::kF32;
    const Progress of_reference = [&](std::string_view, std::size_t done, std::size_t total) {
      if (progress) progress("the reference's vectors", done, total);
    };
    const ModelOptions floats = {.activations = ActivationType::kFloat, .compute = options.model.compute};
    return Model(options.reference, floats).embed(texts, exact, of_reference);
  }();
  if (expected.size != vectors.size) {
    throw Error(options.reference.string(), "gives vectors of " + std::to_string(expected.size) + " values, " +
                                                model_path.string() + " of " + std::to_string(vectors.size));
  }
  eval::compare_vectors(vectors.values, expected.values, vectors.size, result);
  return result;
}

std::string vector_comparison_json(const VectorComparison& comparison) {
  return nlohmann::json{{"texts", comparison.texts},
                        {"tokens", comparison.tokens},
                        {"cosine_mean", comparison.cosine_mean},
                        {"cosine_p1", comparison.cosine_p1},
                        {"cosine_min", comparison.cosine_min},
                        {"ranked_texts", comparison.ranked_texts},
                        {"rank_correlation", comparison.rank_correlation},
                        {"nearest_agreement", comparison.nearest_agreement},
                        {"top10_agreement", comparison.top10_agreement},
                        {"file_bytes", comparison.file_bytes},
                        {"bits_per_weight", comparison.bits_per_weight},
                        {"seconds", comparison.seconds}}
      .dump();
}

}  // namespace ballast
