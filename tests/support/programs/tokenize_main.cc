// tokenize_lines MODEL [EXPORT_DIRECTORY]
//
// Helper of scripts/compare_tokenizer.py. MODEL is a directory with a tokenizer.json or a GGUF file. Standard input
// holds records, each "LENGTH\n" and that many bytes; standard output gets the ids of each on one line. With
// EXPORT_DIRECTORY the tokenizer is written there as Hugging Face's files first.
#include <charconv>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>

#include "ballast/error.h"
#include "files/gguf/gguf.h"
#include "text/readers/tokenizer_files.h"
#include "text/tokenizer.h"

namespace {

using ballast::Error;
using ballast::text::Tokenizer;

std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& path) {
  std::unique_ptr<Tokenizer> tokenizer = std::filesystem::is_directory(path)
                                             ? ballast::text::read_tokenizer_directory(path)
                                             : ballast::text::load_tokenizer(*ballast::files::open_gguf(path));
  if (!tokenizer) throw Error(path.string(), "has no tokenizer");
  return tokenizer;
}

std::string_view next_record(std::string_view& input) {
  std::size_t length = 0;
  const auto [end, error] = std::from_chars(input.data(), input.data() + input.size(), length);
  const std::size_t head = static_cast<std::size_t>(end - input.data()) + 1;
  if (error != std::errc() || head > input.size() || length > input.size() - head) {
    throw Error("standard input", "not a record");
  }
  const std::string_view record = input.substr(head, length);
  input.remove_prefix(head + length);
  return record;
}

void run(int argc, char** argv) {
  if (argc < 2 || argc > 3) throw Error("usage", "tokenize_lines MODEL [EXPORT_DIRECTORY] < RECORDS");
  const std::unique_ptr<Tokenizer> tokenizer = open_tokenizer(argv[1]);
  if (argc == 3) {
    const std::filesystem::path directory = argv[2];
    for (const ballast::text::TokenizerFile& file : tokenizer->files()) {
      std::ofstream(directory / file.name, std::ios::binary) << file.content;
    }
  }
  const std::string input{std::istreambuf_iterator<char>(std::cin), {}};
  for (std::string_view rest = input; !rest.empty();) {
    const char* separator = "";
    for (const int id : tokenizer->encode(next_record(rest))) {
      std::cout << separator << id;
      separator = " ";
    }
    std::cout << '\n';
  }
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
