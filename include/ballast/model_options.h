// How a model is loaded: for which context, and with how much memory for the experts of a mixture.
#ifndef BALLAST_MODEL_OPTIONS_H_
#define BALLAST_MODEL_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace ballast {

struct ModelOptions {
  /// What the inputs become of matrices that a GGUF keeps in blocks of codes, or that another program quantized:
  /// integers, which are multiplied with the codes, or floats, for which the matrices are decoded. Directories that
  /// ballast wrote say this themselves.
  enum class Activations { kInt8, kInt16, kFloat };
  Activations activations = Activations::kInt8;

  /// A file with the Jinja text of a chat template, in place of the model's own. Empty: that one.
  std::filesystem::path chat_template{};

  /// Whether Model::generation_defaults() are what the model's makers say; else there are none. The tokens that end a
  /// text are the makers' always.
  bool generation_config = true;

  /// Bytes for experts in memory: the others are read from the model's files when a token is sent to them, and the ones
  /// that were not used for the longest time make room. What the model computes is the same, to the bit. 0: all experts
  /// are in memory.
  std::uint64_t expert_bytes = 0;

  /// Tokens that a sequence shall have room for, prompt and continuation together. More than the model's own context
  /// are possible where it has a longer one (ModelSpec::long_context), which then holds for all sequences, the short
  /// ones, too: their results differ from those in the model's own. 0: that one.
  std::size_t context = 0;

  /// Gets a line where the weights lose something as they are loaded (blocks of a GGUF that no kernel multiplies are
  /// rounded to INT8), and where the tokenizer's files contradict each other. May be null.
  std::function<void(const std::string& line)> tell{};
};

/// What ModelOptions::expert_bytes came to so far.
struct ExpertFigures {
  std::uint64_t budget = 0;        ///< bytes
  std::uint64_t bytes = 0;         ///< of the experts that are in memory now
  std::size_t experts = 0;         ///< of the model
  std::size_t in_memory = 0;       ///< of these, now
  std::uint64_t used = 0;          ///< experts that layers needed, each once for all tokens that pass a layer together
  std::uint64_t found = 0;         ///< of these, in memory already
  std::uint64_t loaded_bytes = 0;  ///< of those that were not

  /// 1 when nothing was needed yet.
  double hit_rate() const { return used == 0 ? 1.0 : static_cast<double>(found) / static_cast<double>(used); }
};

}  // namespace ballast

#endif  // BALLAST_MODEL_OPTIONS_H_
