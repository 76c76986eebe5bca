#include "serve/scheduler/prefix_cache.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/sequence.h"
#include "model/model.h"
#include "tiny_model.h"

namespace ballast::serve {
namespace {

using Tokens = std::vector<int>;

/// Makes states of a tiny model.
class States {
 public:
  States() : model_(test::golden_model("llama3")), engine_(model_) {}

  const model::SequenceState& of(const Tokens& tokens) {
    const auto found = sequences_.find(tokens);
    if (found != sequences_.end()) return found->second.state();
    engine::Sequence sequence(model_, {}, model_.context_length());
    sequence.append(tokens);
    engine_.step(sequence);
    return sequences_.emplace(tokens, std::move(sequence)).first->second.state();
  }

 private:
  model::Model model_;
  engine::Engine engine_;
  std::map<Tokens, engine::Sequence> sequences_;
};

TEST_CASE("the longest stored beginning is found, without the last token, whose logits are needed") {
  States states;
  PrefixCache cache;
  CHECK(cache.find(Tokens{1, 2, 3}, "").state == nullptr);
  cache.insert(Tokens{1, 2, 3, 4, 5}, "", states.of({1, 2, 3, 4, 5}));
  CHECK(cache.find(Tokens{1, 2, 3, 4, 5, 6}, "").length == 5);
  CHECK(cache.find(Tokens{1, 2, 3, 4, 5}, "").length == 4);
  CHECK(cache.find(Tokens{1, 2, 9, 9}, "").length == 2);
  CHECK(cache.find(Tokens{9, 2, 3}, "").state == nullptr);
  CHECK(cache.find(Tokens{1}, "").state == nullptr);
  CHECK(cache.find(Tokens{}, "").state == nullptr);
  const PrefixCache::Match match = cache.find(Tokens{1, 2, 3, 9}, "");
  REQUIRE(match.state != nullptr);
  CHECK(match.state->can_truncate_to(match.length));
}

TEST_CASE("texts with another salt are not found") {
  States states;
  PrefixCache cache;
  cache.insert(Tokens{1, 2, 3}, "mine", states.of({1, 2, 3}));
  CHECK(cache.find(Tokens{1, 2, 3, 4}, "").state == nullptr);
  CHECK(cache.find(Tokens{1, 2, 3, 4}, "yours").state == nullptr);
  CHECK(cache.find(Tokens{1, 2, 3, 4}, "mine").length == 3);
}

TEST_CASE("a text that continues an entry replaces it") {
  States states;
  PrefixCache cache;
  cache.insert(Tokens{1, 2}, "", states.of({1, 2}));
  cache.insert(Tokens{1, 2, 3, 4}, "", states.of({1, 2, 3, 4}));
  CHECK(cache.size() == 1);
  cache.insert(Tokens{1, 2, 3}, "", states.of({1, 2, 3}));
  CHECK(cache.size() == 1);
  cache.insert(Tokens{1, 2, 7}, "", states.of({1, 2, 7}));
  CHECK(cache.size() == 2);
}

TEST_CASE("entries are evicted in the order of their last use") {
  States states;
  PrefixCache cache;
  for (const int first : {1, 2, 3}) cache.insert(Tokens{first, 5, 5}, "", states.of({first, 5, 5}));
  CHECK(cache.find(Tokens{1, 5, 5, 5}, "").length == 3);
  CHECK(cache.drop_oldest());
  CHECK(cache.find(Tokens{2, 5, 5, 5}, "").state == nullptr);
  CHECK(cache.drop_oldest());
  CHECK(cache.find(Tokens{3, 5, 5, 5}, "").state == nullptr);
  CHECK(cache.find(Tokens{1, 5, 5, 5}, "").length == 3);
  CHECK(cache.drop_oldest());
  CHECK_FALSE(cache.drop_oldest());
  CHECK(cache.find(Tokens{1, 5, 5, 5}, "").state == nullptr);
}

TEST_CASE("the least recently used entry is taken with its tokens and its salt") {
  States states;
  PrefixCache cache;
  cache.insert(Tokens{1, 2, 3, 4}, "mine", states.of({1, 2, 3, 4}));
  cache.insert(Tokens{1, 2, 7}, "mine", states.of({1, 2, 7}));
  cache.insert(Tokens{1, 2, 7, 8}, "", states.of({1, 2, 7, 8}));
  CHECK(cache.find(Tokens{1, 2, 3, 4, 5}, "mine").length == 4);
  const auto taken = [&](const Tokens& tokens, const std::string& salt) {
    const std::optional<PrefixCache::Text> text = cache.take_oldest();
    REQUIRE(text.has_value());
    CHECK(text->tokens == tokens);
    CHECK(text->salt == salt);
    CHECK(text->state.length() == tokens.size());
  };
  taken({1, 2, 7}, "mine");
  taken({1, 2, 7, 8}, "");
  taken({1, 2, 3, 4}, "mine");
  CHECK(!cache.take_oldest().has_value());
  CHECK(cache.size() == 0);
}

TEST_CASE("random texts are found as by a comparison with all entries") {
  States states;
  std::mt19937 random(5);
  const auto random_text = [&] {
    Tokens text(1 + random() % 9);
    for (int& token : text) token = static_cast<int>(random() % 3);
    return text;
  };
  for (int round = 0; round < 20; ++round) {
    PrefixCache cache;
    std::map<std::string, std::vector<Tokens>> kept;
    for (int i = 0; i < 40; ++i) {
      const std::string salt(random() % 2, 's');
      const Tokens text = random_text();
      if (random() % 2 == 0) {
        cache.insert(text, salt, states.of(text));
        kept[salt].push_back(text);
      }
      std::size_t longest = 0;
      for (const Tokens& other : kept[salt]) {
        const auto common = static_cast<std::size_t>(std::ranges::mismatch(other, text).in1 - other.begin());
        longest = std::max(longest, std::min(common, text.size() - 1));
      }
      const PrefixCache::Match match = cache.find(text, salt);
      CHECK(match.length == longest);
      CHECK((match.state != nullptr) == (longest > 0));
      if (match.state != nullptr) CHECK(match.state->can_truncate_to(longest));
    }
    while (cache.drop_oldest()) CHECK(cache.find(random_text(), "never").state == nullptr);
    CHECK(cache.size() == 0);
  }
}

}  // namespace
}  // namespace ballast::serve
