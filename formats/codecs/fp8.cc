// FP8 as published by DeepSeek: E4M3 with a scale for each block of 128 x 128. Also with one scale, or one for each
// row.
#include <optional>

#include "formats/codecs/codec.h"
#include "formats/codecs/float8.h"
#include "formats/codecs/module_tensors.h"

namespace ballast::formats {

namespace {

using files::Checkpoint;

class Fp8Reader : public CodecReader {
 public:
  explicit Fp8Reader(const files::JsonReader& quantization) {
    const std::string type = quantization.text("fmt", "e4m3");
    if (type != "e4m3") quantization.fail("fmt", "'" + type + "' is not read: e4m3 is");
    if (!quantization.has("weight_block_size")) return;
    const auto sizes = quantization.at("weight_block_size").integers<std::size_t>(1, 1 << 20);
    if (sizes.size() != 2) quantization.fail("weight_block_size", "must be a list of two sizes");
    block_ = ScaleBlock{.rows = sizes[0], .cols = sizes[1]};
  }

  bool has(const Checkpoint& checkpoint, const std::string& module) const override {
    const std::string weight = module + ".weight";
    if (!checkpoint.contains(weight)) return false;
    const ModuleTensors tensors(checkpoint, module);
    return checkpoint.tensor(weight).dtype == DType::kF8_E4M3 || tensors.contains(scale_part(tensors));
  }

  std::size_t stored_rows(const Checkpoint& checkpoint, const std::string& module) const override {
    return axis_size(checkpoint.tensor(module + ".weight"), 0);
  }

  std::vector<std::string> checked_tensors(const Checkpoint& checkpoint, const std::string& module, std::size_t rows,
                                           std::size_t cols) const override {
    const ModuleTensors tensors(checkpoint, module);
    return check_float8(tensors, scale_part(tensors), rows, cols, block());
  }

  StoredCodes codes(const Checkpoint& checkpoint, const std::string& module, std::size_t rows,
                    std::size_t cols) const override {
    const ModuleTensors tensors(checkpoint, module);
    return float8_codes("FP8", tensors, scale_part(tensors), rows, cols, block());
  }

 private:
  /// Returns the name of the tensor that weights are multiplied by, which has one of two names.
  static std::string_view scale_part(const ModuleTensors& tensors) {
    return tensors.contains("weight_scale") ? "weight_scale" : "weight_scale_inv";
  }

  const ScaleBlock* block() const { return block_ ? &*block_ : nullptr; }

  std::optional<ScaleBlock> block_;
};

}  // namespace

const Codec kFp8Codec = {
    .detect = [](const files::JsonReader& quantization) { return quantization.text("quant_method", "") == "fp8"; },
    .make_reader = [](const files::JsonReader& quantization) -> std::unique_ptr<const CodecReader> {
      return std::make_unique<const Fp8Reader>(quantization);
    }};

}  // namespace ballast::formats
