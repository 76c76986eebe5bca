// What a model is made of. The forward pass, the folds and the converter read this and never ask for a family.
#ifndef BALLAST_SPEC_H_
#define BALLAST_SPEC_H_

#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <variant>
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
  bool gain = true;          ///< false: nothing is stored, and the gain is 1
  double gain_offset = 0.0;  ///< added to the stored gain: families that store gain - 1 have 1
};

/// How attention, MLP and their norms are put together. x is the residual stream.
enum class BlockLayout {
  kPreNorm,         ///< x += attention(norm(x)); x += mlp(norm'(x)); a final norm after the last block
  kPostNorm,        ///< x = norm(x + attention(x)); x = norm'(x + mlp(x)); no final norm
  kOutputNorm,      ///< x += norm(attention(x)); x += norm'(mlp(x)); a final norm after the last block
  kParallel,        ///< x += attention(norm(x)) + mlp(norm'(x))
  kParallelShared,  ///< x += attention(norm(x)) + mlp(norm(x))
};

/// Rotary position embedding; the pairs are (i, i + rotary_size / 2).
struct RopeSpec {
  enum class Scaling { kNone, kLinear, kLlama3, kYarn, kLongRope };
  double theta = 10000.0;
  std::size_t rotary_size = 0;  ///< channels of a head that are rotated: its first ones (its last in a latent head)
  Scaling scaling = Scaling::kNone;
  double factor = 1.0;                 ///< all but kNone: positions are stretched by this
  double low_freq_factor = 1.0;        ///< kLlama3
  double high_freq_factor = 4.0;       ///< kLlama3
  double original_context = 0.0;       ///< kLlama3, kYarn, kLongRope: context length before stretching
  double beta_fast = 32.0;             ///< kYarn: turns within the original context from which a pair is not stretched
  double beta_slow = 1.0;              ///< kYarn: turns below which a pair is stretched in full
  bool truncate = true;                ///< kYarn: the two bounds are rounded to whole channels
  std::vector<double> pair_factors{};  ///< kLongRope: what divides each pair's frequency, in the model's context
  std::vector<double> long_factors{};  ///< kLongRope: the same in the longer context; empty: there is none
  std::size_t turning_pairs = 0;       ///< how many pairs turn, the first; the others stay as they are. 0: all
  double amplitude = 1.0;              ///< cos and sin are multiplied by this
  bool backwards = false;              ///< by the negative angles

  bool operator==(const RopeSpec&) const = default;
};

/// Queries that grow with their position p (from 0): 1 + slope ln(1 + floor((p + offset) / length)) multiplies them.
struct QueryGrowthSpec {
  double slope = 0;
  double length = 1;
  double offset = 0;

  /// Of the query at a position.
  double factor(std::size_t position) const {
    return 1 + slope * std::log(1 + std::floor((static_cast<double>(position) + offset) / length));
  }

  bool operator==(const QueryGrowthSpec&) const = default;
};

/// Softmax attention. Sizes count channels.
struct AttentionSpec {
  std::size_t heads = 0;
  std::size_t kv_heads = 0;          ///< divides heads
  std::size_t head_size = 0;         ///< of queries and keys
  std::size_t value_size = 0;        ///< of a head's values
  double scale = 0;                  ///< multiplies q.k
  std::size_t window = 0;            ///< how many tokens back, or both ways, a query sees, itself included; 0: all
  std::optional<RopeSpec> rope{};    ///< how queries and keys are rotated; empty: they are not
  bool query_key_norm = false;       ///< RMSNorm over each head of q and of k, before rotation
  bool norm_over_heads = false;      ///< that norm is one over all heads, with a gain for each channel of each
  bool head_layer_norms = false;     ///< it is a LayerNorm without bias over each head, each with gains of its own
  bool norm_after_rotation = false;  ///< it comes after rotation
  bool head_norm_gains = true;       ///< false: nothing is stored for that norm, and the gain is 1
  std::optional<QueryGrowthSpec> query_growth{};
  bool value_norm = false;       ///< RMSNorm without a gain over each head of v
  bool values_are_keys = false;  ///< values have no projection: they are the keys before their norm and rotation
  bool output_gate = false;      ///< a sigmoid multiplies the output by element, before the output projection
  bool head_gates = false;       ///< the output gate has one value for each head, not for each element
  double score_cap = 0.0;        ///< a score x, scaled, becomes cap tanh(x / cap); 0: it stays
  bool sink_logits = false;      ///< each head has a score of its own beside the keys', whose weight no value gets
  bool shares_keys = false;      ///< later layers read this one's keys and values, too
  std::optional<std::size_t> keys_of{};  ///< the earlier layer whose keys and values it reads: it has none of its own

