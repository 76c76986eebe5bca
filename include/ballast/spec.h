// What a model is made of. The forward pass, the folds and the converter read this and never ask for a family.
#ifndef BALLAST_SPEC_H_
#define BALLAST_SPEC_H_

#include <cstddef>
#include <string>
#include <vector>

namespace ballast {

/// Rotary position embedding; the pairs are (i, i + head_dim / 2).
struct RopeSpec {
  enum class Scaling { kNone, kLinear, kLlama3 };
  double theta = 10000.0;
  Scaling scaling = Scaling::kNone;
  double factor = 1.0;            ///< kLinear, kLlama3: positions are stretched by this
  double low_freq_factor = 1.0;   ///< kLlama3
  double high_freq_factor = 4.0;  ///< kLlama3
  double original_context = 0.0;  ///< kLlama3: context length before stretching
};

/// A decoder of identical pre-norm blocks. Sizes count elements.
struct ModelSpec {
  std::string architecture;  ///< `model_type` of config.json: "llama"
  std::size_t layers = 0;
  std::size_t hidden_size = 0;
  std::size_t heads = 0;
  std::size_t kv_heads = 0;  ///< divides heads
  std::size_t head_size = 0;
  std::size_t mlp_size = 0;
  std::size_t vocab_size = 0;
  std::size_t context_length = 0;
  double norm_epsilon = 1e-5;
  RopeSpec rope;
  bool attention_bias = false;   ///< on q, k, v and o
  bool mlp_bias = false;         ///< on gate, up and down
  bool tied_embeddings = false;  ///< the head is the embedding
  std::vector<int> stop_tokens;  ///< ids that end a generation
};

}  // namespace ballast

#endif  // BALLAST_SPEC_H_
