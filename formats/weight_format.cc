#include <algorithm>
#include <array>
#include <cctype>
#include <span>
#include <string>

#include "ballast/error.h"
#include "ballast/recipe.h"

namespace ballast {

namespace {

using Kind = WeightFormat::Kind;

struct PlainFormat {
  Kind kind;
  std::string_view name;
};
constexpr std::array<PlainFormat, 3> kPlain{{{Kind::kF32, "f32"}, {Kind::kF16, "f16"}, {Kind::kBF16, "bf16"}}};

constexpr std::array<DType, 19> kBlockTypes = {
    DType::kIQ2_XXS, DType::kIQ2_XS, DType::kIQ2_S,  DType::kQ2_K,  DType::kIQ3_XXS, DType::kQ3_K, DType::kIQ3_S,
    DType::kIQ4_XS,  DType::kMXFP4,  DType::kIQ4_NL, DType::kNVFP4, DType::kQ4_0,    DType::kQ4_K, DType::kQ4_1,
    DType::kQ5_0,    DType::kQ5_K,   DType::kQ5_1,   DType::kQ6_K,  DType::kQ8_0};

std::string block_type_name(DType type) {
  std::string name(dtype_info(type).name);
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name;
}

constexpr std::array<int, 4> kBits = {8, 6, 5, 4};
constexpr std::array<std::size_t, 4> kGroupSizes = {32, 64, 128, 0};

constexpr std::array<std::size_t, 3> kCodebookGroupSizes = {32, 64, 128};

/// Returns "nl7, nl6, nl5 and nl4": in descending order of bits.
std::string codebook_names() {
  std::string names;
  for (std::size_t row = kCodebooks.size(); row-- > 0;) {
    if (!names.empty()) names += row == 0 ? " and " : ", ";
    names += kCodebooks[row].name;
  }
  return names;
}

constexpr std::array<int, 6> kAffineBits = {2, 3, 4, 5, 6, 8};
constexpr std::array<std::size_t, 3> kAffineGroupSizes = {128, 64, 32};

}  // namespace

std::span<const DType> writable_block_types() {
  return kBlockTypes;
}

std::vector<WeightFormat> codebook_formats() {
  std::vector<WeightFormat> formats;
  for (const std::size_t group_size : kCodebookGroupSizes) {
    for (const Codebook& book : kCodebooks) {
      for (const int scale_bits : {8, 16}) formats.push_back(codebook_format(book.id, group_size, scale_bits));
    }
  }
  return formats;
}

std::vector<WeightFormat> affine_formats() {
  std::vector<WeightFormat> formats;
  for (const int bits : kAffineBits) {
    for (const std::size_t group_size : kAffineGroupSizes) formats.push_back(affine_format(bits, group_size));
  }
  return formats;
}

std::string format_name(const WeightFormat& format) {
  for (const PlainFormat& plain : kPlain) {
    if (plain.kind == format.kind) return std::string(plain.name);
  }
  if (format.kind == Kind::kBlocks) return block_type_name(format.block_type);
  const std::string group = format.group_size == 0 ? "channel" : "g" + std::to_string(format.group_size);
  if (format.kind == Kind::kAffine) return "affine" + std::to_string(format.bits) + "-" + group;
  const std::string scales = format.scale_bits == 8 ? "-s8" : "";
  if (format.codebook != CodebookId::kUniform) {
    return std::string(codebook(format.codebook).name) + "-" + group + scales;
  }
  return "int" + std::to_string(format.bits) + "-" + group + (format.symmetric ? "" : "-asym") + scales;
}

WeightFormat parse_format(std::string_view name) {
  for (const PlainFormat& plain : kPlain) {
    if (plain.name == name) return {.kind = plain.kind};
  }
  for (const DType type : kBlockTypes) {
    if (block_type_name(type) == name) return block_format(type);
  }
  for (const WeightFormat& format : affine_formats()) {
    if (format_name(format) == name) return format;
  }
  for (const WeightFormat& format : codebook_formats()) {
    if (format_name(format) == name) return format;
  }
  for (const int bits : kBits) {
    for (const std::size_t group_size : kGroupSizes) {
      for (const bool symmetric : {true, false}) {
        for (const int scale_bits : {16, 8}) {
          if (scale_bits == 8 && group_size == 0) continue;  // one scale per row cannot be divided
          const WeightFormat format = {.kind = Kind::kInteger,
                                       .bits = bits,
                                       .group_size = group_size,
                                       .symmetric = symmetric,
                                       .scale_bits = scale_bits};
          if (format_name(format) == name) return format;
        }
      }
    }
  }
  throw Error("format '" + std::string(name) + "'",
              "unknown; there are f32, f16, bf16 and int8, int6, int5 or int4 with -g32, -g64, -g128 or -channel, "
              "-asym after it, and -s8 last except for -channel (int4-g32-asym, int5-g64-asym-s8), " +
                  codebook_names() +
                  " with -g32, -g64 or -g128 and -s8 after it (nl4-g64-s8), for MLX affine2, 3, 4, 5, 6 or 8 with "
                  "-g32, -g64 or -g128, "
                  "and for GGUF files q2_k to q6_k, q4_0, q4_1, q5_0, q5_1, q8_0, "
                  "iq2_xxs, iq2_xs, iq2_s, iq3_xxs, iq3_s, iq4_nl, iq4_xs");
}

}  // namespace ballast
