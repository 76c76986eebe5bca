// The kinds of files that a conversion can write, by name.
#ifndef BALLAST_QUANT_WRITE_MODEL_FORMATS_H_
#define BALLAST_QUANT_WRITE_MODEL_FORMATS_H_

#include <filesystem>
#include <memory>

#include "ballast/convert.h"
#include "quant/write/model_format.h"

namespace ballast::quant {

/// Returns the format for `output_format` and the model at `model`. Throws Error if it cannot hold the model.
std::unique_ptr<ModelFormat> make_model_format(const std::filesystem::path& model, OutputFormat output_format,
                                               const Recipe& recipe);

/// Returns the format that `options` request for the model at `model`, and changes the recipe to one that it can hold.
/// Throws Error if it cannot hold the model.
std::unique_ptr<ModelFormat> fit_model_format(const std::filesystem::path& model, ConvertOptions& options);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_WRITE_MODEL_FORMATS_H_
