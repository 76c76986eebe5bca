// decode_blocks TYPE
//
// Helper of scripts/compare_ggml.py. Standard input holds GGUF blocks of the type; standard output gets their values as
// 32-bit floats.
#include <exception>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "ballast/tensor.h"
#include "formats/blocks/ggml_blocks.h"

namespace {

using ballast::DTypeInfo;
using ballast::Error;

const DTypeInfo& block_type(std::string_view name) {
  for (const DTypeInfo& info : ballast::kDTypes) {
    if (info.block_elements > 1 && info.name == name) return info;
  }
  throw Error(std::string(name), "is not a type of blocks");
}

void run(int argc, char** argv) {
  if (argc != 2) throw Error("usage", "decode_blocks TYPE < BLOCKS > FLOATS");
  const DTypeInfo& info = block_type(argv[1]);
  const std::string input{std::istreambuf_iterator<char>(std::cin), {}};
  const std::size_t blocks = input.size() / info.block_bytes;
  if (blocks * info.block_bytes != input.size()) throw Error("standard input", "not whole blocks");
  std::vector<float> values(blocks * info.block_elements);
  ballast::formats::decode_ggml_blocks(info.dtype, reinterpret_cast<const std::byte*>(input.data()), blocks,
                                       values.data());
  std::cout.write(reinterpret_cast<const char*>(values.data()),
                  static_cast<std::streamsize>(values.size() * sizeof(float)));
}

}  // namespace

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  try {
    run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
