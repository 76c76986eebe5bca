// Parses the layout of GGUF from bytes in memory.
#ifndef BALLAST_FILES_GGUF_GGUF_PARSER_H_
#define BALLAST_FILES_GGUF_GGUF_PARSER_H_

#include <cstddef>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "files/tensor_layout.h"

namespace ballast::files {

/// Arrays longer than this, and arrays of arrays, are not part of GgufContent::config.
inline constexpr std::size_t kLongestConfigArray = 64;

/// The contents of a GGUF file; tensors are views of the parsed bytes.
struct GgufContent {
  nlohmann::json config = nlohmann::json::object();                 ///< metadata without the long arrays
  std::map<std::string, std::size_t, std::less<>> value_positions;  ///< byte where each key's type and value start
  TensorTable tensors;
  UnreadTensors unread;  ///< of types that ballast does not read
};

/// Parses and checks a whole file in memory; `context` names it in messages. Throws Error naming the byte.
GgufContent parse_gguf(std::span<const std::byte> file, std::string_view context);

/// Returns the metadata value at one of `value_positions`. Throws Error if a string in it is not UTF-8.
nlohmann::json read_gguf_value(std::span<const std::byte> file, std::size_t position, std::string_view context);

/// Returns the number of elements of the array at one of `value_positions`; 0 for another value.
std::size_t gguf_array_size(std::span<const std::byte> file, std::size_t position, std::string_view context);

}  // namespace ballast::files

#endif  // BALLAST_FILES_GGUF_GGUF_PARSER_H_
