// GGUF models in several files, as llama-gguf-split writes them: NAME-00001-of-00003.gguf and so on. The first file
// holds the metadata; each holds its index.
#ifndef BALLAST_FILES_GGUF_GGUF_PARTS_H_
#define BALLAST_FILES_GGUF_GGUF_PARTS_H_

#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "files/gguf/gguf_parser.h"
#include "files/mapped_file.h"

namespace ballast::files {

/// The index of a file and the number of files.
struct GgufPartPlace {
  std::size_t index = 0;
  std::size_t count = 1;
  std::optional<std::size_t> tensors;  ///< in all parts
};

/// Reads the metadata `split.*`; without them the file is the only one. Throws Error naming the key.
GgufPartPlace read_part_place(const nlohmann::json& config, const std::string& context);

/// An open file of a model.
struct GgufPart {
  MappedFile file;
  GgufContent content;
};

/// Opens a model's files, the one at `path` first. Throws Error naming a file that is missing or is not the expected
/// part.
std::vector<GgufPart> open_gguf_parts(const std::filesystem::path& path);

}  // namespace ballast::files

#endif  // BALLAST_FILES_GGUF_GGUF_PARTS_H_
