// Finds the statistics of a model's inputs by role.
#ifndef BALLAST_CALIB_INPUT_STATISTICS_H_
#define BALLAST_CALIB_INPUT_STATISTICS_H_

#include <cstddef>
#include <map>
#include <tuple>

#include "ballast/statistics.h"
#include "model/source/model_source.h"

namespace ballast::calib {

/// An index of Statistics::inputs. A statistics file has the names of linears; this is the only place that translates
/// them.
class InputStatistics {
 public:
  /// Both arguments must outlive this object.
  InputStatistics(const Statistics& statistics, const model::ModelSource& source);

  /// Returns the statistics of a linear's input; null if there are none. The head of a model with tied embeddings is
  /// found under the embedding.
  const LinearInputStatistics* find(model::Role role, std::size_t layer, std::size_t expert) const;

 private:
  using Key = std::tuple<model::Role, std::size_t, std::size_t>;  ///< role, layer (0 outside of blocks), expert

  bool tied_embeddings_;
  std::map<Key, const LinearInputStatistics*> inputs_;
};

}  // namespace ballast::calib

#endif  // BALLAST_CALIB_INPUT_STATISTICS_H_
