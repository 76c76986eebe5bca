// The size of models whose recipe leaves it open.
#ifndef BALLAST_QUANT_CONVERSION_NATURAL_SIZE_H_
#define BALLAST_QUANT_CONVERSION_NATURAL_SIZE_H_

#include <filesystem>

#include "ballast/convert.h"
#include "quant/write/model_format.h"

namespace ballast::quant {

/// The options, with the bytes that the recipe's own formats would take where it asks for the natural size; a model
/// without a head gets these formats, and so does one whose formats are all asked for by name. Throws Error where they
/// cannot be planned.
ConvertOptions resolve_target_bytes(const std::filesystem::path& model, const ConvertOptions& options,
                                    const ModelFormat& format);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_CONVERSION_NATURAL_SIZE_H_
