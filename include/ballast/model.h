// A loaded model: text to token ids and back, logits, and what generators share.
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

#include "ballast/chat.h"
#include "ballast/embed.h"
#include "ballast/model_options.h"
#include "ballast/progress.h"
#include "ballast/spec.h"
#include "ballast/tensor.h"

namespace ballast {

/// A handle of weights and tokenizer, immutable once loaded: copies share both. All calls may come from any number of
/// threads at once; those that run the model take turns, a step of one beside a step of the others (a model's own
/// prefix apart).
class Model {
 public:
  /// A Hugging Face directory, a .gguf file, or a directory that ballast wrote. Throws Error.
  explicit Model(const std::filesystem::path& path, const ModelOptions& options = {});
  ~Model();
  Model(const Model&);
  Model& operator=(const Model&);
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;

  const std::filesystem::path& path() const;
  const ModelSpec& spec() const;

  /// Tokens that a sequence can have, prompt and continuation together.
  std::size_t context_length() const;

  /// What leaving experts on disk came to so far; empty without ModelOptions::expert_bytes.
  std::optional<ExpertFigures> expert_figures() const;

  /// Whether the model came with a tokenizer. Without one the calls on text below throw Error.
  bool has_tokenizer() const;

  /// Token ids of a text; with `special_tokens` also those that the model wants around every text (BOS), but none after
  /// a text that a model may continue. Invalid UTF-8 is read as U+FFFD. Throws Error for a text with a special token
  /// that the model's embedding has no row for.
  std::vector<int> encode(std::string_view text, bool special_tokens = true) const;

  /// The text of token ids, special tokens left out. Ids that no token has give nothing.
  std::string decode(std::span<const int> ids) const;

  /// Bytes of one token, special tokens' included; they may be a part of a UTF-8 sequence.
  std::string token_bytes(int id) const;

  /// Ids that end a text.
  std::vector<int> stop_tokens() const;

  /// How the model's makers want answers sampled; empty where they do not say, and by ModelOptions::generation_config.
  const GenerationDefaults& generation_defaults() const;

  /// The prompt for a conversation by the model's chat template, ending where the assistant's answer begins; BOS is a
  /// part of it where the template writes one. Throws Error for a template that is not supported and for a conversation
  /// that it refuses. `template_arguments`: as in GenerateOptions.
  std::string chat_prompt(std::span<const ChatMessage> messages, const std::string& template_arguments = {}) const;

  /// Logits [ids.size()][vocab_size] of a sequence of its own, with a cache in F32. Throws Error for an id that is not
  /// in the vocabulary, for more tokens than the context has, for logits that are not finite, and for a model without a
  /// head.
  Tensor logits(std::span<const int> ids) const;

  /// Natural logarithms of the probability of each id given those before it, [ids.size() - 1] for ids[1] and on: a
  /// text's score, without keeping a vocabulary's width for each token. Throws as logits() does, and for an encoder.
  std::vector<double> log_probabilities(std::span<const int> ids) const;

  /// The residual stream after a layer, [ids.size()][hidden_size], of a sequence of its own, with a cache in F32: what
  /// calibration measures (LayerStatistics). Layers count from 1; 0 is the embedding. Throws as logits() does, without
  /// need of a head, and for a layer that the model does not have.
  Tensor activations(std::span<const int> ids, std::size_t layer) const;

  /// A vector of each text. The texts run together; what one gives does not depend on the others. Throws Error for a
  /// text without tokens.
  TextVectors embed(std::span<const std::string> texts, const EmbedOptions& options = {},
                    const Progress& progress = {}) const;

 private:
  friend class Generator;
  struct State;
  std::shared_ptr<const State> state_;
};

}  // namespace ballast

#endif  // BALLAST_MODEL_H_
