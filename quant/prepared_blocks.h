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
#include "quant/working_block.h"

namespace ballast::quant {

/// What goes into a conversion; all of it must outlive who reads it.
struct ConversionInput {
  const model::ModelSource& source;
  const Recipe& recipe;
  const Statistics* statistics = nullptr;  ///< null: none were needed
  const Allocation* allocation = nullptr;  ///< null: formats are the recipe's
};

class PreparedBlocks {
 public:
  explicit PreparedBlocks(const ConversionInput& input);

  /// In the order of the model: what stands before the blocks, the blocks, what stands behind them.
  std::size_t count() const { return loader_.count(); }

  /// The spec behind the passes.
  const ModelSpec& spec() const { return spec_; }

  /// Block by block, from 0 on, each once. Without values, a block has shapes, formats and bounds only. Throws Error,
  /// with the last one also when the recipe asks for a format for a matrix that there is not.
  enum class Values { kNone, kAll };
  WorkingBlock load(std::size_t index, Values values);

  /// What each pass did to the blocks so far.
  std::vector<std::string> notes() const;

 private:
  ConversionInput input_;
  WorkingBlockLoader loader_;
  FormatChooser formats_;
  ModelSpec spec_;
  std::vector<std::unique_ptr<Pass>> passes_;
};

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_PREPARED_BLOCKS_H_
