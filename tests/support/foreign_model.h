// Tiny models in other programs' formats, packed bit by bit, with their float values.
#ifndef BALLAST_TESTS_SUPPORT_FOREIGN_MODEL_H_
#define BALLAST_TESTS_SUPPORT_FOREIGN_MODEL_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "file_bytes.h"
#include "kernels/matrix/float_matrix.h"
#include "tiny_model.h"

namespace ballast::test {

/// A tensor of any type, with the type's name in safetensors.
struct StoredTensor {
  std::string dtype;
  Shape shape;
  std::string data;
};

using StoredTensors = std::map<std::string, StoredTensor>;

/// Codes of a matrix by groups of columns: w[r][c] = (code - zero) * scale + offset.
struct IntegerMatrix {
  std::size_t rows = 0;
  std::size_t cols = 0;
  int bits = 4;
  std::size_t groups = 1;
  std::vector<std::size_t> column_group;  ///< [cols]
  std::vector<unsigned> codes;            ///< [rows][cols]
  std::vector<unsigned> zeros;            ///< [rows][groups]
  std::vector<float> scales;              ///< [rows][groups], exact in F16 and BF16
  std::vector<float> offsets;             ///< [rows][groups], exact in F16 and BF16

  float value(std::size_t row, std::size_t col) const {
    const std::size_t group = row * groups + column_group[col];
    const int code = static_cast<int>(codes[row * cols + col]) - static_cast<int>(zeros[group]);
    return static_cast<float>(code) * scales[group] + offsets[group];
  }
};

/// A way of quantizing a model.
struct ForeignForm {
  std::string name;
  nlohmann::json config;  ///< fields that are added to config.json
  int bits = 4;
  std::size_t group = 32;    ///< columns per group; 0: whole rows
  bool symmetric = true;     ///< zero points of 2^(bits-1)
  bool has_offsets = false;  ///< instead of zero points; any offsets if symmetric is false
  bool ordered = false;      ///< the columns of a group are not adjacent
  bool keeps_codes = true;   ///< kernels can multiply the codes
  bool all = false;          ///< embedding and head are quantized, too
  std::function<StoredTensors(const IntegerMatrix&)> pack;
};

/// Packs codes, each with its lowest bit first, into 32-bit words.
inline std::string bit_string(const std::vector<unsigned>& codes, int bits) {
  std::vector<std::uint32_t> words((codes.size() * static_cast<std::size_t>(bits) + 31) / 32);
  std::size_t place = 0;
  for (const unsigned code : codes) {
    for (int bit = 0; bit < bits; ++bit, ++place) words[place / 32] |= (code >> bit & 1U) << place % 32;
  }
  std::string bytes;
  for (const std::uint32_t word : words) bytes += raw(word);
  return bytes;
}

/// Transposes rows of whole words.
inline std::string transposed_words(const std::vector<std::string>& rows) {
  std::string bytes;
  for (std::size_t word = 0; word < rows.front().size(); word += 4) {
    for (const std::string& row : rows) bytes += row.substr(word, 4);
  }
  return bytes;
}

inline std::vector<std::string> code_rows(const IntegerMatrix& matrix) {
  std::vector<std::string> rows;
  for (std::size_t r = 0; r < matrix.rows; ++r) {
    const auto first = matrix.codes.begin() + static_cast<std::ptrdiff_t>(r * matrix.cols);
    rows.push_back(bit_string({first, first + static_cast<std::ptrdiff_t>(matrix.cols)}, matrix.bits));
  }
  return rows;
}

inline std::string joined(const std::vector<std::string>& rows) {
  return std::accumulate(rows.begin(), rows.end(), std::string());
}

inline std::string half_bytes(const std::vector<float>& values, kernels::FloatType type) {
  std::vector<std::uint16_t> halves(values.size());
  kernels::from_float(values.data(), values.size(), type, halves.data());
  return {reinterpret_cast<const char*>(halves.data()), halves.size() * sizeof(std::uint16_t)};
}

/// Transposes [rows][groups] to [groups][rows].
template <typename T>
std::vector<T> by_groups(const std::vector<T>& values, std::size_t groups) {
  std::vector<T> turned;
  for (std::size_t group = 0; group < groups; ++group) {
    for (std::size_t i = group; i < values.size(); i += groups) turned.push_back(values[i]);
  }
  return turned;
}

inline Shape shape_of(std::size_t a, std::size_t b) {
  return {static_cast<std::int64_t>(a), static_cast<std::int64_t>(b)};
}

inline std::size_t words_of(std::size_t codes, int bits) {
  return (codes * static_cast<std::size_t>(bits) + 31) / 32;
}

/// Packs a matrix as GPTQ. `stored_zero` returns the stored value of a zero point.
inline StoredTensors pack_gptq(const IntegerMatrix& m, const std::function<unsigned(unsigned)>& stored_zero) {
  std::string zeros;
  for (std::size_t group = 0; group < m.groups; ++group) {
    std::vector<unsigned> row;
    for (std::size_t r = 0; r < m.rows; ++r) row.push_back(stored_zero(m.zeros[r * m.groups + group]));
    zeros += bit_string(row, m.bits);
  }
  std::string order;
  for (const std::size_t group : m.column_group) order += raw(static_cast<std::int32_t>(group));
  const std::vector<float> scales = by_groups(m.scales, m.groups);
  return {{"qweight", {"I32", shape_of(words_of(m.cols, m.bits), m.rows), transposed_words(code_rows(m))}},
          {"qzeros", {"I32", shape_of(m.groups, words_of(m.rows, m.bits)), zeros}},
          {"scales", {"F16", shape_of(m.groups, m.rows), half_bytes(scales, kernels::FloatType::kF16)}},
          {"g_idx", {"I32", {static_cast<std::int64_t>(m.cols)}, order}}};
}

inline std::string awq_words(const std::vector<unsigned>& values) {
  static constexpr std::array<std::size_t, 8> kOrder = {0, 2, 4, 6, 1, 3, 5, 7};
  std::vector<unsigned> nibbles;
  for (std::size_t first = 0; first < values.size(); first += 8) {
    for (const std::size_t place : kOrder) nibbles.push_back(values[first + place]);
  }
  return bit_string(nibbles, 4);
}

inline StoredTensors pack_awq(const IntegerMatrix& m) {
  const std::vector<float> scales = by_groups(m.scales, m.groups);
  return {{"qweight", {"I32", shape_of(m.cols, m.rows / 8), awq_words(by_groups(m.codes, m.cols))}},
          {"qzeros", {"I32", shape_of(m.groups, m.rows / 8), awq_words(by_groups(m.zeros, m.groups))}},
          {"scales", {"F16", shape_of(m.groups, m.rows), half_bytes(scales, kernels::FloatType::kF16)}}};
}

inline StoredTensors pack_mlx(const IntegerMatrix& m) {
  const Shape groups = shape_of(m.rows, m.groups);
  return {{"weight", {"U32", shape_of(m.rows, words_of(m.cols, m.bits)), joined(code_rows(m))}},
          {"scales", {"BF16", groups, half_bytes(m.scales, kernels::FloatType::kBF16)}},
          {"biases", {"BF16", groups, half_bytes(m.offsets, kernels::FloatType::kBF16)}}};
}

inline StoredTensors pack_compressed(const IntegerMatrix& m, bool symmetric) {
  StoredTensors tensors = {
      {"weight_packed", {"I32", shape_of(m.rows, words_of(m.cols, m.bits)), joined(code_rows(m))}},
      {"weight_scale", {"BF16", shape_of(m.rows, m.groups), half_bytes(m.scales, kernels::FloatType::kBF16)}},
      {"weight_shape", {"I64", {2}, raw(std::uint64_t{m.rows}) + raw(std::uint64_t{m.cols})}}};
  if (symmetric) return tensors;
  std::vector<std::string> zeros;
  const std::vector<unsigned> turned = by_groups(m.zeros, m.groups);
  for (std::size_t group = 0; group < m.groups; ++group) {
    const auto first = turned.begin() + static_cast<std::ptrdiff_t>(group * m.rows);
    zeros.push_back(bit_string({first, first + static_cast<std::ptrdiff_t>(m.rows)}, m.bits));
  }
  tensors["weight_zero_point"] = {"I32", shape_of(words_of(m.rows, m.bits), m.groups), transposed_words(zeros)};
  return tensors;
}

inline StoredTensors pack_bytes(const IntegerMatrix& m, bool symmetric) {
  const auto around_zero = [](const std::vector<unsigned>& values) {
    std::string bytes;
    for (const unsigned value : values) bytes += static_cast<char>(static_cast<int>(value) - 128);
    return bytes;
  };
  StoredTensors tensors = {{"weight", {"I8", shape_of(m.rows, m.cols), around_zero(m.codes)}},
                           {"weight_scale", {"F32", shape_of(m.rows, m.groups), ""}}};
  for (const float scale : m.scales) tensors["weight_scale"].data += raw(scale);
  if (!symmetric) tensors["weight_zero_point"] = {"I8", shape_of(m.rows, m.groups), around_zero(m.zeros)};
  return tensors;
}

inline nlohmann::json compressed_config(const std::string& layout, const nlohmann::json& weights) {
  return {{"quantization_config",
           {{"quant_method", "compressed-tensors"},
            {"format", layout},
            {"quantization_status", "compressed"},
            {"config_groups", {{"group_0", {{"targets", {"Linear"}}, {"weights", weights}}}}},
            {"ignore", {"lm_head"}}}}};
}

inline ForeignForm compressed_form(int bits, std::size_t group, bool symmetric) {
  nlohmann::json weights = {{"num_bits", bits}, {"type", "int"}, {"symmetric", symmetric}, {"strategy", "channel"}};
  if (group > 0) weights.update({{"strategy", "group"}, {"group_size", group}});
  return {.name = "compressed-tensors int" + std::to_string(bits) + (symmetric ? "" : " asymmetric"),
          .config = compressed_config("pack-quantized", weights),
          .bits = bits,
          .group = group,
          .symmetric = symmetric,
          .pack = [symmetric](const IntegerMatrix& m) { return pack_compressed(m, symmetric); }};
}

inline ForeignForm compressed_bytes_form(bool symmetric) {
  return {.name = std::string("compressed-tensors bytes") + (symmetric ? "" : " asymmetric"),
          .config =
              compressed_config("int-quantized", {{"num_bits", 8}, {"symmetric", symmetric}, {"strategy", "channel"}}),
          .bits = 8,
          .group = 0,
          .symmetric = symmetric,
          .pack = [symmetric](const IntegerMatrix& m) { return pack_bytes(m, symmetric); }};
}

inline ForeignForm gptq_form(int bits, std::size_t group, bool ordered = false, bool second_version = false) {
  const unsigned mask = (1U << bits) - 1;
  return {.name = "GPTQ int" + std::to_string(bits) + (ordered ? " ordered" : "") + (second_version ? " v2" : ""),
          .config = {{"quantization_config",
                      {{"quant_method", "gptq"},
                       {"bits", bits},
                       {"group_size", group == 0 ? -1 : static_cast<int>(group)},
                       {"desc_act", ordered},
                       {"checkpoint_format", second_version ? "gptq_v2" : "gptq"}}}},
          .bits = bits,
          .group = group,
          .symmetric = false,
          .ordered = ordered,
          .pack = [mask, second_version](const IntegerMatrix& m) {
            return pack_gptq(m, [&](unsigned zero) { return second_version ? zero : (zero - 1) & mask; });
          }};
}

inline ForeignForm awq_form() {
  return {.name = "AWQ",
          .config =
              {{"quantization_config",
                {{"quant_method", "awq"}, {"bits", 4}, {"group_size", 32}, {"version", "gemm"}, {"zero_point", true}}}},
          .symmetric = false,
          .pack = pack_awq};
}

inline ForeignForm mlx_form(int bits, std::size_t group, bool symmetric = false) {
  return {.name = "MLX int" + std::to_string(bits) + "-g" + std::to_string(group) + (symmetric ? " symmetric" : ""),
          .config = {{"quantization", {{"bits", bits}, {"group_size", group}}}},
          .bits = bits,
          .group = group,
          .symmetric = symmetric,
          .has_offsets = true,
          .keeps_codes = bits < 8 || symmetric,
          .all = true,
          .pack = pack_mlx};
}

inline std::vector<ForeignForm> foreign_forms() {
  return {compressed_form(4, 32, true),
          compressed_form(4, 64, false),
          compressed_form(2, 32, false),
          compressed_form(3, 0, true),
          compressed_form(5, 32, true),
          compressed_form(6, 64, false),
          compressed_form(7, 32, true),
          compressed_form(8, 32, true),
          compressed_bytes_form(true),
          compressed_bytes_form(false),
          gptq_form(2, 32),
          gptq_form(3, 32),
          gptq_form(4, 64),
          gptq_form(4, 0),
          gptq_form(8, 32),
          gptq_form(4, 32, true),
          gptq_form(4, 32, false, true),
          awq_form(),
          mlx_form(2, 32),
          mlx_form(3, 64),
          mlx_form(4, 64),
          mlx_form(5, 32),
          mlx_form(6, 64),
          mlx_form(8, 64),
          mlx_form(8, 64, true),
          mlx_form(4, 64, true)};
}

/// Returns random integers in which every bit of the codes and every group occurs.
inline IntegerMatrix random_integers(const ForeignForm& form, std::size_t rows, std::size_t cols,
                                     std::mt19937& random) {
  IntegerMatrix matrix{.rows = rows,
                       .cols = cols,
                       .bits = form.bits,
                       .groups = form.group == 0 ? 1 : cols / form.group,
                       .column_group = {},
                       .codes = {},
                       .zeros = {},
                       .scales = {},
                       .offsets = {}};
  const unsigned codes = 1U << form.bits;
  for (std::size_t c = 0; c < cols; ++c) matrix.column_group.push_back(c * matrix.groups / cols);
  if (form.ordered) std::ranges::shuffle(matrix.column_group, random);
  for (std::size_t i = 0; i < rows * cols; ++i) matrix.codes.push_back(static_cast<unsigned>(random() % codes));
  for (std::size_t i = 0; i < rows * matrix.groups; ++i) {
    const unsigned zero = static_cast<unsigned>(random() % codes);
    matrix.zeros.push_back(form.has_offsets ? 0 : form.symmetric ? codes / 2 : zero);
    matrix.scales.push_back(static_cast<float>(64 + random() % 64) / (1024.0F * static_cast<float>(codes)));
    const float offset = form.symmetric ? -static_cast<float>(codes / 2) * matrix.scales.back()
                                        : -static_cast<float>(64 + random() % 64) / 2048.0F;
    matrix.offsets.push_back(form.has_offsets ? offset : 0.0F);
  }
  return matrix;
}

struct ForeignModel {
  nlohmann::json config;
  StoredTensors tensors;
  TinyModel plain;  ///< the model with the float values of the tensors

