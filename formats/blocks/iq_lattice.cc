// iq_blocks.cc documents the bytes of a block.
#include "formats/blocks/iq_lattice.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <vector>

#include "formats/blocks/iq_grids.h"

namespace ballast::formats {
namespace {

using kernels::QuantizedRow;
using BlockBytes = std::span<std::uint8_t>;

constexpr std::size_t kBlockElements = 256;
constexpr std::size_t kCells = kBlockElements / kCellElements;

template <std::size_t kPoints, std::size_t kElements>
std::span<const std::int8_t> elements_of(const Grid<kPoints, kElements>& grid) {
  return {grid.front().data(), kPoints * kElements};
}

const std::array<IqLattice, 5>& lattices() {
  static const std::array<IqLattice, 5> all{{
      {DType::kIQ2_XXS, 8, elements_of(kIq2XxsGrid), true, 32, 0.125F, 8},
      {DType::kIQ2_XS, 8, elements_of(kIq2XsGrid), true, 16, 0.125F, 8},
      {DType::kIQ2_S, 8, elements_of(kIq2SGrid), false, 16, 0.125F, 8},
      {DType::kIQ3_XXS, 4, elements_of(kIq3XxsGrid), true, 32, 0.25F, 8},
      {DType::kIQ3_S, 4, elements_of(kIq3SGrid), false, 32, 1.0F, 5},
  }};
  return all;
}

std::uint64_t key_of(const std::uint8_t* steps, std::size_t count) {
  std::uint64_t key = 0;
  std::memcpy(&key, steps, count);
  return key;
}

/// The indices of points by their steps.
class PointIndices {
 public:
  explicit PointIndices(const IqLattice& lattice) : elements_(lattice.point_elements) {
    for (std::size_t point = 0; point < lattice.point_count(); ++point) {
      std::array<std::uint8_t, kCellElements> steps{};
      std::copy_n(lattice.points.begin() + static_cast<std::ptrdiff_t>(point * elements_), elements_, steps.begin());
      points_.push_back({key_of(steps.data(), elements_), static_cast<unsigned>(point)});
    }
    std::ranges::sort(points_, {}, &Point::key);
  }

  unsigned index_of(const std::uint8_t* steps) const {
    const std::uint64_t key = key_of(steps, elements_);
    const auto found = std::ranges::lower_bound(points_, key, {}, &Point::key);
    assert(found != points_.end() && found->key == key);
    return found->index;
  }

 private:
  struct Point {
    std::uint64_t key;
    unsigned index;
  };