  /// Outputs of the output gate's projection.
  std::size_t gate_size() const { return head_gates ? heads : heads * value_size; }

  bool operator==(const AttentionSpec&) const = default;
};

/// Latent attention (DeepSeek-V2, arXiv:2405.04434): queries, keys and values come out of narrow normalized vectors;
/// the keys' rotated part is one vector that all heads share. A head's channels are first the plain, then the rotated;
/// heads have keys and values of their own, and no norms.
struct LatentAttentionSpec {
  AttentionSpec attention;
  std::size_t query_rank = 0;  ///< 0: queries are projected directly
  std::size_t key_value_rank = 0;
  double epsilon = 1e-6;  ///< of the latent vectors' norms

  bool operator==(const LatentAttentionSpec&) const = default;
};

/// The gated delta net (arXiv:2412.06464): attention with a memory of constant size, key_size x value_size for each
/// value head, that forgets and overwrites. A value head reads the key head of its number over value_heads / key_heads.
struct GatedDeltaSpec {
  std::size_t key_heads = 0;  ///< of queries, too; divides value_heads
  std::size_t value_heads = 0;
  std::size_t key_size = 0;  ///< of a head
  std::size_t value_size = 0;
  std::size_t width = 0;  ///< tokens that the convolution of queries, keys and values sees
  double epsilon = 1e-6;  ///< of the norm of what a head returns

  /// Of queries, keys and values together.
  std::size_t channels() const { return 2 * key_heads * key_size + value_heads * value_size; }

  bool operator==(const GatedDeltaSpec&) const = default;
};

/// A gated short convolution (LFM2): of three projections the first two are gates; y = second * convolution(first *
/// third).
struct ShortConvolutionSpec {
  std::size_t channels = 0;
  std::size_t width = 0;  ///< tokens that the convolution sees
  bool bias = false;      ///< the convolution adds one value to each channel

  bool operator==(const ShortConvolutionSpec&) const = default;
};

/// Mamba 2 (arXiv:2405.21060): a memory of state_size x head_size for each head, which decays and takes up new values
/// by as much as the token says. The heads of a group share keys and queries, which the paper calls B and C; its x are
/// the values.
struct Mamba2Spec {
  enum class Norm { kNone, kBeforeGate, kAfterGate };
  std::size_t heads = 0;
  std::size_t head_size = 0;
  std::size_t groups = 1;  ///< divides heads
  std::size_t state_size = 0;
  std::size_t width = 0;          ///< tokens that the convolution of values, keys and queries sees
  bool convolution_bias = false;  ///< is added after it
  double least_step = 0.0;        ///< a token's step lies between this and
  double largest_step = std::numeric_limits<double>::infinity();
  Norm norm = Norm::kAfterGate;  ///< where each group's outputs are normalized
  double epsilon = 1e-5;         ///< of that norm

  std::size_t value_channels() const { return heads * head_size; }
  std::size_t key_channels() const { return groups * state_size; }

  /// Of values, keys and queries together.
  std::size_t channels() const { return value_channels() + 2 * key_channels(); }

  bool operator==(const Mamba2Spec&) const = default;
};

/// Attention and Mamba 2 side by side: both read the block's input, and what both return is added.
struct ParallelMixersSpec {
  AttentionSpec attention;
  Mamba2Spec mamba;

  bool operator==(const ParallelMixersSpec&) const = default;
};

/// None: the layer is an MLP alone.
struct NoMixerSpec {
  bool operator==(const NoMixerSpec&) const = default;
};

/// A mixer that was registered under a name (model/mixer/mixer.h), with whatever sizes it has.
struct RegisteredMixerSpec {
  std::string name;
  std::map<std::string, std::size_t> sizes;

  bool operator==(const RegisteredMixerSpec&) const = default;
};

/// What of a layer lets tokens see each other.
using MixerSpec = std::variant<AttentionSpec, LatentAttentionSpec, GatedDeltaSpec, ShortConvolutionSpec, Mamba2Spec,
                               ParallelMixersSpec, NoMixerSpec, RegisteredMixerSpec>;

