// Writes NumPy's file format of one array.
#ifndef BALLAST_FILES_NPY_H_
#define BALLAST_FILES_NPY_H_

#include <cstddef>
#include <span>
#include <string>

namespace ballast::files {

/// Returns the bytes of a .npy file with the floats [rows][cols].
std::string npy_text(std::span<const float> values, std::size_t rows, std::size_t cols);

}  // namespace ballast::files

#endif  // BALLAST_FILES_NPY_H_
