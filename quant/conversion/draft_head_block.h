// The head for multi-token prediction that a checkpoint brings, in a conversion.
#ifndef BALLAST_QUANT_CONVERSION_DRAFT_HEAD_BLOCK_H_
#define BALLAST_QUANT_CONVERSION_DRAFT_HEAD_BLOCK_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/recipe.h"
#include "model/source/model_source.h"
#include "quant/block/working_block.h"
#include "quant/write/converted_module.h"
#include "quant/write/model_format.h"

namespace ballast::quant {

/// The line about a head that the files of a format cannot hold.
inline constexpr std::string_view kDraftHeadLeftOut =
    "draft head (multi-token prediction): left out, as files of this format have none";

/// A model's draft head. Its matrices get at least 8 bits and are rounded without samples: their rounding changes no
/// text, only how often a draft is right, and the head is one block of many.
class DraftHeadBlock {
 public:
  /// Both must outlive this. Throws Error if the output keeps the head, and a tensor of it is missing or has another
  /// shape.
  DraftHeadBlock(const model::ModelSource& source, const Recipe& recipe, const ModelFormat& format);

  /// Returns whether the output keeps the head: not where there is none, where the format has no place for it, or where
  /// the passes change the residual stream, which the head reads.
  bool kept() const { return source_ != nullptr; }

  /// Returns the head's modules; empty if it is not kept.
  std::vector<ModulePlan> plan() const;

  /// Returns the rounded modules. `final_gain`: of the model's last norm after the passes, which have moved the rest of
  /// the original gain into the model's head. Precondition: kept().
  std::vector<ConvertedModule> convert(const std::vector<float>& final_gain) const;

  /// Returns a line about a head that is not kept, or how it is rounded; empty if there is none.
  const std::string& note() const { return note_; }

 private:
  WorkingBlock load(bool values) const;

  std::unique_ptr<const model::ModelSource> source_;  ///< null: the head is not kept
  const Recipe& recipe_;
  std::string note_;
};

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_CONVERSION_DRAFT_HEAD_BLOCK_H_
