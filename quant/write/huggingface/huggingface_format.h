// Checkpoints in other programs' quantized formats: with Hugging Face's names, a `quantization_config`, and everything
// that is not quantized in the original's type.
#ifndef BALLAST_QUANT_WRITE_HUGGINGFACE_HUGGINGFACE_FORMAT_H_
#define BALLAST_QUANT_WRITE_HUGGINGFACE_HUGGINGFACE_FORMAT_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "formats/codecs/codec.h"
#include "quant/write/model_format.h"

namespace ballast::quant {

class HuggingfaceFormat : public ModelFormat {
 public:
  /// `codec` must outlive this. Throws Error if the model's files have names, shapes or meanings that programs for such
  /// checkpoints do not support.
  HuggingfaceFormat(const model::ModelSource& source, const formats::CodecWriter& codec);

  /// Keeps biases and LayerNorms. The embedding keeps the original's type if the codec has no other, no columns are
  /// kept in 16 bits, and norms have that type's precision.
  Recipe fitting(const Recipe& recipe) const override;
  std::vector<WeightFormat> candidates() const override { return codec_.candidates(); }
  bool ties_formats() const override { return codec_.ties_formats(); }
  bool holds(const ModulePlan& module) const override;
  void check_together(std::span<const ModulePlan> model) const override;
  std::optional<WeightFormat> exact_format(const ModulePlan& module, ActivationType activations) const override;
  std::string describe(const ModulePlan& module) const override;
  std::uint64_t bytes(const ModulePlan& module) const override;
  std::uint64_t file_bytes(std::span<const ModulePlan> model) const override;
  std::unique_ptr<ModelWriter> open(const std::filesystem::path& directory,
                                    std::span<const ModulePlan> model) const override;

 private:
  WeightFormat fitting(const WeightFormat& format, ActivationType activations) const;
  std::vector<files::TensorPlan> tensors_of(const ModulePlan& module) const;
  std::vector<files::TensorPlan> tensors_of(std::span<const ModulePlan> model) const;

  const formats::CodecWriter& codec_;
  DType float_type_;
};

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_WRITE_HUGGINGFACE_HUGGINGFACE_FORMAT_H_
