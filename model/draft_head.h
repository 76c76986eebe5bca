// A checkpoint's head for multi-token prediction, which drafts tokens.
#ifndef BALLAST_MODEL_DRAFT_HEAD_H_
#define BALLAST_MODEL_DRAFT_HEAD_H_

#include <cstddef>
#include <span>
#include <vector>

#include "ballast/spec.h"
#include "kernels/attention/key_value_pages.h"
#include "model/block/weights.h"
#include "model/embedding_and_head.h"
#include "model/forward/forward.h"
#include "model/mixer/sequence_state.h"
#include "model/structure/assemble_block.h"

namespace ballast::model {

/// Consecutive tokens of one text for a draft head: after `hidden` row i comes tokens[i].
struct DraftHeadTokens {
  std::span<const int> tokens;    ///< at least one
  const float* hidden = nullptr;  ///< [tokens.size()][hidden_size]
  SequenceState* state = nullptr;
};

/// Buffers of a draft head, reused from call to call. One thread at a time.
struct DraftHeadWorkspace {
  std::vector<PlacedToken> tokens;
  std::vector<BatchSequence> batch;
  std::vector<float> embedded;
  std::vector<float> hidden;
  std::vector<float> inputs;  ///< of the projection, [rows][2 * hidden_size]
  RopeAngles angles;
  BlockActivations activations;
};

/// A head for multi-token prediction as in DeepSeek-V3 (arXiv:2412.19437, section 2.2): from the model's output for a
/// token and the token after it, a projection and one block compute what the model's head turns into the logits of the
/// token that follows. Its own output takes the place of the model's to go further. Immutable: any number of threads
/// may run it, each with its own workspace.
class DraftHead {
 public:
  /// `spec` and `parts` are those of ModelSource::draft_head(), `parts` of the spec's last layer.
  DraftHead(const ModelSpec& spec, const BlockParts& parts);

  /// Returns the state of a text without tokens, of which all states that are to share memory are copies. A state may
  /// begin at any token of a text: the head then does not see those before it.
  SequenceState make_state(std::size_t capacity) const;

  /// Applies the model's last norm to outputs of its last block, [rows][hidden_size], in place.
  void normalize(float* hidden, std::size_t rows) const { model_norm_.apply(hidden, rows, hidden); }

  /// Runs the head, whose hidden rows are normalized outputs of the model's last block or outputs of the head itself,
  /// and advances the states. Writes its output for the last token of each text, [batch.size()][hidden_size], which may
  /// be its input; the model's head reads it. Precondition: the tokens are in the vocabulary.
  void forward(std::span<const DraftHeadTokens> batch, const Embedding& embedding, float* output,
               DraftHeadWorkspace& workspace) const;

 private:
  void project(std::size_t rows, DraftHeadWorkspace& workspace) const;

  std::size_t layer() const { return spec_.layers.size() - 1; }

  ModelSpec spec_;
  Norm embedding_norm_, model_norm_, hidden_norm_;
  Linear projection_;
  BlockWeights block_;
  Norm norm_;
  RopeTable rope_;
};

}  // namespace ballast::model

#endif  // BALLAST_MODEL_DRAFT_HEAD_H_
