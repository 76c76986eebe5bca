// The cost of rounding weights that another program has rounded before.
#ifndef BALLAST_QUANT_CONVERSION_SECOND_ROUNDING_H_
#define BALLAST_QUANT_CONVERSION_SECOND_ROUNDING_H_

#include <cstddef>
#include <optional>
#include <string>

#include "model/source/code_rounding.h"
#include "model/source/model_source.h"
#include "quant/block/working_block.h"

namespace ballast::quant {

/// Compares the errors of both roundings, block by block.
class SecondRounding {
 public:
  explicit SecondRounding(const model::ModelSource& source) : source_(source) {}

  /// Adds a block with rounded matrices. Changes by drift correction count as error, too.
  void add(const WorkingBlock& block);

  /// Returns one line; nullopt if no matrix was rounded twice.
  std::optional<std::string> note() const;

 private:
  void add(const WorkingLinear& linear, const ModuleId& id);

  const model::ModelSource& source_;
  std::string first_type_;
  std::size_t matrices_ = 0;
  std::size_t unknown_ = 0;     ///< of these, matrices whose first error is unknown
  model::RelativeError first_;  ///< estimated
  model::RelativeError second_;
};

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_CONVERSION_SECOND_ROUNDING_H_
