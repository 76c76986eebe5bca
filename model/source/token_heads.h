// Linears beside a checkpoint that make something of each token's hidden values: bge-m3's weights of words and vectors
// of tokens (arXiv:2402.03216).
#ifndef BALLAST_MODEL_SOURCE_TOKEN_HEADS_H_
#define BALLAST_MODEL_SOURCE_TOKEN_HEADS_H_

#include <cstddef>
#include <filesystem>
#include <optional>
#include <vector>

#include "ballast/compute_options.h"
#include "model/block/weights.h"

namespace ballast::model {

struct TokenHeads {
  std::optional<Linear> weight;  ///< sparse_linear.pt: one output, a word's weight before its ReLU
  std::optional<Linear> vector;  ///< colbert_linear.pt: a token's vector before it gets length 1
};

/// Reads the files that there are in `directory`, for a model of `hidden_size`. Throws Error.
TokenHeads read_token_heads(const std::filesystem::path& directory, std::size_t hidden_size,
                            const ComputeOptions& compute);

/// Returns the names of the files that there are.
std::vector<std::filesystem::path> token_head_files(const std::filesystem::path& directory);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_SOURCE_TOKEN_HEADS_H_
