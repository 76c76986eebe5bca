// Conversion of stored tensors to floats.
#ifndef BALLAST_FORMATS_DECODE_FLOATS_H_
#define BALLAST_FORMATS_DECODE_FLOATS_H_

#include <functional>
#include <string_view>

#include "ballast/tensor.h"

namespace ballast::formats {

/// Decodes a floating or GGUF-quantized tensor to F32 exactly (F64 is rounded). `dst` holds element_count(view.shape)
/// floats. Runs on all OpenMP threads. Throws Error(context, ...) for other types and for values that are not finite.
/// For a tensor of many millions, `after_part` is called after each part but the last.
void decode_floats(const TensorView& view, std::string_view context, float* dst,
                   const std::function<void()>& after_part = {});

}  // namespace ballast::formats

#endif  // BALLAST_FORMATS_DECODE_FLOATS_H_