/// MLPs of which a router picks some for each token.
struct ExpertSpec {
  enum class Scoring { kSoftmax, kSigmoid };
  enum class GroupScore { kMax, kTopTwoSum };  ///< of its experts' scores
  std::size_t count = 0;
  std::size_t per_token = 0;
  std::size_t size = 0;         ///< hidden channels of one expert
  std::size_t shared_size = 0;  ///< hidden channels of the MLP that every token passes; 0: none
  bool shared_router = false;   ///< a sigmoid of a linear's one output multiplies what that MLP returns
  bool post_norms = false;      ///< norms of what that MLP returns and of the experts' sum; without shared_router
  Scoring scoring = Scoring::kSoftmax;
  std::size_t groups = 1;  ///< experts are grouped, and only the best groups' are candidates
  std::size_t groups_per_token = 1;
  GroupScore group_score = GroupScore::kMax;
  bool correction_bias = false;  ///< added to the scores for the choice, not for the weights
  bool normalize = false;        ///< the chosen scores are divided by their sum
  double sum_offset = 1e-20;     ///< added to that sum, as DeepSeek-V3's code does
  double least_sum = 0.0;        ///< what it is at least
  double scale = 1.0;            ///< of the experts' weights
  bool weighs_inputs = false;    ///< the weight multiplies what an expert reads, not what it returns

  /// Of all experts, how many one token passes.
  double share() const { return static_cast<double>(per_token) / static_cast<double>(count); }

  bool operator==(const ExpertSpec&) const = default;
};

/// A layer's MLP, or the experts in its place.
struct MlpSpec {
  std::size_t size = 0;  ///< hidden channels, where there are no experts; 0 there: the layer has no MLP
  Activation activation = Activation::kSilu;
  bool gated = true;       ///< down(activation(gate(x)) * up(x)), else down(activation(up(x)))
  double limit = 0.0;      ///< gated: gate(x) is at most this, and up(x) within it on both sides; 0: none
  double up_offset = 0.0;  ///< gated: added to up(x), after the limit
  std::optional<ExpertSpec> experts{};

  bool exists() const { return size > 0 || experts; }

  double expert_share() const { return experts ? experts->share() : 1.0; }
  bool has_limits() const { return limit > 0 || up_offset != 0; }

  bool operator==(const MlpSpec&) const = default;
};

/// One layer, without its norms and the order of things (BlockLayout), which all layers have in common. Only with
/// BlockLayout::kPreNorm it may lack its mixer or its MLP, and then the norm before it.
struct LayerSpec {
  MixerSpec mixer;
  MlpSpec mlp;
  bool mixer_norm = true;  ///< false: the mixer reads the residual stream as it is; BlockLayout::kPreNorm only

  /// Heads, whether their keys and values are latent or not; null where the mixer is no attention.
  const AttentionSpec* attention() const {
    if (const auto* latent = std::get_if<LatentAttentionSpec>(&mixer)) return &latent->attention;
    if (const auto* parallel = std::get_if<ParallelMixersSpec>(&mixer)) return &parallel->attention;
    return std::get_if<AttentionSpec>(&mixer);
  }
  AttentionSpec* attention() {
    if (auto* latent = std::get_if<LatentAttentionSpec>(&mixer)) return &latent->attention;
    if (auto* parallel = std::get_if<ParallelMixersSpec>(&mixer)) return &parallel->attention;
    return std::get_if<AttentionSpec>(&mixer);
  }
  const LatentAttentionSpec* latent() const { return std::get_if<LatentAttentionSpec>(&mixer); }

  /// Alone or beside attention; null where there is none.
  const Mamba2Spec* mamba() const {
    if (const auto* parallel = std::get_if<ParallelMixersSpec>(&mixer)) return &parallel->mamba;
    return std::get_if<Mamba2Spec>(&mixer);
  }

  bool has_mixer() const { return !std::holds_alternative<NoMixerSpec>(mixer); }

  bool operator==(const LayerSpec&) const = default;
};

/// What each layer gets of a token itself, whatever came before it: `size` channels, which are its row of a table and a
/// projection of its embedding, normalized, together. A gate that reads the stream multiplies them, and a projection's
/// output, normalized, is added to the stream after the layer's MLP.
struct TokenInputSpec {
  std::size_t size = 0;
  double table_scale = 1.0;         ///< multiplies what the table has
  double projection_epsilon = 0.0;  ///< of that norm
  double scale = 1.0;               ///< of the sum

  bool operator==(const TokenInputSpec&) const = default;
};

/// Which linears have a bias.
struct BiasSpec {
  bool query = false;
  bool key = false;
  bool value = false;
  bool output_gate = false;  ///< the output gate's projection
  bool attention_output = false;
  bool latent = false;        ///< projections into latent vectors, and the keys' rotated part
  bool mixer_input = false;   ///< projections of what Mamba 2 or a short convolution reads
  bool mixer_output = false;  ///< and of what it returns
  bool up = false;            ///< and the gate's of a gated MLP
  bool down = false;
  bool router = false;
  bool head = false;
  bool head_transform = false;
};

