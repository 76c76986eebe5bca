#include "formats/codecs/foreign_format.h"

#include <array>
#include <string_view>
#include <utility>

namespace ballast::formats {

namespace {

using FormatMaker = std::unique_ptr<const ForeignFormat> (*)(const files::JsonReader&);

/// By `quant_method`.
constexpr std::array<std::pair<std::string_view, FormatMaker>, 4> kForeignFormats{{
    {"compressed-tensors", make_compressed_tensors_format},
    {"gptq", make_gptq_format},
    {"awq", make_awq_format},
    {"fp8", make_fp8_format},
}};

/// MLX names no method: it gives the numbers alone.
bool is_mlx(const files::JsonReader& quantization) {
  return !quantization.has("quant_method") && quantization.has("bits") && quantization.has("group_size");
}

}  // namespace

std::unique_ptr<const ForeignFormat> read_foreign_format(const files::JsonReader& config) {
  for (const std::string_view field : {"quantization_config", "quantization"}) {
    if (!config.has(field)) continue;
    const files::JsonReader quantization = config.object(field);
    if (is_mlx(quantization)) return make_mlx_format(quantization);
    const std::string method = quantization.text("quant_method", "");
    for (const auto& [name, make] : kForeignFormats) {
      if (name == method) return make(quantization);
    }
  }
  return nullptr;
}

}  // namespace ballast::formats
