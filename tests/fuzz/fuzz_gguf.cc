// Any bytes are a GGUF file: its metadata are read and its tensors decoded, or it is refused with an Error.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "files/checkpoint.h"
#include "files/gguf/gguf_parser.h"
#include "files/gguf/gguf_parts.h"
#include "formats/decode_floats.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ballast;
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    const files::GgufContent content = files::parse_gguf(bytes, "fuzz");
    try {
      files::read_part_place(content.config, "fuzz");
    } catch (const Error&) {
    }
    for (const auto& [key, position] : content.value_positions) {
      try {
        files::read_gguf_value(bytes, position, "fuzz");
      } catch (const Error&) {  // long arrays may hold strings that are not UTF-8
      }
    }
    for (const auto& [name, view] : content.tensors) {
      // A block of 50 bytes holds 256 elements, so there are at most six times as many as bytes.
      std::vector<float> values(static_cast<std::size_t>(element_count(view.shape)));
      try {
        formats::decode_floats(view, name, values.data());
      } catch (const Error&) {  // integers, or values that are not finite
      }
    }
  } catch (const Error&) {
  }
  return 0;
}
