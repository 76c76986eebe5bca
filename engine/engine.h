// Runs many sequences over one model: prompts and single tokens in one ragged batch.
#ifndef BALLAST_ENGINE_ENGINE_H_
#define BALLAST_ENGINE_ENGINE_H_

#include <sys/types.h>
#include <unistd.h>

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "engine/sequence.h"
#include "model/model.h"

namespace ballast::engine {

/// May be called from any number of threads: calls that arrive during a step are merged into the next one, which one of
/// them leads. A sequence's results do not depend on the rest of the batch: see model::Model.
class Engine {
 public:
  /// The model must outlive it.
  explicit Engine(const model::Model& model) : model_(model) {}

  /// Runs the pending tokens of each sequence and stores the logits that it wants. Throws Error, with all sequences
  /// unchanged, for a token that is not in the vocabulary or more tokens than fit. If memory runs out, all calls of the
  /// step fail, and those of their sequences that had run have no logits: replace() their tokens and step again. A
  /// sequence is in one call at a time. Also throws Error in a process that was forked during another thread's step.
  void step(std::span<Sequence* const> sequences);
  void step(Sequence& sequence);

  /// Runs the encoder over source texts: model::Model::encode. Waits for a step that is running. Throws Error as that
  /// does and as step() does.
  std::vector<std::shared_ptr<model::EncodedSource>> encode(std::span<const model::TokenSpan> texts,
                                                            kernels::CacheType type);

 private:
  /// A call of step().
  struct Call {
    std::span<Sequence* const> sequences;
    bool done = false;
    std::exception_ptr failure{};
  };

  void follow_fork();
  void run(std::span<Call* const> calls);
  void forward();
  static std::size_t kept_rows(const Sequence& sequence, std::size_t wanted);
  std::span<const float> keep_hidden(std::span<const float> hidden);
  void write_outputs(std::span<const float> hidden);
  model::StepRows head_rows(std::size_t first, std::size_t end, std::size_t begin_row, std::size_t count);
  void write_logits(std::span<const float> hidden, std::size_t first, std::size_t end);
  void write_hidden(std::span<const float> hidden, std::size_t first, std::size_t end);
  void hand_over(Sequence& sequence, std::size_t first, std::span<const float> rows) const;

  const model::Model& model_;
  std::mutex mutex_;
  std::condition_variable finished_;
  bool led_ = false;            ///< a call is leading a step
  std::vector<Call*> waiting_;  ///< for the next step
  pid_t process_ = ::getpid();  ///< the process whose threads made the calls

  // Used only by the leading call; kept, so that a token needs no allocation.
  std::vector<Call*> calls_;
  std::vector<Sequence*> sequences_;
  std::vector<model::SequenceTokens> batch_;
  model::Workspace workspace_;
  std::vector<float> logits_;
  std::vector<float> wanted_hidden_;                      ///< rows that are wanted, where sequences keep others, too
  std::vector<std::size_t> row_ends_;                     ///< of neighbours whose rows are read together
  std::vector<const model::AdapterPart*> head_adapters_;  ///< of the same
};

}  // namespace ballast::engine

#endif  // BALLAST_ENGINE_ENGINE_H_
