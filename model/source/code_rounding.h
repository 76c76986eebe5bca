// What rounding to codes has cost a model that others rounded, and what it costs where ballast rounds them again.
#ifndef BALLAST_MODEL_SOURCE_CODE_ROUNDING_H_
#define BALLAST_MODEL_SOURCE_CODE_ROUNDING_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "model/source/model_source.h"

namespace ballast::model {

/// How far rounded values are from what they were.
struct RelativeError {
  double error = 0;   ///< sum of squares
  double energy = 0;  ///< the same of the values

  RelativeError& operator+=(const RelativeError& other);
  double ratio() const;  ///< of root mean squares; 0 without values
};

/// "4.3 %"
std::string percent_text(double ratio);

/// Of `rows` rows, an even sample: enough to estimate errors.
std::vector<std::size_t> sampled_rows(std::size_t rows);

/// What a matrix's codes have likely cost: what it was made of is not known, but lay, about evenly, between the values
/// that codes have. By an even sample of its rows. Precondition: the codes are exact.
RelativeError estimated_rounding(const StoredCodes& codes);

/// Matrices of blocks that no form holds exactly: as integers they are rounded a second time.
struct RoundedBlocks {
  std::size_t matrices = 0;
  std::string type;  ///< of the first
  std::uint64_t file_bytes = 0;
  std::uint64_t bytes = 0;  ///< in memory
  RelativeError error;      ///< by an even sample of rows

  /// One line.
  std::string text() const;
};

/// A model's. Throws Error.
RoundedBlocks rounded_blocks(const ModelSource& source);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_SOURCE_CODE_ROUNDING_H_
