// Any bytes are a safetensors file with a quantized matrix "m": it is checked and packed for the kernels, or refused
// with an Error.
#include <cstddef>
#include <cstdint>
#include <span>

#include "ballast/error.h"
#include "ballast/recipe.h"
#include "formats/code_matrix.h"
#include "formats/codecs/ballast.h"
#include "kernels/matrix/quantized_matrix.h"
#include "memory_checkpoint.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ballast;
  try {
    const test::MemoryCheckpoint checkpoint(std::as_bytes(std::span(data, size)));
    for (const char* format :
         {"int8-g32", "int4-g32-asym", "int5-g32-s8", "nl2-g32-s8", "nl3-g32-s8", "nl4-g32-s8", "nl7-g32-s8"}) {
      try {
        const formats::StoredQuantizedTensor stored(checkpoint, "m", parse_format(format), 4, 64);
        const formats::CodeMatrix copy(stored.view());
        const kernels::QuantizedMatrix packed(copy.view());
      } catch (const Error&) {
      }
    }
  } catch (const Error&) {
  }
  return 0;
}
