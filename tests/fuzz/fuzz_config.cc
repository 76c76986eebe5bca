// Any bytes are a config.json: it is parsed, described by its architecture, and changed as a conversion does, or
// refused with an Error.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "ballast/error.h"
#include "files/strict_json.h"
#include "model/arch/architecture.h"
#include "model/source/written_spec.h"

namespace ballast::model {
namespace {

void describe(std::string_view text) {
  const nlohmann::json config = files::parse_strict_json(text, "config.json");
  if (!config.is_object()) return;
  const files::JsonReader reader(config, "config.json");
  ModelSpec spec = architecture_for_model_type(reader.text("model_type", ""), "config.json").describe(reader);
  if (!reader.has(kWrittenSpecField)) return;
  const files::JsonReader written = reader.object(kWrittenSpecField);
  read_written_spec(written, spec);
  read_massive_tokens(written);
}

}  // namespace
}  // namespace ballast::model

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    ballast::model::describe({reinterpret_cast<const char*>(data), size});
  } catch (const ballast::Error&) {  // NOLINT(bugprone-empty-catch): most inputs are refused
  }
  return 0;
}
