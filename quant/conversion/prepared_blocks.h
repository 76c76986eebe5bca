// A model's blocks after all passes except rounding, one after the other.
#ifndef BALLAST_QUANT_CONVERSION_PREPARED_BLOCKS_H_
#define BALLAST_QUANT_CONVERSION_PREPARED_BLOCKS_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "ballast/recipe.h"
#include "ballast/statistics.h"
#include "model/source/model_source.h"
#include "quant/block/working_block.h"
#include "quant/passes/passes.h"
#include "quant/passes/smoothing_factors.h"
#include "quant/search/allocation.h"
#include "quant/search/format_chooser.h"
#include "quant/write/converted_module.h"
#include "quant/write/model_format.h"

namespace ballast::quant {

/// The state for preparing a model's blocks by a recipe: facts about all blocks that are known before the first is
/// loaded, and the results of the passes' searches. There is one per conversion. A conversion has one block in memory,
/// so a block whose values are needed twice (formats are weighed, then it is rounded) is loaded twice; the searches of
/// its passes run once.
class Preparation {
 public:
  /// All arguments must outlive this; `format` is that of the output.
  Preparation(const model::ModelSource& source, const Recipe& recipe, const ModelFormat& format);

  const model::ModelSource& source() const { return source_; }
  const Recipe& recipe() const { return recipe_; }
  const ModelFormat& format() const { return format_; }

  /// Returns statistics of what linears read; null before set_statistics(). They must outlive this.
  const Statistics* statistics() const { return statistics_; }
  void set_statistics(const Statistics* statistics) { statistics_ = statistics; }

  /// Returns amplified_layers().
  const std::vector<bool>& amplified() const { return amplified_; }

  /// Returns the store that smoothing shares between the times that a block is prepared.
  const std::shared_ptr<SmoothingFactors>& smoothing() const { return smoothing_; }

 private:
  const model::ModelSource& source_;
  const Recipe& recipe_;
  const ModelFormat& format_;
  const Statistics* statistics_ = nullptr;
  std::vector<bool> amplified_;
  std::shared_ptr<SmoothingFactors> smoothing_ = std::make_shared<SmoothingFactors>();
};

class PreparedBlocks {
 public:
  /// `allocation` may be null: then formats are the recipe's. Both must outlive this.
  explicit PreparedBlocks(const Preparation& preparation, const Allocation* allocation = nullptr);

  /// Returns the number of parts in the order of the model: before the blocks, the blocks, after them.
  std::size_t count() const { return loader_.count(); }

  /// Returns the spec after the passes.
  const ModelSpec& spec() const { return spec_; }

  /// Loads and prepares a block; must be called once for each index in ascending order from 0. Without values, a block
  /// has only shapes and formats, and nothing of the checkpoint is read. Throws Error, at the last block also if the
  /// recipe names a format for a matrix that the model does not have.
  enum class Values { kNone, kAll };
  WorkingBlock load(std::size_t index, Values values);

  /// Returns a line about each pass for the blocks so far.
  std::vector<std::string> notes() const;

 private:
  const Preparation& preparation_;
  const Allocation* allocation_;
  FormatChooser formats_;
  WorkingBlockLoader loader_;
  ModelSpec spec_;
  std::vector<std::unique_ptr<Pass>> passes_;
};

/// Returns all modules of the model that will be written, in the order of the model, planned only from shapes:
/// statistics are not needed. Throws Error if the recipe names a format for a matrix that the model does not have.
std::vector<ModulePlan> plan_model(const Preparation& preparation);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_CONVERSION_PREPARED_BLOCKS_H_
