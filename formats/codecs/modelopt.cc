// ModelOpt (NVIDIA's Model Optimizer): NVFP4, and 8-bit floats with a scale of the matrix or of rows.
#include <algorithm>
#include <array>
#include <system_error>

#include "files/strict_json.h"
#include "formats/codecs/codec.h"
#include "formats/codecs/float8.h"
#include "formats/codecs/module_tensors.h"
#include "formats/codecs/nvfp4.h"

namespace ballast::formats {

namespace {

using files::Checkpoint;

/// "MIXED_PRECISION" gives each module one of the others. The tensors show which.
constexpr std::array<std::string_view, 6> kReadAlgorithms = {
    "NVFP4", "W4A16_NVFP4", "NVFP4_AWQ", "FP8", "FP8_PER_CHANNEL_PER_TOKEN", "MIXED_PRECISION"};

constexpr Nvfp4Tensors kModelOptFloat4 = {.type = "ModelOpt NVFP4",
                                          .codes = "weight",
                                          .scales = "weight_scale",
                                          .matrix_scale = "weight_scale_2",
                                          .divides = false};

class ModelOptReader : public CodecReader {
 public:
  explicit ModelOptReader(const files::JsonReader& quantization) {
    const std::string algorithm = quantization.text("quant_algo");
    if (std::ranges::find(kReadAlgorithms, algorithm) != kReadAlgorithms.end()) return;
    std::string known;
    for (const std::string_view read : kReadAlgorithms) known += (known.empty() ? "" : ", ") + std::string(read);
    quantization.fail("quant_algo", "'" + algorithm + "' is not read: " + known + " are");
  }

  bool has(const Checkpoint& checkpoint, const std::string& module) const override {
    const std::string weight = module + ".weight";
    if (!checkpoint.contains(weight)) return false;
    const DType type = checkpoint.tensor(weight).dtype;
    return type == DType::kU8 || type == DType::kF8_E4M3 || checkpoint.contains(module + ".weight_scale");
  }

  std::size_t stored_rows(const Checkpoint& checkpoint, const std::string& module) const override {
    return axis_size(checkpoint.tensor(module + ".weight"), 0);
  }

  std::vector<std::string> checked_tensors(const Checkpoint& checkpoint, const std::string& module, std::size_t rows,
                                           std::size_t cols) const override {
    const ModuleTensors tensors(checkpoint, module);
    return is_float4(tensors) ? check_nvfp4(tensors, kModelOptFloat4, rows, cols)
                              : check_float8(tensors, "weight_scale", rows, cols, nullptr);
  }

  StoredCodes codes(const Checkpoint& checkpoint, const std::string& module, std::size_t rows,
                    std::size_t cols) const override {
    const ModuleTensors tensors(checkpoint, module);
    return is_float4(tensors) ? nvfp4_codes(tensors, kModelOptFloat4, rows, cols)
                              : float8_codes("ModelOpt FP8", tensors, "weight_scale", rows, cols, nullptr);
  }

 private:
  /// Returns whether a matrix is in NVFP4; otherwise it is in FP8. Throws Error if it is in neither.
  static bool is_float4(const ModuleTensors& tensors) {
    if (tensors.contains("pre_quant_scale")) {
      tensors.fail("pre_quant_scale",
                   "has factors of inputs, which are not applied: export a model that is smoothed "
                   "in its weights");
    }
    return tensors.get("weight", {DType::kU8, DType::kF8_E4M3}).dtype == DType::kU8;
  }
};

}  // namespace

std::unique_ptr<const CodecReader> read_modelopt_config(const std::filesystem::path& directory) {
  const std::filesystem::path file = directory / "hf_quant_config.json";
  std::error_code unreadable;
  if (!std::filesystem::exists(file, unreadable) && !unreadable) return nullptr;
  const nlohmann::json config = files::read_json_object(file);
  return std::make_unique<const ModelOptReader>(files::JsonReader(config, file.string()).object("quantization"));
}

const Codec kModelOptCodec = {
    .detect =
        [](const files::JsonReader& quantization) {
          return quantization.text("quant_method", "").starts_with("modelopt");
        },
    .make_reader = [](const files::JsonReader& quantization) -> std::unique_ptr<const CodecReader> {
      return std::make_unique<const ModelOptReader>(quantization);
    }};

}  // namespace ballast::formats
