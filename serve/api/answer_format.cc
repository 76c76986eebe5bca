#include "serve/api/answer_format.h"

#include <algorithm>
#include <random>
#include <sstream>
#include <utility>

namespace ballast::serve {

std::vector<ReplyPart> with_whole_calls(std::vector<ReplyPart> parts) {
  std::vector<std::size_t> broken;
  for (const ReplyPart& part : parts) {
    if (part.kind == ReplyKind::kBrokenCall) broken.push_back(part.call);
  }
  if (broken.empty()) return parts;
  std::vector<ReplyPart> whole;
  for (ReplyPart& part : parts) {
    const bool is_of_call = part.kind == ReplyKind::kToolName || part.kind == ReplyKind::kToolArguments;
    if (is_of_call && std::ranges::find(broken, part.call) != broken.end()) continue;
    if (part.kind == ReplyKind::kBrokenCall) part = {.kind = ReplyKind::kAnswer, .text = std::move(part.text)};
    if (part.kind == ReplyKind::kAnswer && !whole.empty() && whole.back().kind == ReplyKind::kAnswer) {
      whole.back().text += part.text;
    } else {
      whole.push_back(std::move(part));
    }
  }
  return whole;
}

std::vector<ToolCall> tool_calls(std::span<const ReplyPart> parts) {
  std::vector<ToolCall> calls;
  for (const ReplyPart& part : parts) {
    if (part.kind == ReplyKind::kToolName) calls.push_back({.name = part.text, .arguments = {}});
    if (part.kind == ReplyKind::kToolArguments && !calls.empty()) calls.back().arguments += part.text;
  }
  return calls;
}

std::string joined_text(std::span<const ReplyPart> parts, ReplyKind kind) {
  std::string text;
  for (const ReplyPart& part : parts) {
    if (part.kind == kind) text += part.text;
  }
  return text;
}

std::string random_id(std::string_view prefix) {
  std::random_device random;
  std::ostringstream id;
  id << prefix << std::hex;
  for (int i = 0; i < 3; ++i) id << (0x10000000U | (random() & 0x0FFFFFFFU));
  return std::move(id).str();
}

}  // namespace ballast::serve
