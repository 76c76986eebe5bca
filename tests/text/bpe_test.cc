#include "text/subword/bpe.h"

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "doctest/doctest.h"

namespace ballast::text {
namespace {

// Returns letters a-d and random merges of existing tokens.
BpeVocabulary random_vocabulary(unsigned seed, int merges) {
  std::mt19937 random(seed);
  BpeVocabulary vocabulary;
  std::vector<std::string> tokens{"a", "b", "c", "d"};
  for (int i = 0; i < merges; ++i) {
    const int size = static_cast<int>(tokens.size());
    const int left = static_cast<int>(random() % static_cast<unsigned>(size));
    const int right = static_cast<int>(random() % static_cast<unsigned>(size));
    const std::string bytes = tokens[static_cast<std::size_t>(left)] + tokens[static_cast<std::size_t>(right)];
    const auto found = std::find(tokens.begin(), tokens.end(), bytes);
    const int result = static_cast<int>(found - tokens.begin());
    if (found == tokens.end()) tokens.push_back(bytes);
    vocabulary.merges.push_back({left, right, result});
  }
  auto table = std::make_shared<TokenTable>();
  for (const std::string& token : tokens) table->add(token);
  vocabulary.tokens = std::move(table);
  return vocabulary;
}

// Implements the definition: merges the leftmost pair of the lowest rank until no pair is left.
std::vector<int> merge_naively(const BpeVocabulary& vocabulary, const std::string& piece) {
  std::map<std::pair<int, int>, std::pair<int, int>> rules;
  for (std::size_t rank = 0; rank < vocabulary.merges.size(); ++rank) {
    const BpeVocabulary::Merge& merge = vocabulary.merges[rank];
    rules[{merge.left, merge.right}] = {static_cast<int>(rank), merge.result};
  }
  std::vector<int> ids;
  for (const char c : piece) ids.push_back(c - 'a');
  while (true) {
    std::size_t best = ids.size();
    std::pair<int, int> best_rule;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto rule = rules.find({ids[i], ids[i + 1]});
      if (rule == rules.end() || (best < ids.size() && rule->second.first >= best_rule.first)) continue;
      best = i;
      best_rule = rule->second;
    }
    if (best == ids.size()) return ids;
    ids[best] = best_rule.second;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

std::string random_piece(std::mt19937& random, std::size_t length) {
  std::string piece(length, 'a');
  for (char& c : piece) c = static_cast<char>('a' + random() % 4);
  return piece;
}

std::vector<int> encode(const Bpe& bpe, const std::string& piece) {
  std::vector<int> ids;
  bpe.encode(piece, ids);
  return ids;
}

TEST_CASE("merging with a queue gives the result of the definition") {
  std::mt19937 random(7);
  for (unsigned seed = 0; seed < 30; ++seed) {
    const BpeVocabulary vocabulary = random_vocabulary(seed, 40);
    const Bpe bpe(vocabulary);
    for (int i = 0; i < 50; ++i) {
      const std::string piece = random_piece(random, random() % 30);
      CAPTURE(piece);
      const std::vector<int> expected = merge_naively(vocabulary, piece);
      CHECK(encode(bpe, piece) == expected);
      CHECK(encode(bpe, piece) == expected);  // from the cache of pieces
    }
  }
}

TEST_CASE("long pieces, merged window by window, give the result of the definition") {
  std::mt19937 random(11);
  for (unsigned seed = 0; seed < 40; ++seed) {
    const BpeVocabulary vocabulary = random_vocabulary(seed, 10 + static_cast<int>(seed));
    for (const std::size_t window : {1U, 2U, 7U, 16U, 40U}) {
      const Bpe bpe(vocabulary, window);
      for (int i = 0; i < 8; ++i) {
        std::string piece = random_piece(random, 20 + random() % 150);
        if (i % 2 == 0) piece.replace(10, piece.size() - 20, piece.size() - 20, piece[0]);
        CAPTURE(piece);
        CAPTURE(window);
        CHECK(encode(bpe, piece) == merge_naively(vocabulary, piece));
      }
    }
  }
}

TEST_CASE("a long run of one letter, merged window by window, gives the tokens of the whole run") {
  // A run of a's becomes tokens of four from the left; the rest depends on where the run begins.
  BpeVocabulary vocabulary;
  vocabulary.tokens = std::make_shared<TokenTable>(TokenTable{"a", "aa", "aaaa", "aaa"});
  vocabulary.merges = {{0, 0, 1}, {1, 1, 2}, {1, 0, 3}};
  for (std::size_t length : {64U, 65U, 66U, 67U, 1000U, 1003U}) {
    const std::string piece(length, 'a');
    CHECK(encode(Bpe(vocabulary, 16), piece) == merge_naively(vocabulary, piece));
  }
  std::vector<int> ids = encode(Bpe(vocabulary), std::string(4'000'003, 'a'));
  CHECK(ids.size() == 1'000'001);
  CHECK(ids.back() == 3);
}

TEST_CASE("a run of unknown units stays one token across the windows of a long piece") {
  BpeVocabulary vocabulary;
  vocabulary.tokens = std::make_shared<TokenTable>(TokenTable{"a", "?"});
  vocabulary.unknown = 1;
  vocabulary.fuse_unknown = true;
  CHECK(encode(Bpe(vocabulary, 4), std::string(100, 'x') + "aaaa" + std::string(100, 'y') + "a") ==
        std::vector<int>{1, 0, 0, 0, 0, 1, 0});
}

TEST_CASE("threads that share a tokenizer agree") {
  const BpeVocabulary vocabulary = random_vocabulary(1, 40);
  const Bpe bpe(vocabulary);
  std::vector<std::vector<int>> results(4);
  std::vector<std::thread> threads;
  for (std::vector<int>& ids : results) {
    threads.emplace_back([&] {
      std::mt19937 random(3);
      for (int i = 0; i < 2000; ++i) bpe.encode(random_piece(random, 1 + random() % 6), ids);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<int>& ids : results) CHECK(ids == results[0]);
}

TEST_CASE("a token that merging does not reach stays whole only with ignore_merges") {
  BpeVocabulary vocabulary;
  vocabulary.tokens = std::make_shared<TokenTable>(TokenTable{"a", "b", "ab"});
  CHECK(encode(Bpe(vocabulary), "ab") == std::vector<int>{0, 1});
  vocabulary.ignore_merges = true;
  CHECK(encode(Bpe(vocabulary), "ab") == std::vector<int>{2});
}

TEST_CASE("bytes without a token are dropped or become the unknown token") {
  BpeVocabulary vocabulary;
  vocabulary.tokens = std::make_shared<TokenTable>(TokenTable{"a", "?"});
  CHECK(encode(Bpe(vocabulary), "xayza") == std::vector<int>{0, 0});
  vocabulary.unknown = 1;
  CHECK(encode(Bpe(vocabulary), "xayza") == std::vector<int>{1, 0, 1, 1, 0});
  vocabulary.fuse_unknown = true;
  CHECK(encode(Bpe(vocabulary), "xayza") == std::vector<int>{1, 0, 1, 0});
}

TEST_CASE("a piece of 200,000 bytes is encoded") {
  const Bpe bpe(random_vocabulary(2, 40));
  std::mt19937 random(5);
  CHECK(!encode(bpe, random_piece(random, 200'000)).empty());
}

}  // namespace
}  // namespace ballast::text
