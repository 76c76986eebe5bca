// The description of a model. The forward pass, the folds and the converter read it and never depend on a family.
#ifndef BALLAST_SPEC_H_
#define BALLAST_SPEC_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ballast/activation.h"

namespace ballast {

/// A normalization of hidden values, multiplied by a gain, plus an optional bias.
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

/// The arrangement of attention, MLP and their norms. x is the residual stream.
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
  std::size_t rotary_size = 0;  ///< rotated channels of a head: its first ones (in a latent head its last)
  Scaling scaling = Scaling::kNone;
  double factor = 1.0;            ///< all but kNone: positions are stretched by this
  double low_freq_factor = 1.0;   ///< kLlama3
  double high_freq_factor = 4.0;  ///< kLlama3
  double original_context = 0.0;  ///< kLlama3, kYarn, kLongRope: context length before stretching
  double beta_fast = 32.0;        ///< kYarn: rotations within the original context from which a pair is not stretched
  double beta_slow = 1.0;         ///< kYarn: rotations below which a pair is fully stretched
  bool truncate = true;           ///< kYarn: the two bounds are rounded to whole channels
  std::vector<double> pair_factors{};  ///< kLongRope: divisors of each pair's frequency, in the model's context
  std::vector<double> long_factors{};  ///< kLongRope: divisors in the longer context; empty: there is none
  std::size_t turning_pairs = 0;       ///< number of pairs that rotate, the first ones; the others do not. 0: all
  double amplitude = 1.0;              ///< factor on cos and sin
  bool backwards = false;              ///< rotates by the negative angles

  bool operator==(const RopeSpec&) const = default;
};

/// Queries that grow with their position p (from 0): they are multiplied by 1 + slope ln(1 + floor((p + offset) /
/// length)).
struct QueryGrowthSpec {
  double slope = 0;
  double length = 1;
  double offset = 0;

  /// Returns the factor at a position.
  double factor(std::size_t position) const {
    return 1 + slope * std::log(1 + std::floor((static_cast<double>(position) + offset) / length));
  }

  bool operator==(const QueryGrowthSpec&) const = default;
};

/// Biases of scores by the distance of key and query (T5, arXiv:1910.10683). Short distances have a bucket each, longer
/// ones share buckets that widen by the logarithm up to `reach`; beyond it is the last one. Keys after the query have
/// the second half of the buckets, or in a decoder, where none are seen, that of the query itself.
struct RelativeBiasSpec {
  std::size_t buckets = 0;  ///< even
  std::size_t reach = 0;    ///< in tokens, more than the buckets for single distances of one side
  bool backwards = false;   ///< all buckets are for keys before the query: a decoder's

  /// Returns the bucket of a key `distance` positions after its query, or before it if that is negative.
  std::size_t bucket(std::int64_t distance) const {
    const std::size_t side = backwards ? buckets : buckets / 2;
    const std::size_t exact = side / 2;
    if (backwards) distance = std::min(distance, std::int64_t{0});
    const std::size_t before = distance > 0 ? side : 0;
    const auto tokens = static_cast<std::size_t>(distance < 0 ? -distance : distance);
    if (tokens < exact) return before + tokens;
    // In F32, as the models were trained: a distance at a border must not change its bucket.
    const float ratio = std::log(static_cast<float>(tokens) / static_cast<float>(exact)) /
                        static_cast<float>(std::log(static_cast<double>(reach) / static_cast<double>(exact)));
    const auto further = static_cast<std::size_t>(ratio * static_cast<float>(side - exact));
    return before + std::min(exact + further, side - 1);
  }

  bool operator==(const RelativeBiasSpec&) const = default;
};

/// Disentangled attention (DeBERTa, arXiv:2006.03654): rows of a table by the distance of query and key are projected
/// like keys and like queries. The scores of queries with projected keys, and of keys with projected queries, are added
/// before the scale. Short distances have a row each, longer ones share rows that widen by the logarithm.
struct DisentangledSpec {
  std::size_t span = 0;              ///< rows of the table on either side
  std::size_t reach = 0;             ///< the distance of the last row; 0: every distance has its row
  bool keys_by_distance = false;     ///< queries meet projected keys: c2p in the paper
  bool queries_by_distance = false;  ///< keys meet projected queries: p2c
  bool norm = false;                 ///< the rows pass a LayerNorm
  double epsilon = 1e-7;             ///< of that norm

