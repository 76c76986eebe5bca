// Any bytes as a config.json: parsed, described by the architecture that it names, changed by what a conversion wrote,
// or refused with an Error.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "ballast/error.h"
#include "model/arch/architecture.h"
#include "model/checkpoint/strict_json.h"
#include "model/written_spec.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ballast;
  try {
    const nlohmann::json config = model::parse_strict_json({reinterpret_cast<const char*>(data), size}, "config.json");
    if (!config.is_object()) return 0;
    const model::ConfigReader reader(config, "config.json");
    ModelSpec spec = model::architecture_for_model_type(reader.text("model_type", ""), "config.json").describe(reader);
    if (!reader.has(model::kWrittenSpecField)) return 0;
    const model::ConfigReader written = reader.object(model::kWrittenSpecField);
    model::read_written_spec(written, spec);
    model::read_massive_tokens(written);
  } catch (const Error&) {
  }
  return 0;
}
