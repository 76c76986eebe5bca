// The texts of messages, and of calls in them, as several APIs send them.
#ifndef BALLAST_SERVE_API_MESSAGE_TEXT_H_
#define BALLAST_SERVE_API_MESSAGE_TEXT_H_

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "files/json_reader.h"

namespace ballast::serve {

inline constexpr std::size_t kMostMessages = 4096;  ///< of a conversation

/// Reads a list of text parts, which are joined with line breaks as in vLLM and llama-server. Throws Error.
std::string read_parts_text(const files::JsonReader& parts);

/// Reads the content of a message: text, or a list of text parts. Thinking parts of an assistant are left out. Null is
/// an empty text, and so is a missing content of an assistant. Throws Error.
std::string read_message_text(const files::JsonReader& message, bool by_assistant);

/// Reads an assistant's thinking that is part of its content: text, or a list of text parts. Throws Error.
std::string read_message_thinking(const files::JsonReader& message);

/// Parses the text of a call's arguments as a JSON object, which chat templates need; other text is returned unchanged.
nlohmann::ordered_json read_call_arguments(const std::string& text);

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_API_MESSAGE_TEXT_H_
