// A model's blocks after all passes except rounding, one after the other.
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

/// The input of preparing blocks; all of it must outlive its users.
struct PreparationInput {
  const model::ModelSource& source;
  const Recipe& recipe;
  const Statistics* statistics = nullptr;  ///< null: none were needed
  const Allocation* allocation = nullptr;  ///< null: formats are the recipe's
};

class PreparedBlocks {
 public:
  explicit PreparedBlocks(const PreparationInput& input);

  /// Returns the number of parts in the order of the model: before the blocks, the blocks, after them.
  std::size_t count() const { return loader_.count(); }

  /// The spec after the passes.
  const ModelSpec& spec() const { return spec_; }

  /// Block by block, from 0 on, each once. Without values, a block has shapes and formats only, and nothing of the
  /// checkpoint is read. Throws Error, with the last one also when the recipe asks for a format for a matrix that there
  /// is not.
  enum class Values { kNone, kAll };
  WorkingBlock load(std::size_t index, Values values);

  /// Returns a line about each pass for the blocks so far.
  std::vector<std::string> notes() const;

 private:
  PreparationInput input_;
  WorkingBlockLoader loader_;
  FormatChooser formats_;
  ModelSpec spec_;
  std::vector<std::unique_ptr<Pass>> passes_;
};

/// Plans all modules of the model that will be written, in the order of the model, from shapes alone. `input` may lack
/// the statistics that the passes need. Throws Error if the recipe names a format for a matrix that does not exist.
std::vector<ModulePlan> plan_model(const PreparationInput& input);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_PREPARED_BLOCKS_H_
