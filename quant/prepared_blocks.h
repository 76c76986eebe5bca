// A model's blocks as they are when every pass but rounding has seen them, one after the other.
#ifndef BALLAST_QUANT_PREPARED_BLOCKS_H_
#define BALLAST_QUANT_PREPARED_BLOCKS_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "ballast/recipe.h"
#include "ballast/statistics.h"
#include "model/source/model_source.h"
#include "quant/passes/passes.h"
#include "quant/search/allocation.h"
#include "quant/search/format_chooser.h"
#include "quant/working_block.h"
#include "quant/write/converted_module.h"

namespace ballast::quant {

/// What blocks are prepared from; all of it must outlive who reads it.
struct PreparationInput {
  const model::ModelSource& source;
  const Recipe& recipe;
  const Statistics* statistics = nullptr;  ///< null: none were needed
  const Allocation* allocation = nullptr;  ///< null: formats are the recipe's
};

class PreparedBlocks {
 public:
  explicit PreparedBlocks(const PreparationInput& input);

  /// In the order of the model: what comes before the blocks, the blocks, what comes after them.
  std::size_t count() const { return loader_.count(); }

  /// The spec after the passes.
  const ModelSpec& spec() const { return spec_; }

  /// Block by block, from 0 on, each once. Without values, a block has shapes and formats only, and nothing of the
  /// checkpoint is read. Throws Error, with the last one also when the recipe asks for a format for a matrix that there
  /// is not.
  enum class Values { kNone, kAll };
  WorkingBlock load(std::size_t index, Values values);

  /// What each pass did to the blocks so far.
  std::vector<std::string> notes() const;

 private:
  PreparationInput input_;
  WorkingBlockLoader loader_;
  FormatChooser formats_;
  ModelSpec spec_;
  std::vector<std::unique_ptr<Pass>> passes_;
};

/// All modules of the model that will be written, in the order of the model, from shapes alone. `input` may lack the
/// statistics that the passes need. Throws Error when the recipe asks for a format for a matrix that there is not.
std::vector<ModulePlan> plan_model(const PreparationInput& input);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_PREPARED_BLOCKS_H_
