// The target size of recipes that leave it open.
#ifndef BALLAST_QUANT_CONVERSION_NATURAL_SIZE_H_
#define BALLAST_QUANT_CONVERSION_NATURAL_SIZE_H_

#include <filesystem>

#include "ballast/convert.h"
#include "quant/write/model_format.h"

namespace ballast::quant {

/// Replaces a natural target size in the options by the bytes of the recipe's own formats. A model without a head gets
/// these formats, and so does one whose formats are all named. Throws Error if they cannot be planned.
ConvertOptions resolve_target_bytes(const std::filesystem::path& model, const ConvertOptions& options,
                                    const ModelFormat& format);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_CONVERSION_NATURAL_SIZE_H_