  std::size_t rows() const { return 2 * span; }

  /// Returns the row for a query `distance` positions after its key, or before it if that is negative.
  std::size_t row(std::int64_t distance) const {
    const auto exact = static_cast<std::int64_t>(span / 2);
    const std::int64_t magnitude = distance < 0 ? -distance : distance;
    std::int64_t bucket = distance;
    if (reach > 0 && magnitude > exact) {
      // In F32, as the models were trained: a distance at a border must not change its row.
      const float ratio = std::log(static_cast<float>(magnitude) / static_cast<float>(exact)) /
                          std::log(static_cast<float>(static_cast<double>(reach - 1) / static_cast<double>(exact)));
      const auto further = static_cast<std::int64_t>(std::ceil(ratio * static_cast<float>(exact - 1)));
      bucket = distance < 0 ? -(further + exact) : further + exact;
    }
    const auto most = static_cast<std::int64_t>(rows()) - 1;
    return static_cast<std::size_t>(std::clamp(bucket + static_cast<std::int64_t>(span), std::int64_t{0}, most));
  }

  bool operator==(const DisentangledSpec&) const = default;
};

/// A norm of queries and keys, without bias.
struct HeadNormSpec {
  enum class Kind {
    kRms,          ///< RMSNorm over each head, with gains that all heads share
    kRmsAllHeads,  ///< one RMSNorm over all heads, with a gain for each channel of each head
    kLayer,        ///< LayerNorm over each head, with gains of its own for each head
  };
  Kind kind = Kind::kRms;
  bool after_rotation = false;  ///< else before
  bool gain = true;             ///< false: nothing is stored, and the gain is 1

  bool operator==(const HeadNormSpec&) const = default;
};

/// Softmax attention. Sizes count channels.
struct AttentionSpec {
  std::size_t heads = 0;
  std::size_t kv_heads = 0;    ///< divides heads
  std::size_t head_size = 0;   ///< of queries and keys
  std::size_t value_size = 0;  ///< of a head's values
  double scale = 0;            ///< factor on q.k
  std::size_t window =
      0;  ///< number of tokens, itself included, that a query attends to: back, or in both directions; 0: all
  std::optional<RopeSpec> rope{};                ///< rotation of queries and keys; empty: none
  std::optional<HeadNormSpec> query_key_norm{};  ///< empty: queries and keys have no norm
  std::optional<QueryGrowthSpec> query_growth{};
  bool value_norm = false;       ///< RMSNorm without a gain over each head of v
  bool values_are_keys = false;  ///< values have no projection: they are the keys before their norm and rotation
  bool output_gate = false;      ///< a sigmoid multiplies the output by element, before the output projection
  bool head_gates = false;       ///< the output gate has one value per head, not per element
  double score_cap = 0.0;        ///< a scaled score x becomes cap tanh(x / cap); 0: no cap
  bool sink_logits = false;      ///< each head has an additional score in the softmax, whose weight has no value
  std::optional<RelativeBiasSpec> relative_bias{};
  std::optional<DisentangledSpec> disentangled{};
  bool alibi = false;        ///< a scaled score loses its head's slope for each token of distance (arXiv:2108.12409)
  bool shares_keys = false;  ///< later layers read this layer's keys and values, too
  std::optional<std::size_t>
      keys_of{};  ///< the earlier layer whose keys and values it reads; it then has none of its own

  /// Returns whether positions of query and key add to their score, which keys in INT8 do not support.
  bool biases_scores() const { return relative_bias || disentangled || alibi; }

  /// Returns the number of outputs of the output gate's projection.
  std::size_t gate_size() const { return head_gates ? heads : heads * value_size; }

  bool operator==(const AttentionSpec&) const = default;
};

/// Attention of a decoder's text to what an encoder made of the source text: only queries are projections of the
/// block's input; keys and values are projections of the encoder's output. Nothing rotates.
struct CrossAttentionSpec {
  AttentionSpec attention;

  bool operator==(const CrossAttentionSpec&) const = default;
};

