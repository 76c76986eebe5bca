// Conversion to files of any format.
#ifndef BALLAST_QUANT_CONVERSION_CONVERSION_H_
#define BALLAST_QUANT_CONVERSION_CONVERSION_H_

#include <filesystem>
#include <memory>

#include "ballast/convert.h"
#include "model/source/model_source.h"
#include "quant/write/model_format.h"

namespace ballast::quant {

/// Converts an open model as ballast::convert does, into files of `format`.
ConvertReport convert_to(const ModelFormat& format, std::shared_ptr<const model::ModelSource> source,
                         const std::filesystem::path& output, const ConvertOptions& options, const Progress& progress);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_CONVERSION_CONVERSION_H_
