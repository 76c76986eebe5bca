#include "formats/codecs/gguf_blocks.h"

#include <algorithm>
#include <array>

#include "formats/blocks/ggml_blocks.h"
#include "formats/blocks/ggml_rows.h"
#include "formats/float_type.h"

namespace ballast::formats {

std::vector<WeightFormat> block_formats() {
  std::vector<WeightFormat> formats;
  for (const DType type : writable_block_types()) {
    // IQ4_XS and IQ4_NL are as small and lose less; they are for processors that multiply these.
    if (type != DType::kMXFP4 && type != DType::kNVFP4) formats.push_back(block_format(type));
  }
  return formats;
}

WeightFormat fitting_blocks(const WeightFormat& format, bool whole_blocks) {
  if (!format.is_format_of_bits()) return format;
  switch (format.bits) {
    case 2:
      return block_format(whole_blocks ? DType::kQ2_K : DType::kIQ4_NL);
    case 3:
      return block_format(whole_blocks ? DType::kQ3_K : DType::kIQ4_NL);
    case 4:
      return block_format(whole_blocks ? DType::kQ4_K : DType::kIQ4_NL);
    case 5:
      return block_format(whole_blocks ? DType::kQ5_K : DType::kQ5_0);
    case 6:
      return block_format(whole_blocks ? DType::kQ6_K : DType::kQ8_0);
    default:
      return block_format(DType::kQ8_0);
  }
}

bool holds_blocks(const WeightFormat& format, std::size_t cols) {
  return format.kind == WeightFormat::Kind::kBlocks && cols % dtype_info(format.block_type).block_elements == 0;
}

std::optional<WeightFormat> exact_blocks(const WeightFormat& format) {
  constexpr std::size_t kGroup = 32;
  const bool uniform = format.codebook == CodebookId::kUniform;
  if (!uniform || !format.symmetric || format.group_size % kGroup != 0) return {};
  switch (format.bits) {
    case 4:
      return block_format(DType::kQ4_0);
    case 5:
      return block_format(DType::kQ5_0);
    case 8:
      return block_format(DType::kQ8_0);
    default:
      return {};
  }
}

StoredCodes block_codes(DType dtype, std::span<const std::byte> bytes, std::size_t rows, std::size_t cols) {
  const DTypeInfo& info = dtype_info(dtype);
  const std::size_t blocks = cols / info.block_elements;
  const auto row_at = [bytes, row_bytes = blocks * info.block_bytes](std::size_t row) {
    return bytes.data() + row * row_bytes;
  };
  StoredCodes codes;
  codes.type = info.name;
  codes.layout = block_layout(dtype, rows, cols);
  codes.exact = codes.layout.has_value();
  if (!codes.exact) codes.layout = rounded_layout(rows, cols);
  codes.read_row = [=, read = codes.exact ? read_quantized_row : round_row](
                       std::size_t row, kernels::QuantizedRow& dst) { return read(dtype, row_at(row), dst); };
  codes.decode_row = [=](std::size_t row, float* dst) { decode_ggml_blocks(dtype, row_at(row), blocks, dst); };
  return codes;
}

DType gguf_dtype(const WeightFormat& format) {
  return format.kind == WeightFormat::Kind::kBlocks ? format.block_type : float_dtype(format.kind);
}

std::uint32_t gguf_file_type(DType dtype) {
  struct FileType {
    DType dtype;
    std::uint32_t number;
  };
  // Of K types, those of one type for all matrices, "small" if there are several.
  constexpr std::array kTypes = {
      FileType{DType::kF16, 1},     FileType{DType::kQ4_0, 2},    FileType{DType::kQ4_1, 3},
      FileType{DType::kQ8_0, 7},    FileType{DType::kQ5_0, 8},    FileType{DType::kQ5_1, 9},
      FileType{DType::kQ2_K, 10},   FileType{DType::kQ3_K, 11},   FileType{DType::kQ4_K, 14},
      FileType{DType::kQ5_K, 16},   FileType{DType::kQ6_K, 18},   FileType{DType::kIQ4_NL, 25},
      FileType{DType::kBF16, 32},   FileType{DType::kIQ4_XS, 30}, FileType{DType::kIQ2_XXS, 19},
      FileType{DType::kIQ2_XS, 20}, FileType{DType::kIQ2_S, 28},  FileType{DType::kIQ3_XXS, 23},
      FileType{DType::kIQ3_S, 26},  FileType{DType::kMXFP4, 38},  FileType{DType::kNVFP4, 39},
      FileType{DType::kF32, 0}};
  return std::ranges::find(kTypes, dtype, &FileType::dtype)->number;
}

}  // namespace ballast::formats
