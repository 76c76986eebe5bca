// The kinds of files that a conversion can write, by name.
#ifndef BALLAST_QUANT_WRITE_MODEL_FORMATS_H_
#define BALLAST_QUANT_WRITE_MODEL_FORMATS_H_

#include <filesystem>
#include <memory>

#include "ballast/convert.h"
#include "quant/write/model_format.h"

namespace ballast::quant {

/// The files of `output_format`, of a model that lies at `model`. Throws Error where they cannot hold it.
std::unique_ptr<ModelFormat> make_model_format(const std::filesystem::path& model, OutputFormat output_format,
                                               const Recipe& recipe);

/// The files that `options` ask for, of a model that lies at `model`; its recipe becomes one that they hold. Throws
/// Error where they cannot hold the model.
std::unique_ptr<ModelFormat> fit_model_format(const std::filesystem::path& model, ConvertOptions& options);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_WRITE_MODEL_FORMATS_H_
