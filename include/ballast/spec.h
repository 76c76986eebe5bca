// What a model is made of. The forward pass, the folds and the converter read this and never ask for a family.
#ifndef BALLAST_SPEC_H_
#define BALLAST_SPEC_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "ballast/activation.h"

namespace ballast {

/// A normalization of hidden values, times a gain, plus a bias where there is one.
struct NormSpec {
  enum class Kind {
    kRms,    ///< x / sqrt(mean(x^2) + epsilon)
    kLayer,  ///< (x - mean) / sqrt(variance + epsilon)
  };
  Kind kind = Kind::kRms;
  double epsilon = 1e-5;
  bool bias = false;
  double gain_offset = 0.0;  ///< added to the stored gain: families that store gain - 1 have 1
};

/// How attention, MLP and their norms are put together. x is the residual stream.
enum class BlockLayout {
  kPreNorm,         ///< x += attention(norm(x)); x += mlp(norm'(x)); a final norm behind the last block
  kPostNorm,        ///< x = norm(x + attention(x)); x = norm'(x + mlp(x)); no final norm
  kParallel,        ///< x += attention(norm(x)) + mlp(norm'(x))
  kParallelShared,  ///< x += attention(norm(x)) + mlp(norm(x))
};

/// Rotary position embedding; the pairs are (i, i + rotary_size / 2).
struct RopeSpec {
  enum class Scaling { kNone, kLinear, kLlama3, kYarn };
  double theta = 10000.0;
  std::size_t rotary_size =
      0;  ///< channels of a head that are rotated, its first ones (the last ones in a latent head)
  Scaling scaling = Scaling::kNone;
  double factor = 1.0;            ///< kLinear, kLlama3, kYarn: positions are stretched by this
  double low_freq_factor = 1.0;   ///< kLlama3
  double high_freq_factor = 4.0;  ///< kLlama3
  double original_context = 0.0;  ///< kLlama3, kYarn: context length before stretching
  double beta_fast = 32.0;        ///< kYarn: turns within the original context from which a pair is not stretched
  double beta_slow = 1.0;         ///< kYarn: turns below which a pair is stretched in full
  bool truncate = true;           ///< kYarn: the two bounds are rounded to whole channels
  double amplitude = 1.0;         ///< cos and sin are multiplied by this
};

/// Where a token's position enters.
enum class PositionKind {
  kRope,     ///< queries and keys are rotated
  kLearned,  ///< a table is added to the embedding
  kNone,
};

/// A sigmoid that multiplies the attention's output before the output projection.
enum class OutputGate { kNone, kPerHead, kPerElement };

/// Latent attention (DeepSeek-V2, arXiv:2405.04434): queries, keys and values come out of narrow normalized vectors;
/// the keys' rotated part is one vector that all heads share. A head's channels are first the plain, then the rotated.
struct LatentSpec {
  std::size_t query_rank = 0;  ///< 0: queries are projected directly
  std::size_t key_value_rank = 0;
  double epsilon = 1e-6;  ///< of the latent vectors' norms
};

/// MLPs of which a router picks some for each token.
struct ExpertSpec {
  enum class Scoring { kSoftmax, kSigmoid };
  enum class GroupScore { kMax, kTopTwoSum };  ///< of its experts' scores
  std::size_t first_layer = 0;                 ///< layers before have a plain MLP
  std::size_t count = 0;
  std::size_t per_token = 0;
  std::size_t size = 0;         ///< hidden channels of one expert
  std::size_t shared_size = 0;  ///< hidden channels of the MLP that every token passes; 0: none
  Scoring scoring = Scoring::kSoftmax;
  std::size_t groups = 1;  ///< experts are grouped, and only the best groups' are candidates
  std::size_t groups_per_token = 1;
  GroupScore group_score = GroupScore::kMax;
  bool correction_bias = false;  ///< added to the scores for the choice, not for the weights
  bool normalize = false;        ///< the chosen scores are divided by their sum
  double scale = 1.0;            ///< of the experts' weights
};

/// Which linears have a bias.
struct BiasSpec {
  bool query = false;  ///< and the output gate's projection
  bool key = false;
  bool value = false;
  bool attention_output = false;
  bool latent = false;  ///< projections into latent vectors, and the keys' rotated part
  bool up = false;      ///< and the gate's of a gated MLP
  bool down = false;
  bool head = false;
};

/// Sizes count elements.
struct ModelSpec {
  std::string architecture;  ///< `model_type` of config.json: "llama"
  std::size_t layers = 0;
  std::size_t hidden_size = 0;
  std::size_t vocab_size = 0;
  std::size_t context_length = 0;
  bool tied_embeddings = false;  ///< the head is the embedding

  NormSpec norm;
  BlockLayout layout = BlockLayout::kPreNorm;

  std::size_t heads = 0;
  std::size_t kv_heads = 0;    ///< divides heads
  std::size_t head_size = 0;   ///< of queries and keys
  std::size_t value_size = 0;  ///< of a head's values
  double attention_scale = 0;  ///< multiplies q.k
  bool causal = true;          ///< false: an encoder, every token sees all
  PositionKind positions = PositionKind::kRope;
  RopeSpec rope;
  std::vector<std::size_t> windows;  ///< per layer: how many tokens back a query sees, itself included; 0: all. May be
                                     ///< empty: no layer has a window
  bool query_key_norm = false;       ///< RMSNorm over each head of q and of k, before rotation
  OutputGate output_gate = OutputGate::kNone;
  std::optional<LatentSpec> latent;

  std::size_t mlp_size = 0;
  Activation activation = Activation::kSilu;
  bool gated_mlp = true;  ///< down(activation(gate(x)) * up(x)), else down(activation(up(x)))
  std::optional<ExpertSpec> experts;

  BiasSpec biases;
  std::size_t token_types = 0;  ///< rows of a table of which row 0 is added to every embedding
  bool embedding_norm = false;  ///< a norm behind the embedding
  bool head_transform = false;  ///< linear, activation and norm before the head

  std::vector<int> stop_tokens;  ///< ids that end a generation

  bool has_final_norm() const { return layout != BlockLayout::kPostNorm; }
  bool has_experts(std::size_t layer) const { return experts && layer >= experts->first_layer; }
  std::size_t window(std::size_t layer) const { return windows.empty() ? 0 : windows[layer]; }
};

}  // namespace ballast

#endif  // BALLAST_SPEC_H_
