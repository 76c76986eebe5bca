#include "files/safetensors/safetensors_layout.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>

#include "files/safetensors/safetensors_file.h"
#include "files/text.h"

namespace ballast::files {
namespace {

using nlohmann::json;

constexpr std::string_view kNoChecksum = "0000000000000000";

std::uint64_t alignment_of_size(std::uint64_t size) {
  return size == 0 ? kTensorAlignment : std::min(kTensorAlignment, std::uint64_t{1} << std::countr_zero(size));
}

// Returns plan indices in the order of the file, in which each offset is a sum of sizes that its own alignment divides.
std::vector<std::size_t> file_order(const std::vector<std::uint64_t>& sizes) {
  std::vector<std::size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t i) { return alignment_of_size(sizes[i]); });
  return order;
}

std::string string_json(const std::string& text) {
  return json(text).dump();
}

// Builds the header by appending, so that the position of each checksum is known; `layout.positions` still hold
// offsets.
void write_header(const std::vector<TensorPlan>& plan, const std::map<std::string, std::string>& metadata,
                  SafetensorsLayout& layout) {
  std::string& text = layout.header;
  text.assign(sizeof(std::uint64_t), '\0');
  text += "{\"__metadata__\":{";
  const char* separator = "";
  for (const auto& [key, value] : metadata) {
    text += separator + string_json(key) + ":" + string_json(value);
    separator = ",";
  }
  for (const TensorPlan& tensor : plan) {
    text += separator + string_json(std::string(kChecksumPrefix) + tensor.name) + ":\"";
    layout.checksum_positions.push_back(text.size());
    text += kNoChecksum;
    text += '"';
    separator = ",";
  }
  text += '}';
  for (std::size_t i = 0; i < plan.size(); ++i) {
    const std::uint64_t begin = layout.positions[i];
    text += concat(",", string_json(plan[i].name), ":{\"dtype\":\"", dtype_info(plan[i].dtype).name,
                   "\",\"shape\":", json(plan[i].shape).dump(), ",\"data_offsets\":[", begin, ",",
                   begin + layout.sizes[i], "]}");
  }
  text += '}';
  text.append((kTensorAlignment - text.size() % kTensorAlignment) % kTensorAlignment, ' ');
  const std::uint64_t length = text.size() - sizeof(std::uint64_t);
  std::memcpy(text.data(), &length, sizeof(length));
}

void refuse_repeated_names(const std::vector<TensorPlan>& plan, std::string_view context) {
  std::vector<std::string_view> names;
  for (const TensorPlan& tensor : plan) names.push_back(tensor.name);
  std::ranges::sort(names);
  const auto repeated = std::ranges::adjacent_find(names);
  if (repeated != names.end()) throw Error(tensor_context(context, *repeated), "is to be written twice");
}

}  // namespace

SafetensorsLayout plan_safetensors(const std::vector<TensorPlan>& plan,
                                   const std::map<std::string, std::string>& metadata, std::string_view context) {
  refuse_repeated_names(plan, context);
  SafetensorsLayout layout;
  std::uint64_t total = 0;
  for (const TensorPlan& tensor : plan) {
    assert(dtype_info(tensor.dtype).block_elements == 1 && "safetensors knows no blocks");
    const std::string tensor_text = tensor_context(context, tensor.name);
    layout.sizes.push_back(tensor_bytes(tensor.dtype, tensor.shape, tensor_text));
    if (__builtin_add_overflow(total, layout.sizes.back(), &total) || total > std::uint64_t{INT64_MAX}) {
      throw Error(tensor_text, "with the tensors before it exceeds what a file can hold");
    }
  }
  layout.positions.resize(plan.size());
  std::uint64_t offset = 0;
  for (const std::size_t i : file_order(layout.sizes)) {
    layout.positions[i] = offset;
    offset += layout.sizes[i];
  }
  write_header(plan, metadata, layout);
  for (std::uint64_t& position : layout.positions) position += layout.header.size();
  layout.file_bytes = layout.header.size() + total;
  return layout;
}

}  // namespace ballast::files
