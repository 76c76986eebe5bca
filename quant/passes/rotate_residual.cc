#include <optional>
#include <string>

#include "model/source/hadamard.h"
#include "quant/passes/fold_rules.h"
#include "quant/passes/passes.h"
#include "quant/passes/rotation.h"

namespace ballast::quant {

namespace {

using model::Role;

bool norm_reads_stream(Role norm) {
  return norm == Role::kAttentionNorm || norm == Role::kMlpNorm || norm == Role::kFinalNorm;
}

class RotateResidual : public Pass {
 public:
  RotateResidual(const ModelSpec& spec, bool norms_are_folded) : ruling_(residual_rotation(spec, norms_are_folded)) {
    if (ruling_.legal) rotation_ = Hadamard::with_random_signs(spec.hidden_size, Hadamard::kModelSeed);
  }

  void run(WorkingBlock& block) override {
    if (!ruling_.legal) return;
    for (WorkingLinear& linear : block.linears) {
      if (is_embedding(linear.part.role)) {
        rotate_rows(linear, *rotation_);
      } else if (writes_stream(linear.part.role)) {
        rotate_columns(linear, *rotation_);
      } else {
        continue;
      }
      ++writers_;
    }
    for (WorkingInput& input : block.inputs) {
      if (!input.norm || !norm_reads_stream(block.norms[*input.norm].role)) continue;
      for (const std::size_t reader : input.readers) rotate_rows(block.linears[reader], *rotation_);
      if (input.statistics) rotate_channels(input.statistics->channels, *rotation_);
      readers_ += input.readers.size();
    }
  }

  std::string note() const override {
    if (!ruling_.legal) return "rotate: the residual stream is not rotated, because " + ruling_.reason;
    return "rotate: the residual stream is rotated, " + std::to_string(writers_) + " matrices write and " +
           std::to_string(readers_) + " read it";
  }

 private:
  FoldLegality ruling_;
  std::optional<Hadamard> rotation_;
  std::size_t writers_ = 0;
  std::size_t readers_ = 0;
};

}  // namespace

std::unique_ptr<Pass> make_rotate_residual(const ModelSpec& spec, bool norms_are_folded) {
  return std::make_unique<RotateResidual>(spec, norms_are_folded);
}

}  // namespace ballast::quant
