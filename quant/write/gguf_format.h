// GGUF files for llama.cpp.
#ifndef BALLAST_QUANT_WRITE_GGUF_FORMAT_H_
#define BALLAST_QUANT_WRITE_GGUF_FORMAT_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "files/gguf/gguf_writer.h"
#include "formats/codecs/gguf_blocks.h"
#include "model/arch/gguf_fields.h"
#include "model/source/model_source.h"
#include "quant/write/model_format.h"

namespace ballast::quant {

class GgufFormat : public ModelFormat {
 public:
  /// Throws Error if the model's family or its tokenizer cannot be written.
  explicit GgufFormat(std::shared_ptr<const model::ModelSource> source);

  /// Keeps biases if llama.cpp has tensors for them, and LayerNorms. No columns are kept in 16 bits, and activations
  /// are llama.cpp's: INT8 in groups as large as a block.
  Recipe fitting(const Recipe& recipe) const override;
  std::vector<WeightFormat> candidates() const override { return formats::block_formats(); }
  bool ties_formats() const override;
  bool stacks_experts() const override { return true; }
  std::string file_name() const override { return "model.gguf"; }
  bool holds(const ModulePlan& module) const override;
  void check_together(std::span<const ModulePlan> model) const override;
  std::optional<WeightFormat> exact_format(const ModulePlan& module, ActivationType activations) const override;
  std::string describe(const ModulePlan& module) const override;
  std::uint64_t bytes(const ModulePlan& module) const override;
  std::uint64_t file_bytes(std::span<const ModulePlan> model) const override;
  std::unique_ptr<ModelWriter> open(const std::filesystem::path& directory,
                                    std::span<const ModulePlan> model) const override;

 private:
  WeightFormat fitting(const WeightFormat& format) const;
  std::vector<files::TensorPlan> tensors_of(const ModulePlan& module) const;
  std::vector<files::TensorPlan> tensors_of(std::span<const ModulePlan> model) const;

  std::shared_ptr<const model::ModelSource> source_;
  std::vector<files::GgufField> fields_;  ///< the last one has the type of most modules, set by open()
  std::vector<model::GgufVector> rope_tensors_;
  bool whole_blocks_;  ///< all matrices have rows of whole blocks of 256
};

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_WRITE_GGUF_FORMAT_H_
