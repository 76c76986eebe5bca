// What models think before they answer: the text between <think> and </think>.
#ifndef BALLAST_TOOLS_COMMANDS_THINKING_PARTS_H_
#define BALLAST_TOOLS_COMMANDS_THINKING_PARTS_H_

#include <string>
#include <string_view>
#include <vector>

namespace ballast::tools {

struct TextPart {
  std::string text;  ///< without the tags
  bool thinking = false;

  bool operator==(const TextPart&) const = default;
};

/// Whether an answer to this prompt begins within the thinking: the template has opened it.
bool opens_thinking(std::string_view prompt);

/// Tells thinking from answer in a text that comes in pieces. What may be the beginning of a tag waits for the rest.
class ThinkingParts {
 public:
  explicit ThinkingParts(bool thinking) : thinking_(thinking) {}

  std::vector<TextPart> split(std::string_view text);

  /// What waited, when no more text comes.
  std::vector<TextPart> finish();

 private:
  void add(std::string_view text, std::vector<TextPart>& parts);

  bool thinking_;
  bool after_tag_ = false;  ///< line breaks after a tag belong to it
  std::string waiting_;
};

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_COMMANDS_THINKING_PARTS_H_
