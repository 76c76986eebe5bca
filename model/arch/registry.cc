#include <algorithm>
#include <array>
#include <cassert>
#include <set>
#include <string_view>

#include "ballast/error.h"
#include "model/arch/architecture.h"
#include "model/arch/architectures.h"

namespace ballast::model {

namespace {

/// The name of the classifier that transformers' generic classes for decoders have.
constexpr const char* kClassifierOfDecoder = "score";

constexpr auto kArchitectures = std::to_array<const Architecture*>({
#define BALLAST_ADDRESS(name) &(name),
    BALLAST_ARCHITECTURES(BALLAST_ADDRESS)
#undef BALLAST_ADDRESS
});

const Architecture& find(std::string_view name, std::string_view Architecture::* key, std::string_view context) {
  std::string known;
  std::set<std::string_view> named;
  for (const Architecture* architecture : kArchitectures) {
    const std::string_view candidate = architecture->*key;
    if (candidate.empty()) continue;
    if (candidate == name) return *architecture;
    if (!named.insert(candidate).second) continue;  // several families may have the same name
    known += (known.empty() ? "" : ", ") + std::string(candidate);
  }
  throw UnsupportedError(context, "architecture '" + std::string(name) + "' is not supported; supported: " + known);
}

}  // namespace

const Architecture& architecture_for_model_type(std::string_view model_type, std::string_view context) {
  return find(model_type, &Architecture::model_type, context);
}

const Architecture& architecture_for_gguf(std::string_view name, std::string_view context) {
  return find(name, &Architecture::gguf_architecture, context);
}

std::string gguf_families() {
  std::string families;
  for (const Architecture* architecture : kArchitectures) {
    if (architecture->gguf_fields == nullptr) continue;
    families += (families.empty() ? "" : ", ") + std::string(architecture->model_type);
  }
  return families;
}

std::size_t run_count(const LayerSpec& layer, FusedTensor::Runs runs, std::size_t first_rows) {
  switch (runs) {
    case FusedTensor::Runs::kRows:
      return first_rows;
    case FusedTensor::Runs::kHeads:
      return layer.attention()->heads;
    case FusedTensor::Runs::kKeyValueHeads:
      return layer.attention()->kv_heads;
    case FusedTensor::Runs::kDeltaKeyHeads:
      return std::get<GatedDeltaSpec>(layer.mixer).key_heads;
    case FusedTensor::Runs::kOne:
      return 1;
  }
  return 1;
}

std::string fill_in(std::string_view pattern, std::size_t layer, std::size_t expert) {
  std::string name(pattern);
  for (const std::size_t index : {layer, expert}) {
    const std::size_t at = name.find("{}");
    if (at != std::string::npos) name.replace(at, 2, std::to_string(index));
  }
  return name;
}

std::span<const TensorNames> names_of_layer(const Architecture& architecture, std::size_t encoder_layers,
                                            std::size_t& layer) {
  if (encoder_layers == 0 || layer < encoder_layers) return architecture.names;
  const std::size_t in_decoder = layer - encoder_layers;
  layer = in_decoder / 2;
  return in_decoder % 2 == 0 ? architecture.decoder_names : architecture.cross_names;
}

std::string module_name(const Architecture& architecture, Role role, std::size_t layer, std::size_t expert,
                        std::size_t encoder_layers) {
  const std::span<const TensorNames> names = names_of_layer(architecture, encoder_layers, layer);
  const auto it = std::ranges::find(names, role, &TensorNames::role);
  // A head without a bias in the original may get one by a fold.
  if (role == Role::kHeadBias && it == names.end()) return module_name(architecture, Role::kHead) + ".bias";
  if (role == Role::kClassifier && it == names.end()) return kClassifierOfDecoder;
  assert(it != names.end());
  return fill_in(it->huggingface, layer, expert);
}

std::vector<std::string> stored_names(const Architecture& architecture, Role role, bool gguf, std::size_t layer,
                                      std::size_t expert, std::size_t encoder_layers) {
  std::vector<std::string> names;
  for (const TensorNames& entry : names_of_layer(architecture, encoder_layers, layer)) {
    const std::string_view pattern = gguf ? entry.gguf : entry.huggingface;
    if (entry.role == role && !pattern.empty()) names.push_back(fill_in(pattern, layer, expert));
  }
  if (role == Role::kHeadBias && names.empty()) names.push_back(module_name(architecture, role));
  if (role == Role::kClassifier && names.empty() && !gguf) names = {kClassifierOfDecoder, "classifier"};
  return names;
}

}  // namespace ballast::model
