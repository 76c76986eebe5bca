// Beam search over the texts that a decoder can write from one source text.
#ifndef BALLAST_ENGINE_BEAM_SEARCH_H_
#define BALLAST_ENGINE_BEAM_SEARCH_H_

#include <cstddef>
#include <span>
#include <vector>

#include "ballast/translate.h"

namespace ballast::engine {

/// The search for one text, in the order of Hugging Face's transformers: of all continuations of the beams by one token
/// the best are kept; those that end a text compete with the texts that ended before, by their scores per length. With
/// one beam the most likely token is chosen until it ends the text. Logits come from outside.
class BeamSearch {
 public:
  /// `start`: tokens before the text, which repetition counts. `ends`: tokens that end a text. `most_tokens`: of a
  /// text, more than 0. The options must outlive this.
  BeamSearch(const TranslateOptions& options, std::span<const int> start, std::span<const int> ends,
             std::size_t most_tokens);

  /// A text that may go on.
  struct Beam {
    std::size_t parent = 0;   ///< its beam before the last token
    std::vector<int> tokens;  ///< after `start`
    float score = 0;          ///< the sum of log-probabilities
  };

  /// Returns the beams: at the beginning one without tokens.
  const std::vector<Beam>& beams() const { return beams_; }

  bool ended() const { return ended_; }

  /// Takes the logits of the tokens after each beam.
  void advance(std::span<const std::span<const float>> logits);

  /// Returns the complete texts, the best first. Precondition: ended().
  std::vector<WrittenText> results() const;

 private:
  struct Candidate {
    float score = 0;
    std::size_t beam = 0;
    int token = 0;
  };

  /// The log-probabilities of the tokens after a beam: scores less `sum`.
  struct Continuations {
    std::span<const float> scores{};
    float sum = 0;
  };

  bool changes_scores(std::size_t tokens) const;
  bool is_end(int token) const;
  std::size_t length() const { return beams_.front().tokens.size(); }
  void forbid(int token);
  void score_tokens(const Beam& beam, std::span<const float> logits);
  void force(int token);
  void penalize_repetition(const Beam& beam);
  void forbid_repeated_sequences(const Beam& beam);
  void forbid_sequences(const Beam& beam);
  void add_candidates(std::size_t beam);
  void choose_greedily();
  void choose_beams();
  void keep_complete(const Candidate& candidate);
  bool can_improve() const;
  float divided_by_length(float score, std::size_t tokens) const;

  const TranslateOptions* options_;
  std::vector<int> start_;
  std::vector<int> ends_;
  std::size_t most_tokens_;
  std::size_t candidates_at_once_;
  std::vector<Beam> beams_;
  std::vector<WrittenText> complete_;  ///< the best first, at most as many as beams
  std::vector<float> scores_;          ///< of the tokens after one beam, where options change any
  Continuations next_;                 ///< of the beam of the last score_tokens()
  std::vector<Candidate> candidates_;  ///< the best first
  bool ended_ = false;
};

}  // namespace ballast::engine

#endif  // BALLAST_ENGINE_BEAM_SEARCH_H_
