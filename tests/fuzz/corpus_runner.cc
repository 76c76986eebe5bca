// Runs a fuzz target without a fuzzer: over every file of the folders named on the command line, each file's
// truncations, a bit flip in each byte, the word at each byte replaced by a value that breaks arithmetic, and pieces
// removed or doubled. The inputs are the same on every run; sanitizers and uncaught exceptions report failures.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

std::size_t runs = 0;

// Copies the input to a heap block of exactly its size, so that sanitizers detect a read past the end.
void run(std::string_view input) {
  const auto copy = std::make_unique<std::uint8_t[]>(input.size());
  std::memcpy(copy.get(), input.data(), input.size());
  LLVMFuzzerTestOneInput(copy.get(), input.size());
  ++runs;
}

void run_truncations(const std::string& input) {
  for (std::size_t size = 0; size < input.size(); ++size) run(std::string_view(input).substr(0, size));
}

// Returns which of eight changes is made at byte `i`. All of them occur in turn, and each position in a word gets
// another one in the next word. A search by libFuzzer tries all changes everywhere.
std::size_t turn(std::size_t i) {
  return (i + i / 8) % 8;
}

void run_bit_flips(std::string input) {
  for (std::size_t i = 0; i < input.size(); ++i) {
    const char old = input[i];
    input[i] = static_cast<char>(old ^ (1 << turn(i)));
    run(input);
    input[i] = old;
  }
}

void run_replaced_words(std::string input) {
  constexpr std::array<std::uint64_t, 8> kValues{
      0, 1, 0x7FFFFFFF, 0xFFFFFFFF, std::uint64_t{1} << 32, INT64_MAX, std::uint64_t{1} << 63, UINT64_MAX};
  for (std::size_t i = 0; i + sizeof(std::uint64_t) <= input.size(); ++i) {
    const std::string old = input.substr(i, sizeof(std::uint64_t));
    std::memcpy(input.data() + i, &kValues[turn(i)], sizeof(std::uint64_t));
    run(input);
    input.replace(i, old.size(), old);
  }
}

// At each byte removes a piece or doubles it, which damages structured text: six changes in turn.
void run_moved_pieces(const std::string& input) {
  constexpr std::array<std::size_t, 3> kLengths = {1, 7, 40};
  for (std::size_t i = 0; i < input.size(); ++i) {
    const std::size_t change = (i + i / 6) % 6;
    const std::size_t length = std::min(kLengths[change % 3], input.size() - i);
    if (change < 3) {
      run(std::string(input).erase(i, length));
    } else {
      run(std::string(input).insert(i, input, i, length));
    }
  }
}

}  // namespace

int main(int count, char** folders) {
  std::set<std::filesystem::path> files;
  for (int i = 1; i < count; ++i) {
    for (const auto& entry : std::filesystem::directory_iterator(folders[i])) files.insert(entry.path());
  }
  for (const std::filesystem::path& path : files) {
    try {
      std::ifstream file(path, std::ios::binary);
      const std::string input{std::istreambuf_iterator<char>(file), {}};
      run(input);
      run_truncations(input);
      run_bit_flips(input);
      run_replaced_words(input);
      run_moved_pieces(input);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s: run %zu: not an Error: %s\n", path.c_str(), runs, error.what());
      return 1;
    }
  }
  std::printf("%zu files, %zu runs\n", files.size(), runs);
  return files.empty() ? 1 : 0;
}
