#include "files/safetensors/safetensors_file.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "files/content_hash.h"
#include "files/json_reader.h"
#include "files/strict_json.h"
#include "files/text.h"

static_assert(std::endian::native == std::endian::little, "safetensors and GGUF are little-endian, as is ballast");

namespace ballast::files {
namespace {

using nlohmann::json;

constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
constexpr std::size_t kHeaderDepth = 4;                 // header, tensor, shape; one to spare

std::uint64_t header_length(std::span<const std::byte> file, std::string_view context) {
  if (file.size() < kLengthBytes) {
    throw Error(context, concat("byte 0: a file of ", file.size(), " bytes is too short for safetensors"));
  }
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof(length));
  if (length > kMaxHeaderBytes) {
    throw Error(context, concat("byte 0: header length ", length, " exceeds the format's limit of ", kMaxHeaderBytes,
                                "; not a safetensors file?"));
  }
  if (length > file.size() - kLengthBytes) {
    throw Error(context,
                concat("byte 0: header length ", length, " exceeds the file's ", file.size(), " bytes; truncated?"));
  }
  return length;
}

// Returns nullopt for a type that ballast does not read.
std::optional<DType> find_dtype(std::string_view name) {
  for (const DTypeInfo& info : kDTypes) {
    // safetensors has no block types.
    if (info.block_elements == 1 && info.name == name) return info.dtype;
  }
  return std::nullopt;
}

// Adds the tensor to the readable ones, or to the others.
void parse_entry(const std::string& name, const JsonReader& entry, std::span<const std::byte> data,
                 std::size_t data_start, SafetensorsContent& content) {
  const std::string context = entry.context();
  const std::string type = entry.text("dtype");
  TensorView view;
  view.shape = entry.at("shape").integers<std::int64_t>(0);
  const std::vector<JsonReader> offsets = entry.at("data_offsets").tuple(2);
  const auto begin = offsets[0].integer<std::uint64_t>();
  const auto end = offsets[1].integer<std::uint64_t>();
  if (begin > end) throw Error(context, concat("data_offsets [", begin, ", ", end, "] end before they begin"));
  if (end > data.size()) {
    throw Error(context, concat("data_offsets [", begin, ", ", end, "] are outside the ", data.size(),
                                " bytes of data at byte ", data_start, "; truncated?"));
  }
  const std::optional<DType> dtype = find_dtype(type);
  if (!dtype) {
    content.unread.emplace(name, UnreadTensor{.type = type, .shape = std::move(view.shape), .bytes = end - begin});
    return;
  }
  view.dtype = *dtype;
  const std::size_t expected = tensor_bytes(view.dtype, view.shape, context);
  if (end - begin != expected) {
    throw Error(context,
                concat("byte ", data_start + begin, ": holds ", end - begin, " bytes, but ",
                       dtype_info(view.dtype).name, " of shape ", shape_string(view.shape), " takes ", expected));
  }
  view.bytes = data.subspan(begin, expected);
  content.tensors.emplace(name, std::move(view));
}

}  // namespace

SafetensorsContent parse_safetensors(std::span<const std::byte> file, std::string_view context) {
  const std::uint64_t length = header_length(file, context);
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + kLengthBytes, length);
  const json header = parse_strict_json(text, context, kLengthBytes, kHeaderDepth);
  if (!header.is_object()) throw Error(context, "byte 8: the header is not a JSON object");

  const std::size_t data_start = kLengthBytes + length;
  const std::span<const std::byte> data = file.subspan(data_start);
  SafetensorsContent content;
  for (const auto& [name, entry] : header.get_ref<const json::object_t&>()) {
    if (name == "__metadata__") {
      for (const auto& [key, value] : JsonReader(entry, concat(context, ": __metadata__")).members()) {
        content.metadata.emplace(key, value.string());
      }
      continue;
    }
    parse_entry(name, JsonReader(entry, tensor_context(context, name)), data, data_start, content);
  }
  refuse_overlaps(content.tensors, file, context);
  return content;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : file_(path), content_(parse_safetensors(file_.bytes(), file_.path().string())) {}

const TensorView& SafetensorsFile::tensor(std::string_view name) const {
  const auto found = content_.tensors.find(name);
  if (found == content_.tensors.end()) refuse_tensor(path().string(), name, content_.unread);
  return found->second;
}

void SafetensorsFile::verify_checksums() const {
  struct Sum {
    const std::string* name;
    const std::string* expected;
    std::span<const std::byte> bytes;
  };
  std::vector<Sum> sums;
  for (const auto& [key, value] : content_.metadata) {
    if (!key.starts_with(kChecksumPrefix)) continue;
    const auto found = content_.tensors.find(std::string_view(key).substr(kChecksumPrefix.size()));
    if (found == content_.tensors.end())
      throw Error(path().string(), in_quotes(key) + " is the checksum of no tensor here");
    sums.push_back({&found->first, &value, found->second.bytes});
  }
  std::size_t first_bad = sums.size();
#pragma omp parallel for schedule(dynamic) reduction(min : first_bad)
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (content_digits(sums[i].bytes) != *sums[i].expected) first_bad = std::min(first_bad, i);
    release_pages(sums[i].bytes);  // so that the whole file does not stay in memory
  }
  if (first_bad < sums.size()) {
    throw Error(tensor_context(path().string(), *sums[first_bad].name), "checksum differs: the file is damaged");
  }
}

}  // namespace ballast::files
