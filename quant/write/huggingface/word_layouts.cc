// AWQ and GPTQ: codes of [inputs, outputs], eight or four to a word of 32 bits, scales and zeros of [groups, outputs].
#include <algorithm>
#include <array>
#include <utility>

#include "ballast/error.h"
#include "quant/write/float_type.h"
#include "quant/write/huggingface/layout_parts.h"
#include "quant/write/huggingface/matrix_layout.h"

namespace ballast::quant {

namespace {

using files::TensorPlan;
using nlohmann::json;

constexpr std::size_t kWordBits = 32;

/// AWQ: nibble i of a word holds output 0, 2, 4, 6, 1, 3, 5, 7.
constexpr std::array<std::size_t, 8> kAwqOrder = {0, 2, 4, 6, 1, 3, 5, 7};

/// Neighbours in a row of [rows][cols] become words; with `order` in that order.
std::vector<std::uint32_t> words_along_cols(std::span<const std::uint8_t> codes, std::size_t bits,
                                            std::span<const std::size_t> order = {}) {
  const std::size_t count = kWordBits / bits;
  std::vector<std::uint32_t> words(codes.size() / count);
  for (std::size_t w = 0; w < words.size(); ++w) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t code = codes[w * count + (order.empty() ? i : order[i])];
      words[w] |= code << (i * bits);
    }
  }
  return words;
}

/// Neighbours in a column of [rows][cols] become words of [rows / count][cols].
std::vector<std::uint32_t> words_along_rows(std::span<const std::uint8_t> codes, std::size_t cols, std::size_t bits) {
  const std::size_t count = kWordBits / bits;
  std::vector<std::uint32_t> words(codes.size() / count);
  for (std::size_t at = 0; at < codes.size(); ++at) {
    const std::size_t row = at / cols;
    words[row / count * cols + at % cols] |= std::uint32_t{codes[at]} << (row % count * bits);
  }
  return words;
}

void refuse_int8(bool int8_activations, const std::string& name) {
  if (int8_activations) throw Error(name, "keeps activations in 16 bits: choose w4a16 or w8a16");
}

/// What both have.
class WordLayout : public MatrixLayout {
 public:
  std::vector<TensorPlan> tensors(const ModulePlan& module, DType scale_type) const override {
    std::vector<TensorPlan> tensors;
    const std::size_t count = kWordBits / static_cast<std::size_t>(module.format.bits);
    const std::size_t groups = groups_of(module);
    tensors.push_back({module.name + ".qweight", DType::kI32, code_shape(module.rows, module.cols, count)});
    tensors.push_back({module.name + ".qzeros", DType::kI32, {axis(groups), axis(module.rows / count)}});
    tensors.push_back({module.name + ".scales", scale_type, {axis(groups), axis(module.rows)}});
    if (names_groups()) tensors.push_back({module.name + ".g_idx", DType::kI32, {axis(module.cols)}});
    return tensors;
  }

 private:
  std::vector<std::vector<std::byte>> contents(const ModulePlan& /*module*/, const RoundedMatrix& matrix,
                                               DType scale_type) const override {
    const auto& tensor = std::get<formats::QuantizedTensor>(matrix);
    const auto bits = static_cast<std::size_t>(tensor.bits);
    const std::size_t groups = tensor.view().groups();
    const std::vector<std::uint8_t> codes = transposed<std::uint8_t>(codes_of(tensor), tensor.rows, tensor.cols);
    const std::vector<std::uint8_t> zeros = transposed<std::uint8_t>(zeros_of(tensor), tensor.rows, groups);
    const std::vector<float> scales = transposed<float>(scales_of(tensor), tensor.rows, groups);
    std::vector<std::vector<std::byte>> bytes = {raw_bytes(packed_codes(codes, tensor.rows, bits)),
                                                 raw_bytes(packed_zeros(zeros, bits)),
                                                 encode_floats(scales, scale_type)};
    if (!names_groups()) return bytes;
    std::vector<std::int32_t> group_of(tensor.cols);
    for (std::size_t c = 0; c < tensor.cols; ++c) group_of[c] = static_cast<std::int32_t>(c / tensor.group_size);
    bytes.push_back(raw_bytes(group_of));
    return bytes;
  }

  virtual bool names_groups() const = 0;  ///< of columns
  virtual Shape code_shape(std::size_t rows, std::size_t cols, std::size_t count) const = 0;
  virtual std::vector<std::uint32_t> packed_codes(std::span<const std::uint8_t> codes, std::size_t rows,
                                                  std::size_t bits) const = 0;
  virtual std::vector<std::uint32_t> packed_zeros(std::span<const std::uint8_t> zeros, std::size_t bits) const = 0;
};

class AwqLayout : public WordLayout {
 public:
  std::string name() const override { return "AWQ"; }
  std::vector<WeightFormat> candidates() const override { return {}; }

  WeightFormat fitting(const WeightFormat& format, bool int8_activations) const override {
    refuse_int8(int8_activations, name());
    if (format.bits != 4) throw Error(name(), "has weights of 4 bits alone: choose w4a16");
    return {.bits = 4, .group_size = format.group_size == 0 ? 128 : format.group_size, .symmetric = false};
  }

  bool quantizes_head() const override { return false; }

