#include "files/npy.h"

#include <bit>
#include <cassert>

namespace ballast::files {

static_assert(std::endian::native == std::endian::little);

std::string npy_text(std::span<const float> values, std::size_t rows, std::size_t cols) {
  assert(values.size() == rows * cols);
  constexpr std::size_t kAlignment = 64;
  const std::string begin = "\x93NUMPY\x01" + std::string(1, '\0');
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(rows) + ", " +
                       std::to_string(cols) + "), }";
  const std::size_t before = begin.size() + 2 + header.size() + 1;  // two bytes of length, a line break
  header.append((kAlignment - before % kAlignment) % kAlignment, ' ');
  header += '\n';
  std::string text = begin;
  text += static_cast<char>(header.size() & 0xFF);
  text += static_cast<char>(header.size() >> 8);
  text += header;
  const auto bytes = std::as_bytes(values);
  text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return text;
}

}  // namespace ballast::files
