// The weights before a model's first block and after its last one: embeddings, the final norm, the head.
#ifndef BALLAST_MODEL_EMBEDDING_AND_HEAD_H_
#define BALLAST_MODEL_EMBEDDING_AND_HEAD_H_

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "ballast/spec.h"
#include "kernels/matrix/quantized_matrix.h"
#include "model/block/adapter.h"
#include "model/block/weights.h"
#include "model/forward/forward.h"
#include "model/structure/assemble_block.h"
#include "model/token_input.h"

namespace ballast::model {

/// Returns the number of values of a token's inputs to all layers: 0 where the spec has no TokenInputSpec.
inline std::size_t token_input_width(const ModelSpec& spec) {
  return spec.token_inputs ? spec.layers.size() * spec.token_inputs->size : 0;
}

/// Returns one layer's part of the rows that Embedding::add_token_inputs appends.
inline StridedRows token_inputs_of_layer(const ModelSpec& spec, const float* inputs, std::size_t layer) {
  if (!spec.token_inputs) return {};
  return {.rows = inputs + layer * spec.token_inputs->size, .stride = token_input_width(spec)};
}

struct PlacedToken {
  TokenInput input;
  std::size_t position = 0;
  const AddedRows* added = nullptr;  ///< to the table; null: nothing
};

/// Computes the first block's input from tokens.
class Embedding {
 public:
  Embedding(const ModelSpec& spec, const BlockParts& parts);

  /// Throws Error for an id that is not in the vocabulary, or for a position or a token type that a table of them does
  /// not have.
  void check(const TokenSpan& tokens, std::size_t position) const;

  /// The text that is embedded: the model's own, or the source text of an encoder before a decoder.
  enum class Text { kOwn, kSource };

  /// Writes the first block's input, hidden [tokens.size()][hidden_size]. Precondition: check() does not throw.
  void embed(std::span<const PlacedToken> tokens, float* hidden, Text text = Text::kOwn) const;

  /// Embeds consecutive tokens, the first of which is at `position`. Throws what check() does.
  void embed(const TokenSpan& tokens, std::size_t position, float* hidden, Text text = Text::kOwn) const;

  /// Writes a token's row [ModelSpec::embedding_channels()] before positions, token types and the norm are applied: the
  /// row that it brings, or the table's row of its id, with what an adapter adds, times the embedding's scale.
  void scaled_row(const TokenInput& token, float* dst, const AddedRows* added = nullptr) const;

  /// Appends the inputs that the layers get of consecutive tokens, [tokens.size()][layers * TokenInputSpec::size], or
  /// nothing where the spec has no such inputs. `embedded` is the result of embed() for the tokens.
  void add_token_inputs(const TokenSpan& tokens, const float* embedded, LinearScratch& scratch,
                        std::vector<float>& inputs) const;

  /// Embeds the tokens and appends the same. Throws what check() does.
  void add_token_inputs(const TokenSpan& tokens, std::vector<float>& inputs) const;

  /// Returns whether embed() reads a mapped file while it runs.
  bool lies_in_file() const;

  const Linear& table() const { return table_; }
  Linear& table() { return table_; }

 private:
  /// What is added to the rows of tokens.
  struct Additions {
    std::optional<Linear> positions;
    Norm norm;  ///< without a gain: no norm
  };

  void add_sinusoids(std::size_t position, float* row) const;
  void embed_rows(std::span<const PlacedToken> tokens, float* rows, Text text) const;

  std::size_t hidden_size_;
  std::size_t channels_;  ///< ModelSpec::embedding_channels()
  std::size_t token_types_;
  std::size_t first_position_;     ///< row of the table of positions
  std::vector<double> sinusoids_;  ///< the angle of each pair at position 1; empty: none
  float scale_;
  Linear table_;
  Additions own_, of_source_;
  std::vector<float> token_type_rows_;  ///< [token_types_][channels_]
  std::optional<Linear> projection_;

  /// The weights of a TokenInputSpec.
  struct TokenInputs {
    TokenInputSpec spec;
    Linear table, projection;
    Norm norm;
  };
  std::optional<TokenInputs> token_inputs_;
};

/// Computes the head's input from the last block's output.
class HeadPreparation {
 public:
  HeadPreparation(const ModelSpec& spec, const BlockParts& parts);

  /// Writes hidden values [m][hidden_size] after the model's last norm, if it has one. dst may be `hidden`.
  void normalize(const float* hidden, std::size_t m, float* dst) const;

  /// Writes the head's input, [m][ModelSpec::embedding_channels()], which may be `hidden`.
  void prepare(const float* hidden, std::size_t m, float* dst, LinearScratch& scratch) const;

  const std::optional<Linear>& transform() const { return transform_; }  ///< reads the normalized values

 private:
  std::size_t hidden_size_;
  std::size_t head_inputs_;
  bool normalizes_;
  Norm final_norm_;
  std::optional<Linear> transform_;
  Activation activation_{};  ///< of the transformed values
  Norm head_norm_;
};

/// The embedding, the head, and the norm and transform before the head.
class EmbeddingAndHead {
 public:
  EmbeddingAndHead(const ModelSpec& spec, const BlockParts& parts);

  const Embedding& embedding() const { return embedding_; }

  const HeadPreparation& preparation() const { return preparation_; }

  /// Writes logits [count][vocab_size] for prepared rows. The step's adapters are those of the head.
  void head(const float* prepared, const StepRows& step, float* logits, LinearScratch& scratch) const;

  const Linear& head_linear() const { return head_ ? *head_ : embedding_.table(); }
  std::size_t streamed_bytes() const;  ///< bytes that are read for one token's logits

 private:
  void scale_and_cap(float* logits, std::size_t m) const;

  ModelSpec spec_;
  Embedding embedding_;
  HeadPreparation preparation_;
  std::optional<Linear> head_;  ///< empty if it is the embedding
};

}  // namespace ballast::model

#endif  // BALLAST_MODEL_EMBEDDING_AND_HEAD_H_
