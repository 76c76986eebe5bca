// Any bytes are a file of torch.save: its tensors are found, or it is refused with an Error.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ballast/error.h"
#include "files/torch_file.h"
#include "formats/decode_floats.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ballast;
  try {
    for (const auto& [name, view] : files::parse_torch_file(std::as_bytes(std::span(data, size)), "fuzz")) {
      std::vector<float> values(static_cast<std::size_t>(element_count(view.shape)));
      formats::decode_floats(view, name, values.data());
    }
  } catch (const Error&) {
  }
  return 0;
}