/// How a text's hidden values become one vector.
enum class Pooling {
  kMean,
  kFirst,  ///< that of the first token, BERT's [CLS]
  kLast,
};

/// A linear that a pooled vector passes, and what follows it.
struct TextDenseSpec {
  std::string folder;  ///< beside the model's files, with its own
  std::size_t inputs = 0;
  std::size_t outputs = 0;
  bool bias = false;
  bool tanh = false;

  bool operator==(const TextDenseSpec&) const = default;
};

/// How a model makes vectors of texts, where its makers say so.
struct TextVectorSpec {
  Pooling pooling = Pooling::kMean;
  bool normalized = true;              ///< to a length of 1, at last
  std::size_t most_tokens = 0;         ///< what is longer is cut off; 0: the context
  std::vector<TextDenseSpec> dense{};  ///< one after the other, of pooled vectors

  bool operator==(const TextVectorSpec&) const = default;
};

/// Sizes count elements.
struct ModelSpec {
  std::string architecture;  ///< `model_type` of config.json: "llama"
  std::size_t hidden_size = 0;
  std::size_t vocab_size = 0;
  std::size_t context_length = 0;
  std::size_t long_context = 0;    ///< another, with the rotations' long factors in force; 0: there is none
  bool tied_embeddings = false;    ///< the head is the embedding
  bool causal = true;              ///< false: an encoder, every token sees all, or all in its window
  bool learned_positions = false;  ///< a table of positions is added to the embedding

  NormSpec norm;
  BlockLayout layout = BlockLayout::kPreNorm;
  bool post_norms = false;  ///< a norm of what mixer and MLP return, before those that the layout has
  std::optional<TokenInputSpec> token_inputs{};
  bool layer_scales = false;    ///< after each layer a factor of its own multiplies the residual stream
  double residual_scale = 1.0;  ///< multiplies what is added to the residual stream, after that norm
  std::vector<LayerSpec> layers;

  double embedding_scale = 1.0;  ///< multiplies the embeddings
  double logit_scale = 1.0;
  double logit_cap = 0.0;  ///< a logit x, scaled, becomes cap tanh(x / cap); 0: it stays

  BiasSpec biases;
  std::size_t token_types = 0;               ///< rows of a table of which row 0 is added to every embedding
  bool embedding_norm = false;               ///< a norm of the embedding
  std::optional<Activation> head_transform;  ///< a linear, this activation and a norm before the head
  bool has_head = true;                      ///< false: its hidden values are what the model gives, there are no logits
  std::optional<TextVectorSpec> text_vectors{};

  std::vector<int> stop_tokens;  ///< ids that end a generation

  /// Whether what a half of a block returns is added to the residual stream as it is.
  bool adds_returned() const { return !normalizes_returned() && residual_scale == 1.0; }

  /// Whether norms write what is added to the residual stream.
  bool normalizes_returned() const { return post_norms || token_inputs || layout == BlockLayout::kOutputNorm; }

  bool has_final_norm() const { return layout != BlockLayout::kPostNorm; }

  /// The first layer that attends, null when there is none.
  const AttentionSpec* first_attention() const {
    for (const LayerSpec& layer : layers) {
      if (const AttentionSpec* attention = layer.attention()) return attention;
    }
    return nullptr;
  }
};

/// Calls change(attention) for every layer that attends.
template <typename Change>
void for_each_attention(ModelSpec& spec, const Change& change) {
  for (LayerSpec& layer : spec.layers) {
    if (AttentionSpec* attention = layer.attention()) change(*attention);
  }
}

/// The sampling values of a model's generation_config.json, or of a GGUF's general.sampling: what GenerateOptions of
/// the same names are where nobody asks for something else. Empty: the makers do not say.
struct GenerationDefaults {
  std::optional<double> temperature{};  ///< 0 for do_sample: false, 1 for do_sample: true without a temperature
  std::optional<std::size_t> top_k{};
  std::optional<double> top_p{};
  std::optional<double> min_p{};
  std::optional<double> repetition_penalty{};

  bool operator==(const GenerationDefaults&) const = default;
  bool empty() const { return *this == GenerationDefaults{}; }
};

/// "temperature 0.6, top_p 0.9"; empty where the makers say nothing.
std::string generation_defaults_text(const GenerationDefaults& defaults);

}  // namespace ballast

#endif  // BALLAST_SPEC_H_
