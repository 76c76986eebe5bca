// From the logits of a prompt to a whole answer.
#ifndef BALLAST_ENGINE_GENERATION_H_
#define BALLAST_ENGINE_GENERATION_H_

#include <cstddef>
#include <span>

#include "ballast/generate.h"
#include "engine/continuation.h"
#include "engine/engine.h"
#include "engine/sequence.h"
#include "engine/speculation.h"

namespace ballast::engine {

/// One text: tokens out of a sequence's logits, until something ends it.
class Generation {
 public:
  /// Of a sequence whose prompt has run; speculation may be null. Writes text, thinking, tokens, finish and what became
  /// of drafts to `result`, at most `limit` tokens.
  Generation(Engine& engine, Sequence& sequence, Continuation& continuation, Speculation* speculation,
             std::size_t limit, const OnGenerateStep& on_step, GenerateResult& result)
      : engine_(engine),
        sequence_(sequence),
        continuation_(continuation),
        speculation_(speculation),
        limit_(limit),
        on_step_(on_step),
        result_(result) {}

  /// Until the text ends.
  void run();

 private:
  using Finish = GenerateResult::Finish;

  bool ended() const { return result_.finish != Finish::kLength || result_.tokens.size() == limit_; }
  void take_chosen();
  void take(GeneratedToken token);
  void tell(const GeneratedToken* token);
  void tell_step(const GenerateStep& step);
  void step();

  Engine& engine_;
  Sequence& sequence_;
  Continuation& continuation_;
  Speculation* speculation_;
  std::size_t limit_;
  const OnGenerateStep& on_step_;
  GenerateResult& result_;
  std::span<const int> draft_;  ///< that the last step ran after the last token
  bool cancelled_ = false;
};

}  // namespace ballast::engine

#endif  // BALLAST_ENGINE_GENERATION_H_
