#include "quant/conversion/saved_block.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "ballast/error.h"
#include "files/checkpoint.h"
#include "formats/code_matrix.h"
#include "formats/float_type.h"
#include "model/block_structure.h"

namespace ballast::quant {

namespace {

/// Arrays one after the other, each after its size in bytes.
class ArrayWriter {
 public:
  /// Reserves the size, because growing would briefly need twice the memory.
  explicit ArrayWriter(std::size_t bytes) { bytes_.reserve(bytes); }

  void add(const auto& array) {
    const auto bytes = std::as_bytes(std::span(array));
    const std::uint64_t size = bytes.size();
    bytes_.append(reinterpret_cast<const char*>(&size), sizeof size);
    bytes_.append(reinterpret_cast<const char*>(bytes.data()), size);
  }

  std::string finish() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class ArrayReader {
 public:
  explicit ArrayReader(std::string_view bytes) : bytes_(bytes) {}

  std::span<const std::byte> next() {
    std::uint64_t size = 0;
    check(bytes_.size() >= sizeof size);
    std::memcpy(&size, bytes_.data(), sizeof size);
    bytes_.remove_prefix(sizeof size);
    check(bytes_.size() >= size);
    const auto array = std::as_bytes(std::span(bytes_.substr(0, size)));
    bytes_.remove_prefix(size);
    return array;
  }

  /// Fills `values`, which has the size that the array must have.
  template <typename T>
  void get(std::vector<T>& values) {
    const std::span<const std::byte> array = next();
    check(array.size() == values.size() * sizeof(T));
    if (!array.empty()) std::memcpy(values.data(), array.data(), array.size());
  }

  std::string text() {
    const std::span<const std::byte> array = next();
    return {reinterpret_cast<const char*>(array.data()), array.size()};
  }

  void finish() const { check(bytes_.empty()); }

  static void check(bool whole) {
    if (!whole) throw Error("saved progress", "a block is damaged and was dropped: give the command again");
  }

 private:
  std::string_view bytes_;
};

/// About, sizes and names of formats included.
std::size_t saved_bytes(const ConvertedModule& module) {
  std::size_t bytes = 256 + std::span(module.bias).size_bytes() + std::span(module.values).size_bytes();
  if (module.quantized) {
    formats::for_each_array(*module.quantized, [&](const auto& array) { bytes += std::span(array).size_bytes(); });
  }
  return bytes;
}

std::size_t bias_size(const ModulePlan& plan) {
  if (!plan.bias) return 0;
  return model::is_norm(plan.id.role) ? plan.cols : plan.rows;
}

ConvertedModule restore_module(ModulePlan plan, ArrayReader& arrays) {
  plan.format = parse_format(arrays.text());
  plan.half_type = arrays.text() == dtype_info(DType::kF16).name ? DType::kF16 : DType::kBF16;
  ConvertedModule module{.plan = std::move(plan), .values = {}, .quantized = {}, .bias = {}};
  const ModulePlan& known = module.plan;
  if (known.is_quantized()) {
    const std::vector<std::int32_t> columns(known.outlier_columns);
    module.quantized = formats::CodeMatrix(known.rows, known.cols, known.format, columns, known.half_type);
    formats::for_each_array(*module.quantized, [&](auto& array) { arrays.get(array); });
  } else {
    const DType dtype = formats::float_dtype(known.format.kind);
    const std::span<const std::byte> bytes = arrays.next();
    ArrayReader::check(bytes.size() == known.rows * known.cols * dtype_info(dtype).block_bytes);
    module.values.resize(known.rows * known.cols);
    files::decode_floats({dtype, {static_cast<std::int64_t>(module.values.size())}, bytes}, "saved progress",
                         module.values.data());
  }
  module.bias.resize(bias_size(known));
  arrays.get(module.bias);
  return module;
}

}  // namespace

std::string save_modules(std::span<const ConvertedModule> modules) {
  std::size_t bytes = 0;
  for (const ConvertedModule& module : modules) bytes += saved_bytes(module);
  ArrayWriter arrays(bytes);
  for (const ConvertedModule& module : modules) {
    arrays.add(format_name(module.plan.format));
    arrays.add(dtype_info(module.plan.half_type).name);
    if (module.quantized) {
      formats::for_each_array(*module.quantized, [&](const auto& array) { arrays.add(array); });
    } else {
      arrays.add(formats::encode_floats(module.values, formats::float_dtype(module.plan.format.kind)));
    }
    arrays.add(module.bias);
  }
  return arrays.finish();
}

std::vector<ConvertedModule> restore_modules(std::string_view saved, std::vector<ModulePlan> plan) {
  ArrayReader arrays(saved);
  std::vector<ConvertedModule> modules;
  for (ModulePlan& module : plan) modules.push_back(restore_module(std::move(module), arrays));
  arrays.finish();
  return modules;
}

}  // namespace ballast::quant
