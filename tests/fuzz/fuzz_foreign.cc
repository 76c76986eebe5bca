// Any line is the quantization part of a config.json, and the bytes after it are a safetensors file with a matrix "m"
// of 8 rows: it is decoded and packed for the kernels, with the same values, or refused with an Error.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>
#include <vector>

#include "ballast/error.h"
#include "files/json_reader.h"
#include "files/strict_json.h"
#include "formats/codecs/codec.h"
#include "kernels/matrix/quantized_matrix.h"
#include "memory_checkpoint.h"

namespace ballast::formats {
namespace {

constexpr std::size_t kRows = 8;
constexpr std::size_t kCols = 64;

void read(std::string_view config_text, std::span<const std::byte> file) {
  const nlohmann::json config = files::parse_strict_json(config_text, "config.json");
  const auto format = detect_codec(files::JsonReader(config, "config.json"));
  if (format == nullptr) return;
  const test::MemoryCheckpoint checkpoint(file);
  if (!format->has(checkpoint, "m")) return;
  format->stored_rows(checkpoint, "m");
  format->checked_tensors(checkpoint, "m", kRows, kCols);
  const StoredCodes codes = format->codes(checkpoint, "m", kRows, kCols);
  std::vector<float> decoded(kRows * kCols);
  for (std::size_t row = 0; row < kRows; ++row) codes.decode_row(row, decoded.data() + row * kCols);
  const bool finite = std::ranges::all_of(decoded, [](float value) { return std::isfinite(value); });
  if (!codes.layout || !finite) return;
  const kernels::QuantizedMatrix packed(*codes.layout, codes.read_row);
  std::vector<float> values(kCols);
  for (std::size_t row = 0; row < kRows; ++row) {
    packed.decode_row(row, values.data());
    const auto expected = std::span(decoded).subspan(row * kCols, kCols);
    if (!std::ranges::equal(values, expected)) std::abort();
  }
}

}  // namespace
}  // namespace ballast::formats

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const std::size_t line = std::min(all.find('\n'), size);
  const std::size_t file = std::min(line + 1, size);
  try {
    ballast::formats::read(all.substr(0, line), std::as_bytes(std::span(data, size)).subspan(file));
  } catch (const ballast::Error&) {  // NOLINT(bugprone-empty-catch): most inputs are refused
  }
  return 0;
}
