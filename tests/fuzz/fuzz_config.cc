// Any bytes as a config.json: parsed and described by the architecture that it names, or refused with an Error.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "ballast/error.h"
#include "model/arch/architecture.h"
#include "model/checkpoint/strict_json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ballast;
  try {
    const nlohmann::json config = model::parse_strict_json({reinterpret_cast<const char*>(data), size}, "config.json");
    if (!config.is_object()) return 0;
    const model::ConfigReader reader(config, "config.json");
    model::architecture_for_model_type(reader.text("model_type", ""), "config.json").describe(reader);
  } catch (const Error&) {
  }
  return 0;
}
