#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "formats/codecs/compressed_tensors_config.h"
#include "formats/codecs/nvfp4.h"

namespace ballast::formats {

namespace {

constexpr std::array<std::string_view, 7> kReadLayouts = {
    "pack-quantized",  "int-quantized", "naive-quantized", "float-quantized", "nvfp4-pack-quantized",
    "mixed-precision", "dense"};

void check_layout(const files::JsonReader& reader) {
  const std::string layout = reader.text("format", "dense");
  if (std::ranges::find(kReadLayouts, layout) != kReadLayouts.end()) return;
  std::string known;
  for (const std::string_view read : kReadLayouts) known += (known.empty() ? "" : ", ") + std::string(read);
  reader.fail("format", "'" + layout + "' is not read: " + known + " are");
}

std::size_t group_columns(const files::JsonReader& weights, const std::string& strategy) {
  if (strategy != "group" && strategy != "tensor_group") return 0;
  return weights.size("group_size");
}

WeightScheme read_scheme(const files::JsonReader& weights) {
  WeightScheme scheme;
  const std::string type = weights.text("type", "int");
  scheme.is_float = type == "float";
  if (!scheme.is_float && type != "int") weights.fail("type", "must be 'int' or 'float'");
  scheme.bits = weights.at("num_bits").integer<int>(2, 8);
  if (scheme.is_float && scheme.bits != 4 && scheme.bits != 8) weights.fail("num_bits", "must be 4 or 8, of floats");
  scheme.symmetric = weights.flag("symmetric", true);
  if (scheme.is_float && !scheme.symmetric) weights.fail("symmetric", "must be true, of floats");
  const bool has_group = weights.has("group_size") && weights.at("group_size").integer<std::int64_t>() > 0;
  const std::string strategy = weights.text("strategy", has_group ? "group" : "tensor");
  scheme.group_size = group_columns(weights, strategy);
  if (scheme.is_float4()) {
    if (strategy != "tensor_group" || scheme.group_size != kNvfp4Group) {
      weights.fail("strategy", "floats of 4 bits are read as NVFP4: 'tensor_group' with a group_size of 16");
    }
  } else if (strategy == "block" && scheme.is_float) {
    const auto sizes = weights.at("block_structure").integers<std::size_t>(1, 1 << 20);
    if (sizes.size() != 2) weights.fail("block_structure", "must be a list of two sizes");
    scheme.block = ScaleBlock{.rows = sizes[0], .cols = sizes[1]};
  } else if (strategy != "tensor" && strategy != "channel" && (strategy != "group" || scheme.is_float)) {
    weights.fail("strategy", "'" + strategy + "' is not read for weights of type " + type);
  }
  return scheme;
}

/// Refuses rotations of weights that would have to be undone at run time.
void refuse_transforms(const files::JsonReader& quantization) {
  if (!quantization.has("transform_config")) return;
  const files::JsonReader transforms = quantization.object("transform_config");
  if (transforms.has("config_groups") && !transforms.object("config_groups").members().empty()) {
    quantization.fail("transform_config", "has transforms of activations, which are not run");
  }
}

/// Refuses weights that are stored without their zeros, with a mask.
void refuse_sparsity(const files::JsonReader& quantization) {
  if (!quantization.has("sparsity_config")) return;
  const files::JsonReader sparsity = quantization.object("sparsity_config");
  const std::string layout = sparsity.text("format", "dense");
  if (layout != "dense") sparsity.fail("format", "'" + layout + "' is not read: dense is");
}

}  // namespace

std::vector<WeightScheme> read_weight_schemes(const files::JsonReader& quantization) {
  check_layout(quantization);
  refuse_transforms(quantization);
  refuse_sparsity(quantization);
  std::vector<WeightScheme> schemes;
  for (const auto& [name, group] : quantization.object("config_groups").members()) {
    check_layout(group);
    if (!group.has("weights")) continue;
    const WeightScheme scheme = read_scheme(group.object("weights"));
    if (std::ranges::find(schemes, scheme) == schemes.end()) schemes.push_back(scheme);
  }
  return schemes;
}

}  // namespace ballast::formats
