// A JSON file beside a model's tensors.
#ifndef BALLAST_FILES_CONFIG_FILE_H_
#define BALLAST_FILES_CONFIG_FILE_H_

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "files/json_reader.h"
#include "files/mapped_file.h"
#include "files/strict_json.h"

namespace ballast::files {

/// The value in a JSON file. Throws Error if the file cannot be read, or holds no JSON.
struct ConfigFile {
  nlohmann::json json;
  std::string name;

  explicit ConfigFile(const std::filesystem::path& path)
      : json(parse_strict_json(read_whole_file(path), path.string())), name(path.string()) {}

  JsonReader reader() const { return {json, name}; }
};

}  // namespace ballast::files

#endif  // BALLAST_FILES_CONFIG_FILE_H_
