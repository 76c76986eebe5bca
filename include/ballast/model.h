// A loaded model: tokenization, logits, and the state that generators share.
#ifndef BALLAST_MODEL_H_
#define BALLAST_MODEL_H_

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/adapter.h"
#include "ballast/chat.h"
#include "ballast/classify.h"
#include "ballast/embed.h"
#include "ballast/model_options.h"
#include "ballast/progress.h"
#include "ballast/spec.h"
#include "ballast/tensor.h"
#include "ballast/translate.h"

namespace ballast {

/// A handle of weights and tokenizer, immutable once loaded: copies share both. All methods may be called from any
/// number of threads; those that run the model take turns, and their steps alternate (except for computing a model's
/// own prefix).
class Model {
 public:
  /// Loads a Hugging Face directory, a .gguf file, or a directory that ballast wrote. Throws Error.
  explicit Model(const std::filesystem::path& path, const ModelOptions& options = {});
  ~Model();
  Model(const Model&);
  Model& operator=(const Model&);
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;

  const std::filesystem::path& path() const;
  const ModelSpec& spec() const;

  /// Returns the largest number of tokens of a sequence, prompt and continuation together.
  std::size_t context_length() const;

  /// Loads an adapter of this model, or of the original that was converted to it. Texts with different adapters run in
  /// one batch, each with the same result as alone. Throws Error if the files are wrong or do not fit, and for a model
  /// that ballast wrote before it kept what adapters need.
  Adapter load_adapter(const AdapterFiles& files) const;

  /// Returns the statistics of the expert cache; nullopt without ModelOptions::expert_bytes.
  std::optional<ExpertFigures> expert_figures() const;

  /// Returns whether the model has a tokenizer. Without one the functions on text below throw Error.
  bool has_tokenizer() const;

  /// Returns the token ids of a text; with `special_tokens` also those that the model needs around every text (BOS),
  /// but none after a text that a model may continue. Invalid UTF-8 is read as U+FFFD. Throws Error for a text with a
  /// special token for which the model's embedding has no row.
  std::vector<int> encode(std::string_view text, bool special_tokens = true) const;

  /// Returns the text of token ids without special tokens. Unknown ids have no text.
  std::string decode(std::span<const int> ids) const;

  /// Returns the bytes of a token, also of special ones; they may be a part of a UTF-8 sequence.
  std::string token_bytes(int id) const;

  /// Returns the ids that end a text.
  std::vector<int> stop_tokens() const;

  /// Returns the model's recommended sampling values; empty if it has none, or if disabled by
  /// ModelOptions::generation_config.
  const GenerationDefaults& generation_defaults() const;

  /// Returns the prompt for a conversation by the model's chat template, up to the beginning of the assistant's answer;
  /// it includes BOS if the template writes it. Throws Error for a template that is not supported and for a
  /// conversation that it refuses. `template_arguments`: see GenerateOptions.
  std::string chat_prompt(std::span<const ChatMessage> messages, const std::string& template_arguments = {}) const;

  /// Returns logits [ids.size()][vocab_size] of a new sequence, with a cache in F32. Throws Error for an id that is not
  /// in the vocabulary, for more tokens than the context has, for logits that are not finite, and for a model without a
  /// head.
  Tensor logits(std::span<const int> ids, const Adapter& adapter = {}) const;

  /// Returns natural logarithms of the probability of each id given those before it, [ids.size() - 1] from ids[1] on: a
  /// text's score, without storing the logits of all tokens. Throws like logits(), and for an encoder.
  std::vector<double> log_probabilities(std::span<const int> ids, const Adapter& adapter = {}) const;

  /// Returns the residual stream after a layer, [ids.size()][hidden_size], of a new sequence, with a cache in F32: the
  /// values that calibration measures (LayerStatistics). Layers count from 1; 0 is the embedding. Throws like logits(),
  /// except that no head is needed, and for a layer that the model does not have.
  Tensor activations(std::span<const int> ids, std::size_t layer) const;

  /// Returns a vector of each text. The texts run in batches; the result of one does not depend on the others. Throws
  /// Error for a text without tokens.
  TextVectors embed(std::span<const std::string> texts, const EmbedOptions& options = {},
                    const Progress& progress = {}) const;

  /// Return what models with files for that make of each token (bge-m3): weights of a text's words, from
  /// sparse_linear.pt, and vectors of its tokens, from colbert_linear.pt. Of the options, pooling, `normalized` and
  /// `dimensions` have no effect. Throw Error for a model without the file.
  std::vector<WordWeights> embed_sparse(std::span<const std::string> texts, const EmbedOptions& options = {},
                                        const Progress& progress = {}) const;
  TokenVectors embed_tokens(std::span<const std::string> texts, const EmbedOptions& options = {},
                            const Progress& progress = {}) const;

  /// Returns the scores of each text, or of its tokens, by the model's classifier. Texts run in batches, and the scores
  /// of one do not depend on the others. Throws Error for a model without a classifier and a text without tokens.
  Classification classify(std::span<const std::string> texts, const ClassifyOptions& options = {},
                          const Progress& progress = {}) const;
  Classification classify(std::span<const TextPair> pairs, const ClassifyOptions& options = {},
                          const Progress& progress = {}) const;

  /// Returns a score of each document for the query: a classifier's that has one label, or the cosine of their vectors
  /// if the model has no classifier. Throws Error for other classifiers.
  Ranking rerank(const std::string& query, std::span<const std::string> documents, const ClassifyOptions& options = {},
                 const Progress& progress = {}) const;

  /// Returns the options that the model's files recommend; the defaults if they are disabled by
  /// ModelOptions::generation_config.
  const TranslateOptions& translate_defaults() const;

  /// Writes a text from each source text, with an encoder and a decoder. Texts run in batches; the result of one does
  /// not depend on the others. The second form reads tokens with the special ones, and no languages. Throws Error for a
  /// model without an encoder, an unknown language, and a text that is longer than the context.
  std::vector<Translation> translate(std::span<const std::string> texts, const TranslateOptions& options,
                                     const Progress& progress = {}) const;
  std::vector<Translation> translate(std::span<const std::vector<int>> sources, const TranslateOptions& options,
                                     const Progress& progress = {}) const;

 private:
  friend class Generator;
  struct State;
  std::shared_ptr<const State> state_;
};

}  // namespace ballast

#endif  // BALLAST_MODEL_H_