  std::string tensor_bytes() const {
    nlohmann::json header = nlohmann::json::object();
    std::string data;
    for (const auto& [name, tensor] : tensors) {
      const std::size_t begin = data.size();
      data += tensor.data;
      header[name] = {{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
    }
    return safetensors_bytes(header.dump(), data);
  }

  std::filesystem::path write(const std::filesystem::path& directory) const {
    std::filesystem::create_directories(directory);
    write_file(directory / "config.json", config.dump());
    write_file(directory / "model.safetensors", tensor_bytes());
    return directory;
  }
};

/// Returns a model of one layer with 64 channels. `pack` replaces the given values of a matrix by those of its codes,
/// and returns its tensors.
inline ForeignModel foreign_model(const nlohmann::json& config, bool all,
                                  const std::function<StoredTensors(Tensor&)>& pack) {
  TinyModelOptions options;
  options.layers = 1;
  options.hidden = 64;
  options.head_size = 16;
  options.mlp = 128;
  ForeignModel model{.config = {}, .tensors = {}, .plain = random_model(options)};
  model.config = model.plain.config;
  model.config.update(config);
  for (auto& [name, tensor] : model.plain.tensors) {
    const std::string module = name.substr(0, name.size() - std::string(".weight").size());
    if (tensor.shape.size() == 2 && (all || module.contains("layers"))) {
      for (auto& [part, stored] : pack(tensor)) model.tensors[module + "." + part] = std::move(stored);
      continue;
    }
    const std::string values(reinterpret_cast<const char*>(tensor.values.data()), tensor.values.size() * sizeof(float));
    model.tensors[name] = {"F32", tensor.shape, values};
  }
  return model;
}

inline ForeignModel foreign_model(const ForeignForm& form) {
  std::mt19937 random(11);
  return foreign_model(form.config, form.all, [&](Tensor& tensor) {
    const auto rows = static_cast<std::size_t>(tensor.shape[0]);
    const auto cols = static_cast<std::size_t>(tensor.shape[1]);
    const IntegerMatrix matrix = random_integers(form, rows, cols, random);
    for (std::size_t i = 0; i < tensor.values.size(); ++i) tensor.values[i] = matrix.value(i / cols, i % cols);
    return form.pack(matrix);
  });
}

/// Returns the value of a code without infinities: a sign, bits of exponent, and bits of mantissa.
inline double small_float(unsigned code, int exponent_bits, int mantissa_bits) {
  const unsigned mantissas = 1U << mantissa_bits, exponents = 1U << exponent_bits;
  const double fraction = static_cast<double>(code % mantissas) / mantissas;
  const int exponent = static_cast<int>(code / mantissas % exponents);
  const int bias = static_cast<int>(exponents / 2) - 1;
  const double size = exponent == 0 ? fraction * std::pow(2, 1 - bias) : (1 + fraction) * std::pow(2, exponent - bias);
  return code >= exponents * mantissas ? -size : size;
}

/// Returns a model in FP8 with a scale for each block of 48 rows and 40 columns, cut at the edges.
inline ForeignModel fp8_model() {
  constexpr std::size_t kRows = 48, kCols = 40;
  std::mt19937 random(12);
  const nlohmann::json config = {
      {"quantization_config", {{"quant_method", "fp8"}, {"weight_block_size", {kRows, kCols}}}}};
  return foreign_model(config, false, [&](Tensor& tensor) {
    const auto rows = static_cast<std::size_t>(tensor.shape[0]);
    const auto cols = static_cast<std::size_t>(tensor.shape[1]);
    const std::size_t blocks = (cols + kCols - 1) / kCols;
    std::vector<float> scales((rows + kRows - 1) / kRows * blocks);
    for (float& scale : scales) scale = static_cast<float>(64 + random() % 64) / 16384.0F;
    std::string codes;
    for (std::size_t i = 0; i < tensor.values.size(); ++i) {
      auto code = static_cast<unsigned>(random() % 256);
      if ((code & 127U) >= 104) code ^= 64;  // values up to 2^6, without NaN
      const float scale = scales[i / cols / kRows * blocks + i % cols / kCols];
      tensor.values[i] = static_cast<float>(small_float(code, 4, 3)) * scale;
      codes += static_cast<char>(code);
    }
    std::string scale_bytes;
    for (const float scale : scales) scale_bytes += raw(scale);
    return StoredTensors{{"weight", {"F8_E4M3", tensor.shape, codes}},
                         {"weight_scale_inv", {"F32", shape_of(scales.size() / blocks, blocks), scale_bytes}}};
  });
}

/// NVFP4, with the settings that a program writes.
inline ForeignModel nvfp4_model(const nlohmann::json& settings, bool modelopt) {
  constexpr std::size_t kGroup = 16;
  std::mt19937 random(13);
  return foreign_model(settings, false, [&](Tensor& tensor) {
    const auto rows = static_cast<std::size_t>(tensor.shape[0]);
    const auto cols = static_cast<std::size_t>(tensor.shape[1]);
    const float matrix_scale = static_cast<float>(64 + random() % 64) * 40;
    const float factor = 1 / matrix_scale;
    std::string packed(rows * cols / 2, '\0'), scales;
    float scale = 0;
    for (std::size_t i = 0; i < tensor.values.size(); ++i) {
      if (i % kGroup == 0) {
        const auto code = static_cast<unsigned>(random() % 127);
        scales += static_cast<char>(code);
        const auto group_scale = static_cast<float>(small_float(code, 4, 3));
        scale = modelopt ? group_scale * factor : group_scale / matrix_scale;
      }
      const auto code = static_cast<unsigned>(random() % 16);
      packed[i / 2] = static_cast<char>(static_cast<unsigned char>(packed[i / 2]) | code << (i % 2 * 4));
      tensor.values[i] = static_cast<float>(small_float(code, 2, 1)) * scale;
    }
    const Shape packed_shape = shape_of(rows, cols / 2);
    const StoredTensor group_scales = {"F8_E4M3", shape_of(rows, cols / kGroup), scales};
    if (modelopt) {
      return StoredTensors{{"weight", {"U8", packed_shape, packed}},
                           {"weight_scale", group_scales},
                           {"weight_scale_2", {"F32", {}, raw(factor)}}};
    }
    return StoredTensors{{"weight_packed", {"U8", packed_shape, packed}},
                         {"weight_scale", group_scales},
                         {"weight_global_scale", {"F32", {1}, raw(matrix_scale)}}};
  });
}

inline ForeignModel compressed_nvfp4_model() {
  return nvfp4_model(
      compressed_config(
          "nvfp4-pack-quantized",
          {{"num_bits", 4}, {"type", "float"}, {"symmetric", true}, {"strategy", "tensor_group"}, {"group_size", 16}}),
      false);
}

inline ForeignModel modelopt_model() {
  return nvfp4_model({{"quantization_config", {{"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}}}}, true);
}

}  // namespace ballast::test

#endif  // BALLAST_TESTS_SUPPORT_FOREIGN_MODEL_H_
