// Any bytes are a safetensors file: it is parsed, checked and decoded, or refused with an Error.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "files/checkpoint.h"
#include "files/safetensors/safetensors_file.h"
#include "formats/decode_floats.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ballast;
  try {
    const files::SafetensorsContent content = files::parse_safetensors(std::as_bytes(std::span(data, size)), "fuzz");
    for (const auto& [name, view] : content.tensors) {
      // A tensor that passed the checks has no more elements than the file has bytes.
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
