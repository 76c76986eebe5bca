// ballast's own files: a directory with safetensors, as docs/format.md specifies them.
#ifndef BALLAST_QUANT_WRITE_BALLAST_FORMAT_H_
#define BALLAST_QUANT_WRITE_BALLAST_FORMAT_H_

#include "formats/codecs/ballast.h"
#include "quant/write/model_format.h"

namespace ballast::quant {

class BallastFormat : public ModelFormat {
 public:
  /// Norms, biases and vectors are few and sensitive: they keep F32 unless `recipe` makes linears of 16-bit floats.
  explicit BallastFormat(const Recipe& recipe);

  Recipe fitting(const Recipe& recipe) const override { return recipe; }
  std::vector<WeightFormat> candidates() const override { return formats::ballast_candidates(); }
  bool holds_draft_head() const override { return true; }
  bool splits_vocabulary() const override { return true; }
  bool holds(const ModulePlan& module) const override;
  std::string describe(const ModulePlan& module) const override;
  std::uint64_t bytes(const ModulePlan& module) const override;
  std::uint64_t file_bytes(std::span<const ModulePlan> model) const override;
  std::unique_ptr<ModelWriter> open(const std::filesystem::path& directory,
                                    std::span<const ModulePlan> model) const override;

 private:
  DType vector_type_;  ///< of norms, biases and vectors
};

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_WRITE_BALLAST_FORMAT_H_
