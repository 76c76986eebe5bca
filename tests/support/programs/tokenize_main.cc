// tokenize_lines MODEL [EXPORT_DIRECTORY | --time ROUNDS | --sequences SOURCE TARGET | --decode]
//
// Helper of scripts/compare_tokenizer.py and compare_sequence_tokenizers.py. MODEL is a directory with a tokenizer.json
// or a GGUF file. Standard input holds records, each "LENGTH\n" and that many bytes; standard output gets the ids of
// each on one line. With EXPORT_DIRECTORY the tokenizer is written there as Hugging Face's files first. With --time it
// gets the seconds that the best of ROUNDS rounds over all records took, and the kilobytes of memory that the tokenizer
// takes, instead. With
// --sequences every line is a JSON list: the ids of the record as a text that an encoder reads in the language SOURCE,
// as one of a decoder in the language TARGET, with the tokens before it, and what the latter decode to. With --decode a
// record is a list of ids, and a line the JSON text that they decode to.
#ifdef __linux__
#include <malloc.h>
#endif

#include <algorithm>
#include <charconv>
#include <chrono>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/error.h"
#include "files/gguf/gguf.h"
#include "files/strict_json.h"
#include "text/readers/tokenizer_files.h"
#include "text/tokenizer.h"

namespace {

using ballast::Error;
using ballast::text::Tokenizer;

std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& path) {
  const std::filesystem::path config = path / "config.json";
  std::unique_ptr<Tokenizer> tokenizer;
  if (!std::filesystem::is_directory(path)) {
    tokenizer = ballast::text::load_tokenizer(*ballast::files::open_gguf(path));
  } else if (std::filesystem::exists(config)) {
    tokenizer = ballast::text::read_tokenizer_directory(path, ballast::files::read_json_object(config));
  } else {
    tokenizer = ballast::text::read_tokenizer_directory(path);
  }
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

std::vector<std::string_view> read_records(std::string_view input) {
  std::vector<std::string_view> records;
  while (!input.empty()) records.push_back(next_record(input));
  return records;
}

// Returns the kilobytes of memory of this process that are not mapped files.
std::size_t anonymous_kilobytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssAnon:")) return std::stoull(line.substr(line.find_first_of("0123456789")));
  }
  return 0;
}

void write_ids(const Tokenizer& tokenizer, const std::vector<std::string_view>& records) {
  for (const std::string_view record : records) {
    const char* separator = "";
    for (const int id : tokenizer.encode(record)) {
      std::cout << separator << id;
      separator = " ";
    }
    std::cout << '\n';
  }
}

std::vector<int> joined(std::vector<int> ids, const std::vector<int>& more) {
  ids.insert(ids.end(), more.begin(), more.end());
  return ids;
}

void write_sequences(const Tokenizer& tokenizer, const std::vector<std::string_view>& records, std::string_view source,
                     std::string_view target) {
  const ballast::text::TextFrame frame = tokenizer.source_frame(source);
  const std::vector<int> start = tokenizer.target_start(target);
  for (const std::string_view record : records) {
    const std::vector<int> read = joined(joined(frame.before, tokenizer.encode(record)), frame.after);
    const std::vector<int> written = joined(start, tokenizer.encode_target(record));
    std::cout << nlohmann::json({read, written, decode(tokenizer, written)}).dump() << '\n';
  }
}

void write_texts(const Tokenizer& tokenizer, const std::vector<std::string_view>& records) {
  for (const std::string_view record : records) {
    std::istringstream words{std::string(record)};
    std::vector<int> ids;
    for (int id = 0; words >> id;) ids.push_back(id);
    std::cout << nlohmann::json(decode(tokenizer, ids)).dump() << '\n';
  }
}

double best_seconds(const Tokenizer& tokenizer, const std::vector<std::string_view>& records, int rounds) {
  double best = std::numeric_limits<double>::infinity();
  for (int round = 0; round < rounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (const std::string_view record : records) tokenizer.encode(record);
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

void run(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.empty()) throw Error("usage", "tokenize_lines MODEL [OPTIONS] < RECORDS");
  const std::string input{std::istreambuf_iterator<char>(std::cin), {}};
  const std::vector<std::string_view> records = read_records(input);
  const std::size_t before = anonymous_kilobytes();
  const std::unique_ptr<Tokenizer> tokenizer = open_tokenizer(arguments[0]);
  if (arguments.size() == 3 && arguments[1] == "--time") {
    tokenizer->forget_files();
#ifdef __GLIBC__
    ::malloc_trim(0);
#endif
    const std::size_t memory = anonymous_kilobytes() - before;
    std::cout << best_seconds(*tokenizer, records, std::stoi(arguments[2])) << ' ' << memory << '\n';
    return;
  }
  if (arguments.size() == 4 && arguments[1] == "--sequences") {
    return write_sequences(*tokenizer, records, arguments[2], arguments[3]);
  }
  if (arguments.size() == 2 && arguments[1] == "--decode") return write_texts(*tokenizer, records);
  if (arguments.size() == 2) {
    const std::filesystem::path directory = arguments[1];
    for (const ballast::text::TokenizerFile& file : tokenizer->files()) {
      std::ofstream(directory / file.name, std::ios::binary) << file.content;
    }
  }
  write_ids(*tokenizer, records);
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
