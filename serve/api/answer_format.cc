#include "serve/api/answer_format.h"

#include <algorithm>
#include <random>
#include <sstream>
#include <utility>

#include "text/reply/reply_piece.h"

namespace ballast::serve {

CountedParts with_whole_calls(CountedParts reply) {
  std::vector<std::size_t> broken;
  for (const ReplyPart& part : reply.parts) {
    if (part.kind == ReplyKind::kBrokenCall) broken.push_back(part.call);
  }
  if (broken.empty()) return reply;
  CountedParts whole;
  std::size_t tokens_of_broken = 0;
  for (std::size_t i = 0; i < reply.parts.size(); ++i) {
    ReplyPart& part = reply.parts[i];
    std::size_t tokens = i < reply.tokens.size() ? reply.tokens[i] : 0;
    const bool is_of_call = part.kind == ReplyKind::kToolName || part.kind == ReplyKind::kToolArguments;
    if (is_of_call && std::ranges::find(broken, part.call) != broken.end()) {
      tokens_of_broken += tokens;
      continue;
    }
    if (part.kind == ReplyKind::kBrokenCall) {
      tokens += std::exchange(tokens_of_broken, 0);
      part = {.kind = ReplyKind::kAnswer, .text = std::move(part.text)};
    }
    const auto earlier = std::ranges::count_if(broken, [&](std::size_t call) { return call < part.call; });
    const std::size_t call = is_of_call ? part.call - static_cast<std::size_t>(earlier) : 0;
    text::add_part(part.text, part.kind, whole.parts, call);
    whole.tokens.resize(whole.parts.size());
    whole.tokens.back() += tokens;
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

ReplyKind item_kind(ReplyKind kind) {
  if (kind == ReplyKind::kToolArguments) return ReplyKind::kToolName;
  return kind == ReplyKind::kBrokenCall ? ReplyKind::kAnswer : kind;
}

void WholeCalls::see(std::span<const ReplyPart> parts) {
  for (const ReplyPart& part : parts) {
    if (part.kind == ReplyKind::kToolName) ++count_;
    if (part.kind == ReplyKind::kBrokenCall) --count_;
  }
}

std::string joined_text(std::span<const ReplyPart> parts, ReplyKind kind) {
  std::string text;
  for (const ReplyPart& part : parts) {
    if (part.kind == kind || (part.kind == ReplyKind::kBrokenCall && kind == ReplyKind::kAnswer)) text += part.text;
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
