// Generates a whole answer, starting from the logits of a prompt.
#ifndef BALLAST_ENGINE_GENERATION_H_
#define BALLAST_ENGINE_GENERATION_H_

#include <cstddef>
#include <span>

#include "ballast/generate.h"
#include "engine/engine.h"
#include "engine/output_processor.h"
#include "engine/sequence.h"
#include "engine/speculation.h"

namespace ballast::engine {

/// Generates one text from a sequence until it ends.
class Generation {
 public:
  /// The sequence's prompt has run; speculation may be null, draft_state is its drafter's. Writes text,
  /// thinking, tokens, finish and the counts of drafts to `result`, at most `limit` tokens.
  Generation(Engine& engine, Sequence& sequence, OutputProcessor& output, Speculation* speculation,
             DraftState& draft_state, std::size_t limit, const OnGenerateStep& on_step, GenerateResult& result)
      : engine_(engine),
        sequence_(sequence),
        output_(output),
        speculation_(speculation),
        draft_state_(draft_state),
        drafts_(speculation == nullptr ? 0 : speculation->most_tokens()),
        limit_(limit),
        on_step_(on_step),
        result_(result) {}

  /// Runs until the text ends.
  void run();

 private:
  using Finish = GenerateResult::Finish;

  bool ended() const { return result_.finish != Finish::kLength || result_.tokens.size() == limit_; }
  void take_chosen();
  void take(GeneratedToken token);
  void tell(const GeneratedToken* token);
  void add_to_result(const ReplyPart& part);
  void tell_step(const GenerateStep& step);
  void find_draft();
  void step();

  Engine& engine_;
  Sequence& sequence_;
  OutputProcessor& output_;
  Speculation* speculation_;
  DraftState& draft_state_;
  TextDrafts drafts_;  ///< with the draft tokens that the last step ran
  std::size_t limit_;
  const OnGenerateStep& on_step_;
  GenerateResult& result_;
  bool cancelled_ = false;
};

}  // namespace ballast::engine

#endif  // BALLAST_ENGINE_GENERATION_H_
