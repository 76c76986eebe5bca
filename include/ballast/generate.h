// Running a model: prompts in, text out.
#ifndef BALLAST_GENERATE_H_
#define BALLAST_GENERATE_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/cache.h"

namespace ballast {

struct GenerateOptions {
  std::size_t max_tokens = 128;
  double temperature = 0;  ///< 0: the most likely token always
  std::size_t top_k = 0;   ///< 0: no limit
  double top_p = 1;
  double repetition_penalty = 1;  ///< Keskar et al. 2019; divides positive logits of tokens seen in the last 64
  std::uint64_t seed = 0;
  std::vector<std::string> stop{};  ///< generation ends before any of these
  CacheOptions cache{};
};

struct GenerateResult {
  enum class Finish { kStop, kLength, kCancelled };
  Finish finish = Finish::kLength;
  std::string text;
  std::size_t prompt_tokens = 0;
  std::size_t tokens = 0;
  double prompt_seconds = 0;
  double seconds = 0;  ///< of the generated tokens
};

/// A loaded model with one conversation. Not thread-safe.
class Generator {
 public:
  explicit Generator(const std::filesystem::path& model);
  ~Generator();
  Generator(Generator&&) noexcept;
  Generator& operator=(Generator&&) noexcept;

  /// Continues `prompt`. `on_text` gets each piece of text as soon as it is certain (whole characters, no beginning of
  /// a stop string); returning false ends the generation. Every call starts a new context.
  GenerateResult generate(std::string_view prompt, const GenerateOptions& options,
                          const std::function<bool(std::string_view)>& on_text = {});

  /// The same for one user message through the model's chat template, with all earlier messages of this Generator.
  GenerateResult chat(std::string_view message, const GenerateOptions& options,
                      const std::function<bool(std::string_view)>& on_text = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ballast

#endif  // BALLAST_GENERATE_H_
