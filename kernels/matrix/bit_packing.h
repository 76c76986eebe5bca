// Rows of codes of 2 to 8 bits as stored on disk: one bit string, the first code lowest.
#ifndef BALLAST_KERNELS_MATRIX_BIT_PACKING_H_
#define BALLAST_KERNELS_MATRIX_BIT_PACKING_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::kernels {

/// `bits`: 2 to 8. Writes codes, each below 2^bits, to the packed_row_bytes(codes.size(), bits) bytes at
/// `packed`; bits after the last one are 0.
void pack_codes(std::span<const std::uint8_t> codes, int bits, std::uint8_t* packed);

/// Fills `codes` from `packed`; the inverse of pack_codes. Reads no byte beyond the packed codes.
void unpack_codes(const std::uint8_t* packed, int bits, std::span<std::uint8_t> codes);

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_MATRIX_BIT_PACKING_H_
