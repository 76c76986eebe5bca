// Options of loading a model: its context, and the memory for the experts of a mixture.
#ifndef BALLAST_MODEL_OPTIONS_H_
#define BALLAST_MODEL_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "ballast/activation_type.h"
#include "ballast/compute_options.h"

namespace ballast {

struct ModelOptions {
  /// The type of the inputs of matrices that a GGUF stores in blocks of codes, or that another program quantized:
  /// integers, which are multiplied with the codes, or floats, for which the matrices are decoded. Directories that
  /// ballast wrote have this in their config.json.
  ActivationType activations = ActivationType::kInt8;

  /// How floats are multiplied. Loading throws Error if this machine has no such products.
  ComputeOptions compute{};

  /// A file with the Jinja text of a chat template that replaces the model's own. Empty: the model's own.
  std::filesystem::path chat_template{};

  /// Whether Model::generation_defaults() has the model's recommended values; otherwise it is empty. The tokens that
  /// end a text are not affected.
  bool generation_config = true;

  /// Bytes for experts in memory: the others are read from the model's files when a token is routed to them, and the
  /// least recently used ones are evicted. The results are the same, to the bit. 0: all experts are in memory.
  std::uint64_t expert_bytes = 0;

  /// The number of tokens that a sequence needs room for, prompt and continuation together. It may exceed the model's
  /// context if there is a longer one (ModelSpec::long_context), which then applies to all sequences, also short ones:
  /// their results differ from those in the normal context. 0: the normal context.
  std::size_t context = 0;

  /// Whether a checkpoint's head for multi-token prediction is loaded, too, which then drafts tokens
  /// (GenerateOptions::draft_tokens) unless a draft model does. Not if experts are left on disk.
  bool draft_head = false;

  /// Receives a line if weights lose precision while they are loaded (blocks of a GGUF that no kernel multiplies are
  /// rounded to INT8), and if the tokenizer's files contradict each other. May be null.
  std::function<void(const std::string& line)> tell{};
};

/// Statistics of the expert cache.
struct ExpertFigures {
  std::uint64_t budget = 0;        ///< bytes
  std::uint64_t bytes = 0;         ///< of the experts that are in memory now
  std::size_t experts = 0;         ///< of the model
  std::size_t in_memory = 0;       ///< of these, now
  std::uint64_t used = 0;          ///< experts that layers needed, each once per layer and batch of tokens
  std::uint64_t found = 0;         ///< of these, experts that were in memory
  std::uint64_t loaded_bytes = 0;  ///< of those that were loaded

  /// Returns 1 if none was needed yet.
  double hit_rate() const { return used == 0 ? 1.0 : static_cast<double>(found) / static_cast<double>(used); }
};

}  // namespace ballast

#endif  // BALLAST_MODEL_OPTIONS_H_