/// Latent attention (DeepSeek-V2, arXiv:2405.04434): queries, keys and values are computed from narrow normalized
/// vectors; the keys' rotated part is one vector that all heads share. A head's plain channels come first, then the
/// rotated ones; each head has its own keys and values, and no norms.
struct LatentAttentionSpec {
  AttentionSpec attention;
  std::size_t query_rank = 0;  ///< 0: queries are projected directly
  std::size_t key_value_rank = 0;
  double epsilon = 1e-6;  ///< of the latent vectors' norms

  bool operator==(const LatentAttentionSpec&) const = default;
};

/// The gated delta net (arXiv:2412.06464): attention with a memory of constant size, key_size x value_size for each
/// value head, that forgets and overwrites. Value head i reads key head i * key_heads / value_heads.
struct GatedDeltaSpec {
  std::size_t key_heads = 0;  ///< of queries, too; divides value_heads
  std::size_t value_heads = 0;
  std::size_t key_size = 0;  ///< of a head
  std::size_t value_size = 0;
  std::size_t width = 0;  ///< number of tokens in the convolution of queries, keys and values
  double epsilon = 1e-6;  ///< of the output norm of a head

  /// Returns the channels of queries, keys and values together.
  std::size_t channels() const { return 2 * key_heads * key_size + value_heads * value_size; }

  bool operator==(const GatedDeltaSpec&) const = default;
};

/// A gated short convolution (LFM2): of its three projections the first two are gates; y = second * convolution(first *
/// third).
struct ShortConvolutionSpec {
  std::size_t channels = 0;
  std::size_t width = 0;  ///< number of tokens in the convolution
  bool bias = false;      ///< the convolution adds a value to each channel

  bool operator==(const ShortConvolutionSpec&) const = default;
};

/// Mamba 2 (arXiv:2405.21060): a memory of state_size x head_size for each head, which decays and adds new values by a
/// step that depends on the token. The heads of a group share keys and queries, which the paper calls B and C; its x
/// are the values.
struct Mamba2Spec {
  enum class Norm { kNone, kBeforeGate, kAfterGate };
  std::size_t heads = 0;
  std::size_t head_size = 0;
  std::size_t groups = 1;  ///< divides heads
  std::size_t state_size = 0;
  std::size_t width = 0;          ///< number of tokens in the convolution of values, keys and queries
  bool convolution_bias = false;  ///< the convolution adds a value to each channel
  double least_step = 0.0;        ///< lower bound of a token's step
  double largest_step = std::numeric_limits<double>::infinity();
  Norm norm = Norm::kAfterGate;  ///< position of the norm of each group's outputs
  double epsilon = 1e-5;         ///< of that norm

  std::size_t value_channels() const { return heads * head_size; }
  std::size_t key_channels() const { return groups * state_size; }

  /// Returns the channels of values, keys and queries together.
  std::size_t channels() const { return value_channels() + 2 * key_channels(); }

  bool operator==(const Mamba2Spec&) const = default;
};

/// Attention and Mamba 2 in parallel: both read the block's input, and their outputs are added.
struct ParallelMixersSpec {
  AttentionSpec attention;
  Mamba2Spec mamba;

  bool operator==(const ParallelMixersSpec&) const = default;
};

/// No mixer: the layer is an MLP alone.
struct NoMixerSpec {
  bool operator==(const NoMixerSpec&) const = default;
};

/// The part of a layer that moves information between tokens.
using MixerSpec = std::variant<AttentionSpec, CrossAttentionSpec, LatentAttentionSpec, GatedDeltaSpec,
                               ShortConvolutionSpec, Mamba2Spec, ParallelMixersSpec, NoMixerSpec>;

