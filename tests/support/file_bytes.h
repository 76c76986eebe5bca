// Builds model files from parts, so that tests can build damaged ones.
#ifndef BALLAST_TESTS_SUPPORT_FILE_BYTES_H_
#define BALLAST_TESTS_SUPPORT_FILE_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "temporary_directory.h"

namespace ballast::test {

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

/// Returns the little-endian bytes of a number.
template <typename T>
std::string raw(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

/// Returns a safetensors file: the header's length, the header and the data.
inline std::string safetensors_bytes(std::string_view header, std::string_view data) {
  return raw(std::uint64_t{header.size()}) + std::string(header) + std::string(data);
}

/// Returns a GGUF string: length and characters.
inline std::string gguf_string(std::string_view text) {
  return raw(std::uint64_t{text.size()}) + std::string(text);
}

/// The parts of a GGUF file. Numbers of entries are counted unless a test sets them.
struct GgufBytes {
  std::uint32_t version = 3;
  std::string metadata;
  std::uint64_t metadata_count = 0;
  std::string tensors;
  std::uint64_t tensor_count = 0;
  std::string data;

  template <typename T>
  GgufBytes& number(std::string_view key, std::uint32_t type, T value) {
    return value_bytes(key, type, raw(value));
  }
  GgufBytes& string(std::string_view key, std::string_view value) { return value_bytes(key, 8, gguf_string(value)); }
  GgufBytes& value_bytes(std::string_view key, std::uint32_t type, const std::string& value) {
    metadata += gguf_string(key) + raw(type) + value;
    ++metadata_count;
    return *this;
  }
  /// Adds a tensor. Sizes are innermost first, as in the file.
  GgufBytes& tensor(std::string_view name, std::initializer_list<std::uint64_t> sizes, std::uint32_t type,
                    std::uint64_t offset) {
    tensors += gguf_string(name) + raw(static_cast<std::uint32_t>(sizes.size()));
    for (const std::uint64_t size : sizes) tensors += raw(size);
    tensors += raw(type) + raw(offset);
    ++tensor_count;
    return *this;
  }

  std::string bytes(std::size_t alignment = 32) const {
    std::string file = "GGUF" + raw(version) + raw(tensor_count) + raw(metadata_count) + metadata + tensors;
    file.append((alignment - file.size() % alignment) % alignment, '\0');
    return file + data;
  }
};

/// Returns the files of a directory by name.
inline std::map<std::string, std::string> files_of(const std::filesystem::path& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    files[entry.path().filename().string()] = read_file(entry.path());
  }
  return files;
}

}  // namespace ballast::test

#endif  // BALLAST_TESTS_SUPPORT_FILE_BYTES_H_
