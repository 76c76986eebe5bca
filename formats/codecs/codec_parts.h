// Functions that several codecs share.
#ifndef BALLAST_FORMATS_CODECS_CODEC_PARTS_H_
#define BALLAST_FORMATS_CODECS_CODEC_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ballast/activation_type.h"
#include "formats/codecs/codec.h"

namespace ballast::formats {

/// Converts a size to the type of shapes.
inline std::int64_t axis(std::size_t size) {
  return static_cast<std::int64_t>(size);
}

/// Returns how many groups a row has.
std::size_t groups_of(const PlannedMatrix& matrix);

/// Returns the format that most weights have; nullopt if no matrix is quantized.
std::optional<WeightFormat> most_common_format(const PlannedModel& model);

/// Returns the symmetric formats of 4 and 8 bits, which servers multiply fast.
std::vector<WeightFormat> symmetric_formats();

/// Throws Error if activations are INT8, because `program` keeps them in 16 bits.
void refuse_int8_activations(ActivationType activations, const std::string& program);

template <typename T>
std::vector<std::byte> raw_bytes(const std::vector<T>& values) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

}  // namespace ballast::formats

#endif  // BALLAST_FORMATS_CODECS_CODEC_PARTS_H_
