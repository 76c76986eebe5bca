#include "model/source/quantization_config.h"

#include <string>
#include <utility>

#include "files/format_version.h"
#include "formats/codecs/ballast.h"

namespace ballast::model {

std::vector<std::string> QuantizationConfig::modules_of(const std::string& matrix) const {
  if (tensors.contains(matrix)) return {matrix};
  std::vector<std::string> modules;
  while (true) {
    std::string range = formats::row_range_name(matrix, modules.size());
    if (!tensors.contains(range)) return modules;
    modules.push_back(std::move(range));
  }
}

QuantizationConfig read_quantization(const files::JsonReader& reader) {
  const std::string method = reader.text("quant_method", "");
  if (method != "ballast") reader.fail("quant_method", "'" + method + "' is not supported: start from the original");
  files::check_format_version(reader, kQuantizationVersion);
  QuantizationConfig config;
  const std::string activations = reader.text("activations", "float");
  if (activations != "float" && activations != "int8") reader.fail("activations", "must be 'float' or 'int8'");
  // "float" is how files spell INT16.
  config.activations = activations == "int8" ? ActivationType::kInt8 : ActivationType::kInt16;
  config.activation_groups = reader.flag("activation_groups", false);
  if (const auto names = reader.find("wide_inputs")) {
    for (std::string& name : names->strings()) config.int16_activation_modules.insert(std::move(name));
  }
  for (const auto& [name, format] : reader.at("tensors").members()) {
    config.tensors.emplace(name, parse_format(format.string()));
  }
  for (const std::string& name : config.int16_activation_modules) {
    if (!config.tensors.contains(name)) reader.fail("wide_inputs", "'" + name + "' is not among the tensors");
  }
  return config;
}

}  // namespace ballast::model