/// MLPs of which a router picks some for each token.
struct ExpertSpec {
  enum class Scoring { kSoftmax, kSigmoid };
  enum class GroupScore { kMax, kTopTwoSum };  ///< of a group, from its experts' scores
  std::size_t count = 0;
  std::size_t per_token = 0;
  std::size_t size = 0;         ///< hidden channels of one expert
  std::size_t shared_size = 0;  ///< hidden channels of the MLP that every token passes; 0: none
  bool shared_router = false;   ///< the output of that MLP is multiplied by the sigmoid of a linear with one output
  bool post_norms = false;      ///< norms of that MLP's output and of the experts' sum; without shared_router
  Scoring scoring = Scoring::kSoftmax;
  std::size_t groups = 1;  ///< experts are grouped, and only the best groups' are candidates
  std::size_t groups_per_token = 1;
  GroupScore group_score = GroupScore::kMax;
  bool correction_bias = false;  ///< added to the scores for the choice, not for the weights
  bool normalize = false;        ///< the chosen scores are divided by their sum
  double sum_offset = 1e-20;     ///< added to that sum, as DeepSeek-V3's code does
  double least_sum = 0.0;        ///< lower bound of the sum
  double scale = 1.0;            ///< of the experts' weights
  bool weighs_inputs = false;    ///< the weight multiplies an expert's input, not its output

  /// Returns the share of experts that one token passes.
  double share() const { return static_cast<double>(per_token) / static_cast<double>(count); }

  bool operator==(const ExpertSpec&) const = default;
};

/// A layer's MLP, or its experts.
struct MlpSpec {
  std::size_t size = 0;  ///< hidden channels without experts; 0: the layer has no MLP
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

/// One layer, without its norms and their arrangement (BlockLayout), which all layers share. Only with
/// BlockLayout::kPreNorm it may have no mixer, and only with that or BlockLayout::kPostNorm no MLP; then it lacks its
/// norm, too.
struct LayerSpec {
  MixerSpec mixer;
  MlpSpec mlp;
  bool mixer_norm = true;    ///< false: the mixer reads the residual stream without a norm; BlockLayout::kPreNorm only
  bool stream_norm = false;  ///< a norm of the residual stream after the layer, the last one of an encoder

  /// Returns the heads of plain, cross- or latent attention; null if the mixer is not attention.
  const AttentionSpec* attention() const {
    if (const auto* cross = std::get_if<CrossAttentionSpec>(&mixer)) return &cross->attention;
    if (const auto* latent = std::get_if<LatentAttentionSpec>(&mixer)) return &latent->attention;
    if (const auto* parallel = std::get_if<ParallelMixersSpec>(&mixer)) return &parallel->attention;
    return std::get_if<AttentionSpec>(&mixer);
  }
  AttentionSpec* attention() {
    if (auto* cross = std::get_if<CrossAttentionSpec>(&mixer)) return &cross->attention;
    if (auto* latent = std::get_if<LatentAttentionSpec>(&mixer)) return &latent->attention;
    if (auto* parallel = std::get_if<ParallelMixersSpec>(&mixer)) return &parallel->attention;
    return std::get_if<AttentionSpec>(&mixer);
  }
  const LatentAttentionSpec* latent() const { return std::get_if<LatentAttentionSpec>(&mixer); }

  /// Returns Mamba 2, alone or in parallel with attention; null if there is none.
  const Mamba2Spec* mamba() const {
    if (const auto* parallel = std::get_if<ParallelMixersSpec>(&mixer)) return &parallel->mamba;
    return std::get_if<Mamba2Spec>(&mixer);
  }

  bool has_mixer() const { return !std::holds_alternative<NoMixerSpec>(mixer); }
  bool reads_source() const { return std::holds_alternative<CrossAttentionSpec>(mixer); }

  bool operator==(const LayerSpec&) const = default;
};

/// The encoder of a model that reads a source text and writes a text from it. Its layers are the first of
/// ModelSpec::layers. Each block of the decoder is two layers after them: attention to its own text, without an MLP,
/// then CrossAttentionSpec and the MLP.
struct EncoderSpec {
  std::size_t layers = 0;
  int start_token = 0;  ///< with which the decoder's text begins

  bool operator==(const EncoderSpec&) const = default;
};

/// Positions as sines and cosines of angles, which are added to the embedding (arXiv:1706.03762): the first half of the
/// channels has the sines, the second the cosines. Pair i has the angle position / 10000^(i / steps).
struct SinusoidSpec {
  std::size_t steps = 0;

