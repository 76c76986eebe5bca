// The kinds of files that a conversion can write, by name.
#ifndef BALLAST_QUANT_WRITE_MODEL_FORMATS_H_
#define BALLAST_QUANT_WRITE_MODEL_FORMATS_H_

#include <memory>

#include "ballast/convert.h"
#include "model/source/model_source.h"
#include "quant/write/model_format.h"

namespace ballast::quant {

/// Returns the files of `output_format` for a model. Throws Error if they cannot hold it.
std::unique_ptr<ModelFormat> make_model_format(const std::shared_ptr<const model::ModelSource>& source,
                                               OutputFormat output_format, const Recipe& recipe);

/// Returns the files that `options` request, and changes the recipe of `options` to one that they can hold. Throws
/// Error if they cannot hold the model.
std::unique_ptr<ModelFormat> fit_model_format(const std::shared_ptr<const model::ModelSource>& source,
                                              ConvertOptions& options);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_WRITE_MODEL_FORMATS_H_
