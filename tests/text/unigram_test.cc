#include "text/subword/unigram.h"

#include <cstddef>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "doctest/doctest.h"
#include "files/json_reader.h"

namespace ballast::text {
namespace {

using nlohmann::json;

/// Returns letters a to c and random words of them, with random scores; d and e are unknown.
json random_model(unsigned seed) {
  std::mt19937 random(seed);
  const auto score = [&] { return -1.0 - static_cast<double>(random() % 1000) / 100; };
  json vocab = json::array({{"?", 0.0}, {"a", score()}, {"b", score()}, {"c", score()}});
  for (int i = 0; i < 40; ++i) {
    std::string word(2 + random() % 9, 'a');
    for (char& c : word) c = static_cast<char>('a' + random() % 3);
    vocab.push_back({word, score()});
  }
  return {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", vocab}};
}

std::vector<int> encode(const json& model, std::size_t window, const std::string& piece) {
  std::vector<int> ids;
  Unigram(files::JsonReader(model, "model"), window).encode(piece, ids);
  return ids;
}

TEST_CASE("a long piece that is searched window by window is split as one that is searched at once") {
  std::mt19937 random(5);
  for (unsigned seed = 0; seed < 30; ++seed) {
    const json model = random_model(seed);
    std::string piece(400, 'a');
    for (char& c : piece) c = static_cast<char>('a' + random() % (seed % 2 == 0 ? 3 : 5));
    if (seed % 3 == 0) piece.replace(50, 200, 200, seed % 2 == 0 ? 'a' : 'd');
    CAPTURE(piece);
    const std::vector<int> expected = encode(model, 100'000, piece);
    for (const std::size_t window : {1U, 5U, 32U, 100U}) CHECK(encode(model, window, piece) == expected);
  }
}

TEST_CASE("a run of unknown characters stays one token across the windows of a long piece") {
  const json model = {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", json::array({{"?", 0.0}, {"a", -1.0}})}};
  const std::string piece = "aa" + std::string(1000, 'x') + "a";
  CHECK(encode(model, 8, piece) == std::vector<int>{1, 1, 0, 1});
}

}  // namespace
}  // namespace ballast::text