  bool holds(const ModulePlan& module) const override {
    const WeightFormat& format = module.format;
    const bool integers = format.kind == WeightFormat::Kind::kInteger && format.bits == 4 && !format.symmetric;
    return integers && format.scale_bits == 16 && format.group_size != 0 && module.cols % format.group_size == 0 &&
           module.rows % kAwqOrder.size() == 0;
  }

  void check_together(std::span<const ModulePlan> model) const override {
    const std::size_t size = group_size(model);
    for (const ModulePlan* module : quantized_modules(model)) {
      if (module->format.group_size != size) throw Error(module->name, "AWQ has one size of groups for all");
    }
  }

  json configuration(std::span<const ModulePlan> model, bool /*int8_activations*/) const override {
    return {{"quant_method", "awq"}, {"bits", 4},         {"group_size", group_size(model)},
            {"zero_point", true},    {"version", "gemm"}, {"modules_to_not_convert", plain_linears(model)}};
  }

 private:
  /// Of all.
  static std::size_t group_size(std::span<const ModulePlan> model) {
    const std::vector<const ModulePlan*> modules = quantized_modules(model);
    return modules.empty() ? 128 : modules.front()->format.group_size;
  }

  bool names_groups() const override { return false; }
  Shape code_shape(std::size_t rows, std::size_t cols, std::size_t count) const override {
    return {axis(cols), axis(rows / count)};
  }
  std::vector<std::uint32_t> packed_codes(std::span<const std::uint8_t> codes, std::size_t /*rows*/,
                                          std::size_t bits) const override {
    return words_along_cols(codes, bits, kAwqOrder);
  }
  std::vector<std::uint32_t> packed_zeros(std::span<const std::uint8_t> zeros, std::size_t bits) const override {
    return words_along_cols(zeros, bits, kAwqOrder);
  }
};

/// Version 1, where a zero is stored less one.
class GptqLayout : public WordLayout {
 public:
  std::string name() const override { return "GPTQ"; }

  std::vector<WeightFormat> candidates() const override { return symmetric_formats(); }

  WeightFormat fitting(const WeightFormat& format, bool int8_activations) const override {
    refuse_int8(int8_activations, name());
    return {.bits = format.bits, .group_size = format.group_size == 0 ? 128 : format.group_size};
  }

  bool quantizes_head() const override { return true; }

  bool holds(const ModulePlan& module) const override {
    const WeightFormat& format = module.format;
    const bool integers = format.kind == WeightFormat::Kind::kInteger && (format.bits == 4 || format.bits == 8);
    return integers && format.symmetric && format.scale_bits == 16 && format.group_size != 0 &&
           module.cols % format.group_size == 0 && module.rows % (kWordBits / 4) == 0;
  }

  json configuration(std::span<const ModulePlan> model, bool /*int8_activations*/) const override {
    const WeightFormat usual = most_common_format(model).value_or(symmetric_formats().front());
    json exceptions = json::object();
    bool head = false;
    for (const ModulePlan* module : quantized_modules(model)) {
      head = head || module->id.role == model::Role::kHead;
      if (module->format == usual) continue;
      exceptions["+:" + fused_pattern(module->name)] = {{"bits", module->format.bits},
                                                        {"group_size", module->format.group_size}};
    }
    for (const std::string& name : plain_linears(model)) {
      if (name != "lm_head") exceptions["-:" + fused_pattern(name)] = json::object();
    }
    json config = {{"quant_method", "gptq"},
                   {"bits", usual.bits},
                   {"group_size", usual.group_size},
                   {"sym", true},
                   {"desc_act", false},
                   {"checkpoint_format", "gptq"},
                   {"lm_head", head}};
    if (!exceptions.empty()) config["dynamic"] = exceptions;
    return config;
  }

 private:
  /// Matches the module, and the one that servers fuse of it and its neighbours, which have the same format.
  static std::string fused_pattern(const std::string& name) {
    const std::size_t dot = name.rfind('.');
    std::string last = name.substr(dot + 1);
    for (const char* fused : {"qkv_proj|q_proj|k_proj|v_proj", "gate_up_proj|gate_proj|up_proj"}) {
      if (("|" + std::string(fused) + "|").find("|" + last + "|") != std::string::npos) last = fused;
    }
    std::string pattern = "^";
    for (const char c : name.substr(0, dot + 1)) pattern += c == '.' ? "\\." : std::string(1, c);
    return pattern + "(" + last + ")$";
  }

  bool names_groups() const override { return true; }
  Shape code_shape(std::size_t rows, std::size_t cols, std::size_t count) const override {
    return {axis(cols / count), axis(rows)};
  }
  std::vector<std::uint32_t> packed_codes(std::span<const std::uint8_t> codes, std::size_t rows,
                                          std::size_t bits) const override {
    return words_along_rows(codes, rows, bits);
  }
  std::vector<std::uint32_t> packed_zeros(std::span<const std::uint8_t> zeros, std::size_t bits) const override {
    std::vector<std::uint8_t> stored(zeros.begin(), zeros.end());
    for (std::uint8_t& zero : stored) --zero;
    return words_along_cols(stored, bits);
  }
};

}  // namespace

std::unique_ptr<MatrixLayout> make_awq_layout() {
  return std::make_unique<AwqLayout>();
}

std::unique_ptr<MatrixLayout> make_gptq_layout() {
  return std::make_unique<GptqLayout>();
}

}  // namespace ballast::quant
