#include <algorithm>

#include "ballast/convert.h"
#include "ballast/error.h"

namespace ballast {

const std::vector<Preset>& presets() {
  static const std::vector<Preset> list = {
      {.name = "fast",
       .description = "each weight to the nearest of a searched grid; a short calibration",
       .rounding = Recipe::Rounding::kScaleSearch,
       .samples = 8,
       .length = 256,
       .probe_samples = 1},
      {.name = "balanced",
       .description = "GPTQ with 32 samples of 512 tokens",
       .rounding = Recipe::Rounding::kGptq,
       .samples = 32,
       .length = 512,
       .probe_samples = 1},
      {.name = "best",
       .description = "GPTQ with 128 samples of 512 tokens; formats weighed on 4 samples",
       .rounding = Recipe::Rounding::kGptq,
       .samples = 128,
       .length = 512,
       .probe_samples = 4},
  };
  return list;
}

const Preset& preset_by_name(std::string_view name) {
  const auto it = std::ranges::find(presets(), name, &Preset::name);
  if (it != presets().end()) return *it;
  std::string known;
  for (const Preset& preset : presets()) known += (known.empty() ? "" : ", ") + preset.name;
  throw Error("preset '" + std::string(name) + "'", "unknown; there are " + known);
}

void apply_preset(const Preset& preset, ConvertOptions& options) {
  if (options.recipe.linears.quantizes()) options.recipe.rounding = preset.rounding;
  options.calibration.samples = preset.samples;
  options.calibration.length = preset.length;
  options.probe_samples = preset.probe_samples;
}

}  // namespace ballast