  std::size_t elements_;
  std::vector<Point> points_;
};

const PointIndices& indices_of(const IqLattice& lattice) {
  static const std::array<PointIndices, 5> all{PointIndices(lattices()[0]), PointIndices(lattices()[1]),
                                               PointIndices(lattices()[2]), PointIndices(lattices()[3]),
                                               PointIndices(lattices()[4])};
  return all[static_cast<std::size_t>(&lattice - lattices().data())];
}

/// A cell's numbers as they are stored.
struct Cell {
  std::array<unsigned, 2> points{};  ///< one of 8 elements or two of 4
  unsigned signs = 0;                ///< bit i: element i is negative
};

Cell cell_of(const IqLattice& lattice, const std::uint8_t* codes) {
  Cell cell;
  std::array<std::uint8_t, kCellElements> steps{};
  for (std::size_t i = 0; i < kCellElements; ++i) {
    const int step = codes[i] - lattice.middle();
    if (step < 0) cell.signs |= 1U << i;
    steps[i] = static_cast<std::uint8_t>(step < 0 ? -step : step);
  }
  const PointIndices& indices = indices_of(lattice);
  for (std::size_t part = 0; part < kCellElements / lattice.point_elements; ++part) {
    cell.points[part] = indices.index_of(steps.data() + part * lattice.point_elements);
  }
  return cell;
}

void put_word(std::uint32_t word, std::size_t bytes, BlockBytes block, std::size_t at) {
  std::memcpy(block.data() + at, &word, bytes);
}

void add_bits(unsigned bits, BlockBytes block, std::size_t at) {
  block[at] = static_cast<std::uint8_t>(block[at] | bits);
}

}  // namespace

const IqLattice* find_iq_lattice(DType dtype) {
  const auto* found = std::ranges::find(lattices(), dtype, &IqLattice::dtype);
  return found == lattices().end() ? nullptr : found;
}

kernels::CodeLayout iq_row_layout(const IqLattice& lattice, std::size_t cols) {
  return {.rows = 1,
          .cols = cols,
          .bits = lattice.bits,
          .group_size = lattice.group_size,
          .groups_of_scale = kBlockElements / lattice.group_size,
          .outlier_columns = {}};
}

void write_iq_block(const IqLattice& lattice, const QuantizedRow& row, std::size_t index, BlockBytes block) {
  const std::uint8_t* codes = row.codes.data() + kBlockElements * index;
  const std::int8_t* factors = row.factors.data() + kBlockElements / lattice.group_size * index;
  put_word(row.scales[index], 2, block, 0);
  // Factors are 1, 3, ..., 31.
  const auto factor_code = [&](std::size_t group) { return static_cast<unsigned>(factors[group]) / 2; };
  std::array<std::uint32_t, kCells / 4> run_words{};  // seven signs of each of four cells, and a factor
  for (std::size_t i = 0; i < kCells; ++i) {
    const Cell cell = cell_of(lattice, codes + kCellElements * i);
    const unsigned seven_signs = cell.signs & 0x7FU;
    const std::size_t run = i / 4;
    const std::size_t part = i % 4;
    run_words[run] |= seven_signs << (7 * part);
    switch (lattice.dtype) {
      case DType::kIQ2_XXS:
        block[2 + 8 * run + part] = static_cast<std::uint8_t>(cell.points[0]);
        break;
      case DType::kIQ2_XS:
        put_word(cell.points[0] | seven_signs << 9U, 2, block, 2 + 2 * i);
        break;
      case DType::kIQ2_S:
        block[2 + i] = static_cast<std::uint8_t>(cell.points[0]);
        block[34 + i] = static_cast<std::uint8_t>(cell.signs);
        add_bits((cell.points[0] >> 8U) << (2 * part), block, 66 + run);
        break;
      case DType::kIQ3_XXS:
        for (std::size_t half = 0; half < 2; ++half) {
          block[2 + 2 * i + half] = static_cast<std::uint8_t>(cell.points[half]);
        }
        break;
      case DType::kIQ3_S:
        for (std::size_t half = 0; half < 2; ++half) {
          block[2 + 2 * i + half] = static_cast<std::uint8_t>(cell.points[half]);
          add_bits((cell.points[half] >> 8U) << (2 * part + half), block, 66 + run);
        }
        block[74 + i] = static_cast<std::uint8_t>(cell.signs);
        break;
      default:
        assert(false && "a lattice");
    }
  }
  const std::size_t groups = kBlockElements / lattice.group_size;
  switch (lattice.dtype) {
    case DType::kIQ2_XXS:
      for (std::size_t run = 0; run < 8; ++run) {
        put_word(run_words[run] | factor_code(run) << 28U, 4, block, 6 + 8 * run);
      }
      break;
    case DType::kIQ3_XXS:
      for (std::size_t run = 0; run < 8; ++run) {
        put_word(run_words[run] | factor_code(run) << 28U, 4, block, 66 + 4 * run);
      }
      break;
    default: {
      const std::size_t at = lattice.dtype == DType::kIQ2_XS ? 66 : lattice.dtype == DType::kIQ2_S ? 74 : 106;
      for (std::size_t group = 0; group < groups; ++group) {
        add_bits(factor_code(group) << (4 * (group % 2)), block, at + group / 2);
      }
    }
  }
}

}  // namespace ballast::formats
