// Makes an adapter's files an adapter of a loaded model.
#ifndef BALLAST_MODEL_SOURCE_ADAPTER_LOADER_H_
#define BALLAST_MODEL_SOURCE_ADAPTER_LOADER_H_

#include <cstddef>
#include <functional>
#include <memory>

#include "ballast/adapter.h"
#include "kernels/matrix/float_matrix.h"
#include "model/block/adapter.h"
#include "model/source/model_source.h"

namespace ballast::model {

/// Returns the type in which an adapter's matrices for a linear are kept: kF32 or kBF16.
using AdapterType = std::function<kernels::FloatType(std::size_t layer, Part part)>;

/// Reads an adapter, and changes its matrices as a conversion changed the model's. Throws Error if the files are wrong,
/// do not fit the model, or belong to a model that cannot run with adapters.
std::shared_ptr<const Adapter> load_adapter(const ModelSource& source, const AdapterFiles& files,
                                            const AdapterType& type);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_SOURCE_ADAPTER_LOADER_H_
