// The lattices of GGUF's IQ types: the combinations of 4 or 8 values that codes can have.
#ifndef BALLAST_FORMATS_BLOCKS_IQ_GRIDS_H_
#define BALLAST_FORMATS_BLOCKS_IQ_GRIDS_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace ballast::formats {

template <std::size_t kPoints, std::size_t kElements>
using Grid = std::array<std::array<std::int8_t, kElements>, kPoints>;

extern const Grid<2048, 8> kIq1Grid;  ///< for IQ1_S and IQ1_M
extern const Grid<256, 8> kIq2XxsGrid;
extern const Grid<512, 8> kIq2XsGrid;
extern const Grid<1024, 8> kIq2SGrid;
extern const Grid<256, 4> kIq3XxsGrid;
extern const Grid<512, 4> kIq3SGrid;

}  // namespace ballast::formats

#endif  // BALLAST_FORMATS_BLOCKS_IQ_GRIDS_H_
