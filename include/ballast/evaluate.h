// Measures the quality of a model: perplexity on a text, divergence from a reference model, agreement with expected
// logits.
#ifndef BALLAST_EVALUATE_H_
#define BALLAST_EVALUATE_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ballast/adapter.h"
#include "ballast/cache.h"
#include "ballast/model_options.h"
#include "ballast/progress.h"
#include "ballast/ranks.h"

namespace ballast {

struct EvaluateOptions {
  std::filesystem::path text_file;
  std::optional<std::filesystem::path> reference;  ///< model to compare with, usually the unquantized original
  std::size_t context = 512;                       ///< tokens per chunk; chunks do not overlap
  std::size_t chunks = 0;                          ///< at most this many; 0: all of the text

  /// Scores this many tokens as one sequence instead of chunks, every one from the second on, with the cache below.
  std::size_t stream = 0;
  /// Directory for the reference's logits, so that the next model that is compared on the same chunks need not wait for
  /// them; created if missing. 4 bytes per position and id of the vocabulary. Not for a stream.
  std::optional<std::filesystem::path> reference_cache;

  /// Also reports figures by position, from all positions and not only from those that are scored.
  bool per_position = false;
  /// Also lists this many positions that diverge most from the reference: scored ones, with `per_position` any.
  std::size_t worst = 0;

  /// F32 by default, so that weights are compared, not caches. The reference's is always F32.
  CacheOptions cache{.type = CacheOptions::Type::kF32};

  /// Added to the model, not to its reference, which may be the adapter's folder.
  std::optional<AdapterFiles> adapter{};

  /// For the model. The reference's matrices are mapped: plain ones need no memory of their own.
  ModelOptions model{};

  /// Ranks that share the chunks; null: one process. The figures are the same for any number of ranks, and on each of
  /// them, except times (the slowest rank's) and experts (the sum). Not for a stream.
  Ranks* ranks = nullptr;
};

/// A segment of a stream.
struct StreamSegment {
  std::size_t first = 0;   ///< position of its first token
  std::size_t tokens = 0;  ///< scored
  double ppl = 0;
  std::optional<double> kl_mean{};
};

/// Positions 0, 1, 2-3, 4-7, ... of all chunks, each range twice as long as the one before, so that the first positions
/// (attention sinks, massive tokens) are separate.
struct PositionRange {
  std::size_t first = 0;   ///< position in the chunk
  std::size_t last = 0;    ///< inclusive
  std::size_t tokens = 0;  ///< predictions made from these positions, in all chunks
  double ppl = 0;
  std::optional<double> reference_ppl{};
  std::optional<double> kl_mean{};
};

/// A token of the vocabulary and its probability by a model.
struct Prediction {
  int id = 0;
  std::string text{};  ///< bytes, which may be a part of a UTF-8 sequence
  double probability = 0;
};

/// A position whose prediction diverges from the reference's.
struct DivergentToken {
  std::size_t chunk = 0;
  std::size_t position = 0;          ///< in the chunk, of the last token before the prediction
  std::string context{};             ///< the last few tokens up to it, bytes
  Prediction next{};                 ///< the next token of the text, and the model's probability
  double reference_probability = 0;  ///< of the same token
  Prediction top{};                  ///< the model's most probable token
  Prediction reference_top{};        ///< the reference's most probable token
  double kl = 0;
};

/// The definition is that of llama.cpp's perplexity tool: the text is tokenized once and cut into chunks, the first
/// token of each is replaced by BOS if the tokenizer adds one, and the predictions of the second half of each chunk are
/// scored.
struct Evaluation {
  std::size_t chunks = 0;
  std::size_t tokens = 0;  ///< scored
  double ppl = 0;
  double ppl_stderr = 0;
  std::optional<double> reference_ppl;
  std::optional<double> kl_mean;  ///< KL(reference || model), nats
  std::optional<double> kl_p99;
  std::optional<double> top1_agreement;  ///< share of positions with the same most likely token
  std::uint64_t file_bytes = 0;          ///< of the model's tensor files
  double bits_per_weight = 0;
  double seconds = 0;                    ///< of the forward passes
  std::optional<ExpertFigures> experts;  ///< with ModelOptions::expert_bytes
  std::vector<StreamSegment> segments;   ///< of a stream, else empty
  std::uint64_t cache_bytes = 0;         ///< of a stream's cache
  std::vector<PositionRange> positions;  ///< with EvaluateOptions::per_position, ascending
  std::vector<DivergentToken> worst;     ///< with EvaluateOptions::worst, the most divergent first
};

Evaluation evaluate(const std::filesystem::path& model, const EvaluateOptions& options, const Progress& progress = {});
std::string evaluation_json(const Evaluation& evaluation);

struct Verification {
  bool of_logits = true;  ///< otherwise of hidden values, which have no divergence and no top token
  double max_abs_error = 0;
  double relative_error = 0;  ///< max |a - b| / std(expected)
  double kl_mean = 0;
  double top1_agreement = 0;
  bool ok = false;  ///< relative_error <= tolerance
};

/// Runs `input_ids` [batch, tokens] of a safetensors file and compares the result with its `logits` [batch, tokens,
/// vocab]: of a classifier [batch, labels] or [batch, tokens, labels]; without either, with its `last_hidden_state`.
/// `token_type_ids` and `attention_mask` of the same file are applied; padding must follow the texts. The model runs
/// with the adapter.
Verification verify(const std::filesystem::path& model, const std::filesystem::path& expected, double tolerance = 1e-3,
                    const ComputeOptions& compute = {}, const std::optional<AdapterFiles>& adapter = {});
std::string verification_json(const Verification& verification);

}  // namespace ballast

#endif  // BALLAST_EVALUATE_H_
