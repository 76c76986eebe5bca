// Files as torch.save writes them: a zip archive with a pickled dictionary of tensors.
#ifndef BALLAST_TESTS_SUPPORT_TORCH_ARCHIVE_H_
#define BALLAST_TESTS_SUPPORT_TORCH_ARCHIVE_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ballast/tensor.h"

namespace ballast::test {

inline std::string little_endian(std::uint64_t value, std::size_t bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 255);
  return text;
}

/// Returns a zip archive of uncompressed parts in a folder.
inline std::string zip_archive(const std::vector<std::pair<std::string, std::string>>& parts) {
  std::string files, directory;
  for (const auto& [part, bytes] : parts) {
    const std::string name = "archive/" + part;
    const std::string sizes = little_endian(0, 4) + little_endian(bytes.size(), 4) + little_endian(bytes.size(), 4) +
                              little_endian(name.size(), 2) + little_endian(0, 2);
    directory +=
        "PK\1\2" + std::string(16 - 4, '\0') + sizes + std::string(10, '\0') + little_endian(files.size(), 4) + name;
    files += "PK\3\4" + std::string(10, '\0') + sizes + name + bytes;
  }
  return files + directory + "PK\5\6" + std::string(4, '\0') + little_endian(parts.size(), 2) +
         little_endian(parts.size(), 2) + little_endian(directory.size(), 4) + little_endian(files.size(), 4) +
         std::string(2, '\0');
}

inline std::string pickled_text(const std::string& text) {
  return "X" + little_endian(text.size(), 4) + text;
}

inline std::string pickled_sizes(const Shape& shape) {
  std::string sizes = "(";
  for (const std::int64_t size : shape) sizes += "J" + little_endian(static_cast<std::uint64_t>(size), 4);
  return sizes + "t";
}

/// Returns the instructions for a tensor in F32, whose values are a part of the archive.
inline std::string pickled_tensor(const Shape& shape, const std::string& part, const Shape& strides,
                                  std::int64_t offset = 0) {
  return "ctorch._utils\n_rebuild_tensor_v2\n((" + pickled_text("storage") + "ctorch\nFloatStorage\n" +
         pickled_text(part) + pickled_text("cpu") + "K\1tQ" + "J" +
         little_endian(static_cast<std::uint64_t>(offset), 4) + pickled_sizes(shape) + pickled_sizes(strides) + "\x89" +
         "ccollections\nOrderedDict\n)RtR";
}

/// Returns what comes around a dictionary's names and values.
inline std::string pickled_dictionary(const std::string& items) {
  return "\x80\2ccollections\nOrderedDict\n)Rq" + std::string(1, '\0') + "(" + items + "u}" +
         pickled_text("_metadata") + "Ns" + "b.";
}

/// Returns the file of these tensors.
inline std::string torch_file(const std::map<std::string, Tensor>& tensors) {
  std::string items;
  std::vector<std::pair<std::string, std::string>> parts = {{"data.pkl", ""}};
  for (const auto& [name, tensor] : tensors) {
    const std::string part = std::to_string(parts.size() - 1);
    Shape strides(tensor.shape.size(), 1);
    for (std::size_t i = strides.size(); i > 1; --i) strides[i - 2] = strides[i - 1] * tensor.shape[i - 1];
    items += pickled_text(name) + pickled_tensor(tensor.shape, part, strides);
    parts.emplace_back("data/" + part, std::string(reinterpret_cast<const char*>(tensor.values.data()),
                                                   tensor.values.size() * sizeof(float)));
  }
  parts.front().second = pickled_dictionary(items);
  return zip_archive(parts);
}

}  // namespace ballast::test

#endif  // BALLAST_TESTS_SUPPORT_TORCH_ARCHIVE_H_
