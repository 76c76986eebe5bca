// Chooses how many draft tokens a step checks.
#ifndef BALLAST_ENGINE_DRAFT_COUNTS_H_
#define BALLAST_ENGINE_DRAFT_COUNTS_H_

#include <cstddef>
#include <span>
#include <vector>

#include "engine/step_times.h"

namespace ballast::engine {

/// The draft tokens that one text offers.
struct DraftOffer {
  std::span<const double> acceptance{};  ///< the probability that token i is accepted once those before it were
  double seconds = 0;                    ///< the time to draft one token
  std::size_t count = 0;                 ///< the result: how many of them are worth their time
};

/// Chooses how many draft tokens of each text a step runs, so that the tokens per second of all texts are the most;
/// none if drafts do not help. Belongs to one thread at a time.
class DraftChooser {
 public:
  /// Reserves memory for this number of offered tokens.
  void reserve(std::size_t tokens) { tokens_.reserve(tokens); }

  /// `rows` is the number of rows of the step without drafts: at least one for each text. Precondition: times.known().
  void choose(std::span<DraftOffer> offers, std::size_t rows, const StepTimes& times);

 private:
  struct Token {
    double reached;  ///< the probability that it is accepted, with all before it
    std::size_t offer;
  };

  std::vector<Token> tokens_;
};

}  // namespace ballast::engine

#endif  // BALLAST_ENGINE_DRAFT_COUNTS_H_