  bool operator==(const SinusoidSpec&) const = default;
};

/// Each layer's own input of a token, independent of earlier tokens: `size` channels, the sum of the token's row in a
/// table and a normalized projection of its embedding. A gate that reads the stream multiplies them, and a projection
/// of the result, normalized, is added to the stream after the layer's MLP.
struct TokenInputSpec {
  std::size_t size = 0;
  double table_scale = 1.0;         ///< factor on the table's values
  double projection_epsilon = 0.0;  ///< of the projection's norm
  double scale = 1.0;               ///< factor on the sum

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
  bool mixer_input = false;   ///< input projections of Mamba 2 or a short convolution
  bool mixer_output = false;  ///< output projections of Mamba 2 or a short convolution
  bool up = false;            ///< up, and the gate of a gated MLP
  bool down = false;
  bool router = false;
  bool head = false;
  bool head_transform = false;
  bool classifier = false;
  bool classifier_transform = false;
};

/// How a text's hidden values are reduced to one vector.
enum class Pooling {
  kMean,
  kFirst,  ///< the vector of the first token, BERT's [CLS]
  kLast,
};

/// A linear applied to a pooled vector, and its activation.
struct TextDenseSpec {
  std::string folder;  ///< the folder of its files, next to the model's
  std::size_t inputs = 0;
  std::size_t outputs = 0;
  bool bias = false;
  bool tanh = false;

  bool operator==(const TextDenseSpec&) const = default;
};

/// A text that a model was trained to read before texts of one kind: "query", "document".
struct TextPrompt {
  std::string name;
  std::string text;

  bool operator==(const TextPrompt&) const = default;
};

/// How the original model makes vectors of texts, if it specifies it.
struct TextVectorSpec {
  Pooling pooling = Pooling::kMean;
  bool normalized = true;              ///< to length 1, at the end
  std::size_t most_tokens = 0;         ///< longer texts are truncated; 0: the context
  std::vector<TextDenseSpec> dense{};  ///< applied one after the other to pooled vectors
  std::vector<TextPrompt> prompts{};
  std::string default_prompt{};  ///< the name of the prompt of texts without another one; empty: none

  bool operator==(const TextVectorSpec&) const = default;
};

/// A score that is read from a decoder's head: the logit of one token, or its difference to that of another one, after
/// a chat whose messages have the roles `query` and `document`.
struct TokenScoreSpec {
  int token = 0;                     ///< "yes"
  std::optional<int> other_token{};  ///< "no"
  std::string instruction{};         ///< a message with the role `system`; empty: none
  std::string template_arguments{};  ///< JSON object; empty: none

  bool operator==(const TokenScoreSpec&) const = default;
};

/// Scores of a text or of each of its tokens, one for each label: a linear of hidden values after the last norm.
struct ClassifierSpec {
  /// The function that makes probabilities of scores.
  enum class Function { kNone, kSigmoid, kSoftmax };

  std::vector<std::string> labels;
  bool of_tokens = false;                 ///< each token has scores; else the text has
  Pooling pooling = Pooling::kFirst;      ///< of the tokens of a text
  bool pools_scores = false;              ///< the tokens' scores are pooled, not their hidden values
  std::optional<Activation> transform{};  ///< a linear and this activation come first
  bool transform_norm = false;            ///< after them comes a norm
  Function function = Function::kNone;
  std::optional<TokenScoreSpec> token_score{};  ///< the linear is made of rows of the head

  bool operator==(const ClassifierSpec&) const = default;
};

/// Sizes count elements.
struct ModelSpec {
  std::string architecture;  ///< `model_type` of config.json: "llama"
  std::size_t hidden_size = 0;
  std::size_t embedding_size =
      0;  ///< channels of the embedding, which a linear projects to hidden values; 0: none does
  std::size_t vocab_size = 0;
  std::size_t context_length = 0;
  std::size_t long_context = 0;    ///< the context with the rotations' long factors; 0: there is none
  bool tied_embeddings = false;    ///< the head is the embedding
  bool causal = true;              ///< false: an encoder, in which every token attends to all, or to all in its window
  bool learned_positions = false;  ///< a table of positions is added to the embedding; an encoder has its own
  std::optional<SinusoidSpec> sinusoids{};
  std::size_t first_position = 0;  ///< the row of that table, or the position in the angles, for the first token
  std::optional<EncoderSpec> encoder{};

