// Conversion to any kind of files.
#ifndef BALLAST_QUANT_CONVERSION_CONVERSION_H_
#define BALLAST_QUANT_CONVERSION_CONVERSION_H_

#include <filesystem>

#include "ballast/convert.h"
#include "quant/write/model_format.h"

namespace ballast::quant {

/// ballast::convert, but into files of `format`.
ConvertReport convert_to(const ModelFormat& format, const std::filesystem::path& model,
                         const std::filesystem::path& output, const ConvertOptions& options, const Progress& progress);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_CONVERSION_CONVERSION_H_
