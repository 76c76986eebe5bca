// Estimates the errors of matrices that are already rounded, and those of rounding them to INT8 when they are loaded.
#ifndef BALLAST_MODEL_SOURCE_CODE_ROUNDING_H_
#define BALLAST_MODEL_SOURCE_CODE_ROUNDING_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "model/source/model_source.h"

namespace ballast::model {

/// Errors of rounded values relative to the values before rounding.
struct RelativeError {
  double error = 0;   ///< sum of squared errors
  double energy = 0;  ///< sum of squared values

  RelativeError& operator+=(const RelativeError& other);
  double ratio() const;  ///< ratio of the root mean squares; 0 without values
};

/// Formats a ratio: "4.3 %".
std::string percent_text(double ratio);

/// Returns the indices of an even sample of `rows` rows, at most 32: enough to estimate errors.
std::vector<std::size_t> sampled_rows(std::size_t rows);

/// Estimates the error of the codes of a matrix against the unknown values that were rounded to them, which are assumed
/// to be spread evenly between the values of neighbouring codes. Looks at an even sample of rows. Precondition: the
/// codes have a layout and are exact.
RelativeError estimated_rounding(const formats::StoredCodes& codes);

/// Matrices in GGUF blocks whose values no layout of the kernels holds exactly: they are rounded a second time, to
/// INT8.
struct RoundedBlocks {
  std::size_t matrices = 0;
  std::string type;  ///< of the first matrix
  std::uint64_t file_bytes = 0;
  std::uint64_t bytes = 0;  ///< in memory
  RelativeError error;      ///< estimated from an even sample of rows

  /// Returns a summary in one line.
  std::string text() const;
};

/// Finds these matrices in a model; there are none in files other than GGUFs. Throws Error.
RoundedBlocks rounded_blocks(const ModelSource& source);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_SOURCE_CODE_ROUNDING_H_
