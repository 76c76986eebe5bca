// What lies before a model's first block and after its last one: embeddings, the final norm, the head.
#ifndef BALLAST_MODEL_OUTER_WEIGHTS_H_
#define BALLAST_MODEL_OUTER_WEIGHTS_H_

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "ballast/spec.h"
#include "kernels/matrix/quantized_matrix.h"
#include "model/block_parts.h"
#include "model/forward/forward.h"
#include "model/weights.h"

namespace ballast::model {

/// Channels of what all layers get of a token: 0 where the spec has no TokenInputSpec.
inline std::size_t token_input_width(const ModelSpec& spec) {
  return spec.token_inputs ? spec.layers.size() * spec.token_inputs->size : 0;
}

/// One layer's part of what Embedding::add_token_inputs appends.
inline StridedRows token_inputs_of_layer(const ModelSpec& spec, const float* inputs, std::size_t layer) {
  if (!spec.token_inputs) return {};
  return {.rows = inputs + layer * spec.token_inputs->size, .stride = token_input_width(spec)};
}

struct PlacedToken {
  int id = 0;
  std::size_t position = 0;
};

/// What lies before the first block.
class Embedding {
 public:
  Embedding(const ModelSpec& spec, const BlockParts& parts);

  /// Throws Error for an id that is not in the vocabulary or a position that a table of positions does not have.
  void check(std::span<const int> ids, std::size_t position) const;

  /// hidden is [tokens.size()][hidden_size]. Precondition: check() lets them pass.
  void embed(std::span<const PlacedToken> tokens, float* hidden) const;

  /// Of consecutive tokens, the first of which is at `position`. Throws what check() does.
  void embed(std::span<const int> ids, std::size_t position, float* hidden) const;

  /// Appends what the layers get of consecutive tokens themselves, [ids.size()][layers * TokenInputSpec::size], or
  /// nothing where the spec has no such inputs. `embedded`: what embed() made of the tokens.
  void add_token_inputs(std::span<const int> ids, const float* embedded, kernels::QuantizedActivations& scratch,
                        std::vector<float>& inputs) const;

  /// The same, for those who have not embedded the tokens. Throws what check() does.
  void add_token_inputs(std::span<const int> ids, std::vector<float>& inputs) const;

  /// Whether embed() reads a mapped file.
  bool lies_in_file() const;

  const Linear& table() const { return table_; }
  Linear& table() { return table_; }
  std::size_t weights() const;  ///< elements of everything here

 private:
  std::size_t hidden_size_;
  std::size_t token_types_;
  float scale_;
  Linear table_;
  std::optional<Linear> positions_;
  std::vector<float> token_type_;  ///< the first row of its table, or empty
  Norm norm_;                      ///< its gain is empty when there is none

  /// Of TokenInputSpec.
  struct TokenInputs {
    TokenInputSpec spec;
    Linear table, projection;
    Norm norm;
  };
  std::optional<TokenInputs> token_inputs_;
};

/// What lies between the last block and the head.
class HeadPreparation {
 public:
  HeadPreparation(const ModelSpec& spec, const BlockParts& parts);

  /// Hidden values [m][hidden_size] after the model's last norm, where it has one. dst may be `hidden`.
  void normalize(const float* hidden, std::size_t m, float* dst) const;

  /// What the head reads, [m][hidden_size], which may be `hidden`.
  void prepare(const float* hidden, std::size_t m, float* dst, kernels::QuantizedActivations& scratch) const;

  const std::optional<Linear>& transform() const { return transform_; }  ///< reads what is normalized
  std::size_t weights() const { return final_norm_.elements() + transform_weights(); }

 private:
  std::size_t transform_weights() const { return transform_ ? transform_->elements() + head_norm_.elements() : 0; }

  std::size_t hidden_size_;
  bool normalizes_;
  Norm final_norm_;
  std::optional<Linear> transform_;
  Activation activation_{};  ///< of what is transformed
  Norm head_norm_;
};

/// What lies before the first block and after the last one.
class OuterWeights {
 public:
  OuterWeights(const ModelSpec& spec, const BlockParts& parts);

  const Embedding& embedding() const { return embedding_; }

  const HeadPreparation& preparation() const { return preparation_; }

  /// logits [m][vocab_size] of prepared rows.
  void head(const float* prepared, std::size_t m, float* logits, kernels::QuantizedActivations& scratch) const;

  const Linear& head_linear() const { return head_ ? *head_ : embedding_.table(); }
  std::size_t weights() const;         ///< elements of everything here
  std::size_t streamed_bytes() const;  ///< that one token's logits read

 private:
  void scale_and_cap(float* logits, std::size_t m) const;

  ModelSpec spec_;
  Embedding embedding_;
  HeadPreparation preparation_;
  std::optional<Linear> head_;  ///< empty when it is the embedding
};

}  // namespace ballast::model

#endif  // BALLAST_MODEL_OUTER_WEIGHTS_H_
