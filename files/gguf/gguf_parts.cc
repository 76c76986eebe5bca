#include "files/gguf/gguf_parts.h"

#include <cstdint>
#include <string_view>
#include <system_error>
#include <utility>

#include "files/json_reader.h"
#include "files/text.h"

namespace ballast::files {
namespace {

namespace fs = std::filesystem;

std::string five_digits(std::size_t number) {
  const std::string digits = std::to_string(number);
  return std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
}

// "-00001-of-00003.gguf"
std::string part_ending(std::size_t index, std::size_t count) {
  return concat("-", five_digits(index + 1), "-of-", five_digits(count), ".gguf");
}

std::string which_part(const GgufPartPlace& place) {
  return concat("part ", place.index + 1, " of ", place.count);
}

GgufPart open_part(const fs::path& path) {
  MappedFile file(path);
  GgufContent content = parse_gguf(file.bytes(), path.string());
  return {std::move(file), std::move(content)};
}

// Returns the text before "-00001-of-00003.gguf" in the name of the part at `place`.
std::string name_of_model(const fs::path& path, const GgufPartPlace& place) {
  const std::string name = path.filename().string();
  const std::string ending = part_ending(place.index, place.count);
  if (!name.ends_with(ending)) {
    throw Error(path.string(), concat("is ", which_part(place), " of a model, but its name does not end in ",
                                      in_quotes(ending), ", by which the others are found"));
  }
  return name.substr(0, name.size() - ending.size());
}

GgufPart open_other_part(const fs::path& path, std::size_t index, std::size_t count) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    throw FileError(path.string(), concat("does not exist; it is part ", index + 1, " of a model of ", count));
  }
  GgufPart part = open_part(path);
  const GgufPartPlace place = read_part_place(part.content.config, path.string());
  if (place.index != index || place.count != count) {
    throw Error(path.string(), concat("says that it is ", which_part(place), ", its name ", index + 1, " of ", count));
  }
  return part;
}

}  // namespace

GgufPartPlace read_part_place(const nlohmann::json& config, const std::string& context) {
  const JsonReader metadata(config, context);
  GgufPartPlace place;
  place.count = metadata.count("split.count", 1);
  place.index = metadata.count("split.no", 0);
  if (place.count == 0) place.count = 1;  // some writers do this in a whole file
  if (place.count > UINT16_MAX) metadata.fail("split.count", "is more than the format allows");
  if (place.index >= place.count) {
    metadata.fail("split.no", concat("is ", place.index, ", of ", place.count, " parts"));
  }
  if (metadata.has("split.tensors.count")) place.tensors = metadata.count("split.tensors.count");
  return place;
}

std::vector<GgufPart> open_gguf_parts(const fs::path& path) {
  std::vector<GgufPart> parts;
  parts.push_back(open_part(path));
  const GgufPartPlace place = read_part_place(parts.front().content.config, path.string());
  if (place.count == 1) return parts;

  const std::string model = name_of_model(path, place);
  const auto path_of = [&](std::size_t index) {
    return path.parent_path() / (model + part_ending(index, place.count));
  };
  if (place.index != 0) {
    throw Error(path.string(), concat("is ", which_part(place), " of a model; name the first, ", path_of(0).string()));
  }
  for (std::size_t index = 1; index < place.count; ++index) {
    parts.push_back(open_other_part(path_of(index), index, place.count));
  }
  std::size_t tensors = 0;
  for (const GgufPart& part : parts) tensors += part.content.tensors.size();
  if (place.tensors && *place.tensors != tensors) {
    throw Error(path.string(), concat("says that the model has ", *place.tensors, " tensors; its ", place.count,
                                      " parts have ", tensors));
  }
  return parts;
}

}  // namespace ballast::files
