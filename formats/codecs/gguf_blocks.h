// The codec of a GGUF's blocks: which formats its tensors have. `formats/blocks/` has the bytes of a block.
#ifndef BALLAST_FORMATS_CODECS_GGUF_BLOCKS_H_
#define BALLAST_FORMATS_CODECS_GGUF_BLOCKS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ballast/recipe.h"
#include "ballast/tensor.h"
#include "formats/stored_codes.h"

namespace ballast::formats {

/// Columns of the largest blocks, the K types'.
inline constexpr std::size_t kLargestBlock = 256;

/// Returns the types of blocks that a search may give to a matrix.
std::vector<WeightFormat> block_formats();

/// Returns the blocks that take the place of a recipe's format of integers, others as they are. `whole_blocks`: all
/// matrices have rows of whole blocks of kLargestBlock columns, so that K types fit.
WeightFormat fitting_blocks(const WeightFormat& format, bool whole_blocks);

/// Returns whether rows of `cols` columns are whole blocks of a format. Nothing but blocks is held.
bool holds_blocks(const WeightFormat& format, std::size_t cols);

/// Returns the blocks whose codes and scales hold a matrix of ballast's format exactly; nullopt where there is none:
/// only symmetric codes of 4, 5 and 8 bits in groups of 32, 64 or 128 have such blocks.
std::optional<WeightFormat> exact_blocks(const WeightFormat& format);

/// Returns the codes of a matrix [rows, cols] in blocks, which are read from `bytes`. If kernels have no layout for the
/// type, read_row rounds to INT8. Precondition: rows are whole blocks, and `bytes` holds all of them.
StoredCodes block_codes(DType dtype, std::span<const std::byte> bytes, std::size_t rows, std::size_t cols);

/// Returns the type of a GGUF's tensor that holds a matrix of this format.
DType gguf_dtype(const WeightFormat& format);

/// Returns the number `general.file_type` for files whose weights mostly have this type, in llama.cpp's numbering.
std::uint32_t gguf_file_type(DType dtype);

}  // namespace ballast::formats

#endif  // BALLAST_FORMATS_CODECS_GGUF_BLOCKS_H_
