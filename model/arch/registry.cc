#include <algorithm>
#include <array>
#include <cassert>

#include "ballast/error.h"
#include "model/arch/architecture.h"
#include "model/arch/llama.h"

namespace ballast::model {

namespace {

const std::array kArchitectures = {&kLlama};

const Architecture& find(std::string_view name, std::string_view Architecture::* key, std::string_view place) {
  std::string known;
  for (const Architecture* architecture : kArchitectures) {
    if (architecture->*key == name && !name.empty()) return *architecture;
    known += (known.empty() ? "" : ", ") + std::string(architecture->*key);
  }
  throw Error(place, "architecture '" + std::string(name) + "' is not supported; supported: " + known);
}

std::string fill_in(std::string_view pattern, std::size_t layer) {
  std::string name(pattern);
  const std::size_t at = name.find("{}");
  if (at != std::string::npos) name.replace(at, 2, std::to_string(layer));
  return name;
}

const TensorNames& names_of(const Architecture& architecture, Role role) {
  const auto it = std::ranges::find(architecture.names, role, &TensorNames::role);
  assert(it != architecture.names.end());
  return *it;
}

}  // namespace

const Architecture& architecture_for_model_type(std::string_view model_type, std::string_view place) {
  return find(model_type, &Architecture::model_type, place);
}

const Architecture& architecture_for_gguf(std::string_view name, std::string_view place) {
  return find(name, &Architecture::gguf_architecture, place);
}

std::string module_name(const Architecture& architecture, Role role, std::size_t layer) {
  return fill_in(names_of(architecture, role).huggingface, layer);
}

std::string gguf_module_name(const Architecture& architecture, Role role, std::size_t layer) {
  return fill_in(names_of(architecture, role).gguf, layer);
}

}  // namespace ballast::model