  NormSpec norm;
  BlockLayout layout = BlockLayout::kPreNorm;
  bool post_norms = false;  ///< norms of the outputs of mixer and MLP, in addition to the layout's
  std::optional<TokenInputSpec> token_inputs{};
  bool layer_scales = false;    ///< after each layer a factor multiplies the residual stream
  double residual_scale = 1.0;  ///< factor on what is added to the residual stream, after that norm
  std::vector<LayerSpec> layers;

  double embedding_scale = 1.0;  ///< factor on the embeddings
  double logit_scale = 1.0;
  double logit_cap = 0.0;  ///< a scaled logit x becomes cap tanh(x / cap); 0: no cap

  BiasSpec biases;
  std::size_t token_types = 0;               ///< rows of a table of which one is added to every embedding
  bool embedding_norm = false;               ///< a norm of the embedding
  std::optional<Activation> head_transform;  ///< a linear, this activation and a norm before the head
  bool has_head = true;                      ///< false: the model returns hidden values; there are no logits
  bool draft_head = false;                   ///< the last layer is a draft head's: model::ModelSource::draft_head()
  bool draft_reads_hidden_first = false;  ///< the draft head's projection reads the embedding after the model's output
  std::optional<TextVectorSpec> text_vectors{};
  std::optional<ClassifierSpec> classifier{};  ///< without a head, unless it has a token_score

  std::vector<int> stop_tokens;  ///< ids that end a generation

  /// Returns the channels of the embedding's tables and norm, and of the head's input.
  std::size_t embedding_channels() const { return embedding_size > 0 ? embedding_size : hidden_size; }

  /// Returns whether a layer belongs to the encoder of a model that has a decoder, too.
  bool in_encoder(std::size_t layer) const { return encoder && layer < encoder->layers; }

  /// Returns whether a layer's tokens see only those before them.
  bool is_causal(std::size_t layer) const { return causal && !in_encoder(layer); }

  /// Returns whether the outputs of a block's halves are added to the residual stream unchanged.
  bool adds_returned() const { return !normalizes_returned() && residual_scale == 1.0; }

  /// Returns whether norms write what is added to the residual stream.
  bool normalizes_returned() const { return post_norms || token_inputs || layout == BlockLayout::kOutputNorm; }

  /// Returns whether any layer has experts.
  bool has_experts() const {
    for (const LayerSpec& layer : layers) {
      if (layer.mlp.experts) return true;
    }
    return false;
  }

  /// Returns whether the model was trained for vectors of texts, or can be: it is no plain decoder.
  bool makes_vectors() const { return text_vectors || !causal || !has_head; }

  /// Returns whether the checkpoint has tensors of a classifier.
  bool stores_classifier() const { return classifier && !classifier->token_score; }

  /// Returns whether a norm follows the last layer and is not its own.
  bool has_final_norm() const {
    return layout != BlockLayout::kPostNorm && (layers.empty() || !layers.back().stream_norm);
  }

  /// Returns the first layer's attention, null if there is none.
  const AttentionSpec* first_attention() const {
    for (const LayerSpec& layer : layers) {
      if (const AttentionSpec* attention = layer.attention()) return attention;
    }
    return nullptr;
  }
};

/// Calls change(attention) for every layer with attention.
template <typename Change>
void for_each_attention(ModelSpec& spec, const Change& change) {
  for (LayerSpec& layer : spec.layers) {
    if (AttentionSpec* attention = layer.attention()) change(*attention);
  }
}

/// The sampling values of a model's generation_config.json, or of a GGUF's general.sampling: the defaults of
/// GenerateOptions with the same names. Empty: the model has none.
struct GenerationDefaults {
  std::optional<double> temperature{};  ///< 0 for do_sample: false, 1 for do_sample: true without a temperature
  std::optional<std::size_t> top_k{};
  std::optional<double> top_p{};
  std::optional<double> min_p{};
  std::optional<double> repetition_penalty{};

  bool operator==(const GenerationDefaults&) const = default;
  bool empty() const { return *this == GenerationDefaults{}; }
};

/// Returns "temperature 0.6, top_p 0.9"; empty if there are no values.
std::string generation_defaults_text(const GenerationDefaults& defaults);

}  // namespace ballast

#endif  // BALLAST_SPEC_H_
