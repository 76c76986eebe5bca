// The properties of a text answer that do not depend on its API.
#ifndef BALLAST_SERVE_SERVICE_ANSWER_SHAPE_H_
#define BALLAST_SERVE_SERVICE_ANSWER_SHAPE_H_

#include <cstddef>
#include <optional>
#include <string>

namespace ballast::serve {

struct AnswerShape {
  bool stream = false;
  bool echo = false;  ///< texts begin with their prompts
  std::size_t prompts = 1;
  std::size_t choices = 1;                       ///< for each prompt
  std::optional<std::size_t> logprobs{};         ///< number of most likely tokens returned for each token
  std::optional<std::size_t> prompt_logprobs{};  ///< the same for each token of the prompt
  bool repeats_answer = false;                   ///< the last event of a stream has the whole answer
  bool show_special_tokens = false;
  bool shows_thinking = true;      ///< for chats
  std::string constraint_field{};  ///< the request's field that restricts the text; empty: none
};

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_SERVICE_ANSWER_SHAPE_H_
