// What a sequence gets from a step does not depend on what else is in the batch.
#include "engine/engine.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "ballast/convert.h"
#include "ballast/recipe.h"
#include "error_message.h"
#include "every_target.h"
#include "fixed_recipe.h"
#include "model/model.h"
#include "temporary_directory.h"
#include "tiny_adapter.h"
#include "tiny_model.h"
#include "with_threads.h"

namespace ballast::engine {
namespace {

using test::error_message;
using Logits = std::vector<float>;

constexpr std::size_t kLongest = 700;
constexpr std::size_t kSequences = 16;

// Longer than a block of keys and a part of a long cache; one is longer than a pass of the model.
std::vector<std::vector<int>> random_texts(std::mt19937& random) {
  std::vector<std::vector<int>> texts(kSequences);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::size_t length = i == 0 ? 1 : i == 1 ? kLongest : 1 + random() % kLongest;
    for (std::size_t t = 0; t < length; ++t) texts[i].push_back(static_cast<int>(random() % 64));
  }
  return texts;
}

/// How a sequence runs.
struct Running {
  CacheOptions cache;
  Adapter adapter{};
};

Logits run_alone(const model::Model& model, Engine& engine, const Running& running, const std::vector<int>& text) {
  Sequence sequence(model, running.cache, text.size(), running.adapter);
  sequence.append(text);
  sequence.want(text.size());
  engine.step(sequence);
  return {sequence.logits().begin(), sequence.logits().end()};
}

/// Runs all texts side by side, in each step a random piece of a random choice of them.
std::vector<Logits> run_in_random_batches(const model::Model& model, Engine& engine,
                                          const std::vector<Running>& running,
                                          const std::vector<std::vector<int>>& texts, std::mt19937& random) {
  std::vector<std::unique_ptr<Sequence>> sequences;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const Running& own = running[i % running.size()];
    sequences.push_back(std::make_unique<Sequence>(model, own.cache, texts[i].size(), own.adapter));
  }
  std::vector<Logits> logits(texts.size());
  for (bool left = true; left;) {
    left = false;
    std::vector<Sequence*> batch;
    std::vector<std::size_t> members;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const std::size_t run = sequences[i]->run();
      if (run == texts[i].size()) continue;
      left = true;
      if (random() % 3 == 0) continue;
      const std::size_t longest = random() % 2 == 0 ? 3 : texts[i].size();
      const std::size_t piece = std::min(texts[i].size() - run, 1 + random() % longest);
      sequences[i]->append(std::span(texts[i]).subspan(run, piece));
      sequences[i]->want(piece);
      batch.push_back(sequences[i].get());
      members.push_back(i);
    }
    std::ranges::shuffle(batch, random);
    engine.step(batch);
    for (const std::size_t i : members) {
      logits[i].insert(logits[i].end(), sequences[i]->logits().begin(), sequences[i]->logits().end());
    }
  }
  return logits;
}

bool same_bits(const Logits& a, const Logits& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class Models {
 public:
  explicit Models(const std::vector<std::string>& schemes) {
    original.config["attention_bias"] = false;
    paths_.push_back(original.write(directory_ / "original"));
    for (const std::string& scheme : schemes) {
      ConvertOptions options;
      options.recipe = test::fixed_recipe(scheme);
      options.calibration.samples = 2;
      options.calibration.length = 16;
      convert(paths_.front(), directory_ / scheme, options);
      paths_.push_back(directory_ / scheme);
    }
  }
  const std::vector<std::filesystem::path>& paths() const { return paths_; }

  std::filesystem::path adapter(unsigned seed) const {
    return test::random_adapter(original, seed).write(directory_ / ("adapter" + std::to_string(seed)));
  }

  test::TinyModel original = test::random_model({.vocab = 64, .context = 1024});

 private:
  test::TemporaryDirectory directory_;
  std::vector<std::filesystem::path> paths_;
};

std::vector<Running> all_caches() {
  using Type = CacheOptions::Type;
  return {{.cache = {.type = Type::kF32}},
          {.cache = {.type = Type::kF16}},
          {.cache = {.type = Type::kInt8}},
          {.cache = {.type = Type::kF16, .window = 60, .sinks = 4}},
          {.cache = {.type = Type::kInt8, .window = 200, .sinks = 3}}};
}

void check_every_batch(const model::Model& model, const std::vector<Running>& running, std::mt19937& random) {
  Engine engine(model);
  const std::vector<std::vector<int>> texts = random_texts(random);
  std::vector<Logits> alone;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    alone.push_back(run_alone(model, engine, running[i % running.size()], texts[i]));
  }
  for (const int threads : {1, 2, 3}) {
    CAPTURE(threads);
    const std::vector<Logits> batched =
        test::with_threads(threads, [&] { return run_in_random_batches(model, engine, running, texts, random); });
    for (std::size_t i = 0; i < texts.size(); ++i) {
      CAPTURE(i);
      CAPTURE(texts[i].size());
      CHECK(same_bits(batched[i], alone[i]));
    }
  }
}

TEST_CASE("a sequence's logits are the same bits alone and in any batch, for any pieces, threads and kinds of cache") {
  const Models models({"bf16", "w8a8", "w4a16"});
  test::for_every_target([&] {
    std::mt19937 random(5);
    for (const std::filesystem::path& path : models.paths()) {
      CAPTURE(path.filename().string());
      const model::Model model(path);
      check_every_batch(model, all_caches(), random);
    }
  });
}

TEST_CASE("a sequence with an adapter gives the same bits alone and next to others with other adapters or none") {
  const Models models({"bf16", "w8a8", "w4a16"});
  std::vector<std::filesystem::path> adapters;
  for (unsigned seed = 1; seed <= 8; ++seed) adapters.push_back(models.adapter(seed));
  test::for_every_target([&] {
    std::mt19937 random(6);
    for (const std::filesystem::path& path : models.paths()) {
      CAPTURE(path.filename().string());
      const model::Model model(path);
      std::vector<Running> running = {{.cache = {}}};
      for (const std::filesystem::path& adapter : adapters) {
        running.push_back(
            {.cache = {.type = CacheOptions::Type::kInt8}, .adapter = model.load_adapter({.path = adapter})});
      }
      Engine engine(model);
      const std::vector<int> text = {1, 2, 3, 4, 5};
      CHECK_FALSE(same_bits(run_alone(model, engine, running[1], text), run_alone(model, engine, running[2], text)));
      check_every_batch(model, running, random);
    }
  });
}

TEST_CASE("a replaced text reads again only what differs, to the same bits") {
  const Models models({"w8a8"});
  const model::Model model(models.paths().back());
  Engine engine(model);
  std::mt19937 random(3);
  std::vector<int> text(300);
  for (int& id : text) id = static_cast<int>(random() % 64);
  Sequence sequence(model, {.type = CacheOptions::Type::kF16}, 400);
  sequence.replace(text);
  engine.step(sequence);
  text[200] = 1 - text[200] % 2;
  text.resize(250);
  sequence.replace(text);
  CHECK(sequence.run() >= 200);
  sequence.want(1);
  engine.step(sequence);
  const Logits again(sequence.logits().begin(), sequence.logits().end());
  Logits fresh = run_alone(model, engine, {.cache = {.type = CacheOptions::Type::kF16}}, text);
  fresh.erase(fresh.begin(), fresh.end() - static_cast<std::ptrdiff_t>(again.size()));
  CHECK(same_bits(again, fresh));
}

TEST_CASE("a sequence with rows gives the bits of their ids in any pieces, and reads again from the first other row") {
  const Models models({"w8a8"});
  const model::Model model(models.paths().back());
  Engine engine(model);
  std::mt19937 random(4);
  const std::size_t size = model.spec().hidden_size;
  std::vector<int> text(90);
  for (int& id : text) id = static_cast<int>(random() % 64);
  const model::Linear table = model.source().linear(model::Role::kEmbedding);
  std::vector<float> values(text.size() * size);
  std::vector<const float*> rows(text.size(), nullptr);
  for (std::size_t i = 20; i < 60; ++i) {
    rows[i] = values.data() + i * size;
    model::decode_row(table, static_cast<std::size_t>(text[i]), values.data() + i * size);
  }
  const Logits expected = run_alone(model, engine, {}, text);

  Sequence sequence(model, {}, text.size());
  const model::TokenSpan tokens(text, rows);
  Logits logits;
  for (std::size_t first = 0; first < text.size(); first += 30) {
    // The first piece comes as ids alone, its last ten tokens by their rows.
    sequence.append(first == 0 ? model::TokenSpan(std::span(text).first(20)) : tokens.subspan(first, 30));
    if (first == 0) sequence.append(tokens.subspan(20, 10));
    sequence.want(30);
    engine.step(sequence);
    logits.insert(logits.end(), sequence.logits().begin(), sequence.logits().end());
  }
  CHECK(same_bits(logits, expected));

  const std::vector<float> other(values.begin() + static_cast<std::ptrdiff_t>(40 * size),
                                 values.begin() + static_cast<std::ptrdiff_t>(41 * size));
  rows[40] = other.data();  // equal values, but nothing says so
  sequence.replace(model::TokenSpan(text, rows));
  CHECK(sequence.run() == 40);
  sequence.want(text.size() - 40);
  engine.step(sequence);
  const std::size_t before = expected.size() / text.size() * 40;
  CHECK(same_bits({sequence.logits().begin(), sequence.logits().end()},
                  {expected.begin() + static_cast<std::ptrdiff_t>(before), expected.end()}));
}

TEST_CASE("steps called from several threads give what each gives alone") {
  const Models models({"w8a8"});
  const model::Model model(models.paths().back());
  Engine engine(model);
  std::mt19937 random(8);
  std::vector<std::vector<int>> texts = random_texts(random);
  texts.resize(4);
  std::vector<Logits> alone;
  for (const std::vector<int>& text : texts) alone.push_back(run_alone(model, engine, {}, text));
  std::vector<Logits> together(texts.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    threads.emplace_back([&, i] {
      Sequence sequence(model, {}, texts[i].size());
      for (std::size_t begin = 0; begin < texts[i].size(); begin += 50) {
        const std::size_t count = std::min<std::size_t>(50, texts[i].size() - begin);
        sequence.append(std::span(texts[i]).subspan(begin, count));
        sequence.want(count);
        engine.step(sequence);
        together[i].insert(together[i].end(), sequence.logits().begin(), sequence.logits().end());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < texts.size(); ++i) CHECK(same_bits(together[i], alone[i]));
}

TEST_CASE("a sequence that cannot go on is refused, and stays as it was") {
  const Models models({});
  const model::Model model(models.paths().front());
  Engine engine(model);
  Sequence sequence(model, {}, 4);
  sequence.append(std::vector{1, 2, 3});
  engine.step(sequence);
  sequence.append(64);
  CHECK(error_message([&] { engine.step(sequence); }) == "token 64: not in the model's vocabulary of 64");
  CHECK(sequence.run() == 3);
  sequence.replace(std::vector{1, 2, 3, 4, 5});
  CHECK(error_message([&] { engine.step(sequence); }) == test::Contains("cache: has room for 1 more tokens, 2 come"));
  sequence.replace(std::vector{1, 2, 3, 4});
  engine.step(sequence);
  CHECK(sequence.run() == 4);
}

/// Takes rows as they come.
struct CollectedLogits : LogitsReader {
  void read(std::size_t first, std::span<const float> rows) override {
    CHECK(first * vocab_size == logits.size());
    logits.insert(logits.end(), rows.begin(), rows.end());
  }
  std::size_t vocab_size = 0;
  Logits logits;
};

struct CollectedHidden : HiddenReader {
  void read(std::span<const float> rows) override { hidden.insert(hidden.end(), rows.begin(), rows.end()); }
  std::vector<float> hidden;
};

TEST_CASE("logits and hidden values do not depend on other sequences of the step") {
  const model::Model model(test::golden_model("llama3"));
  Engine engine(model);
  std::mt19937 random(2);
  const auto text = [&](std::size_t length) {
    std::vector<int> ids(length);
    for (int& id : ids) id = static_cast<int>(random() % 60);
    return ids;
  };
  const std::vector<int> read = text(50), embedded = text(33), plain = text(41);
  const Logits wanted = run_alone(model, engine, {}, read);
  const Logits plain_wanted = run_alone(model, engine, {}, plain);

  CollectedHidden alone;
  Sequence embedded_alone(model, {}, 64);
  embedded_alone.append(embedded);
  embedded_alone.want(embedded.size(), alone);
  engine.step(embedded_alone);
  CHECK(alone.hidden.size() == embedded.size() * model.spec().hidden_size);
  CHECK(embedded_alone.logits().empty());

  CollectedLogits logits;
  logits.vocab_size = model.spec().vocab_size;
  CollectedHidden hidden;
  Sequence a(model, {}, 64), b(model, {}, 64), c(model, {}, 64);
  a.append(read);
  a.want(read.size(), logits);
  b.append(embedded);
  b.want(embedded.size(), hidden);
  c.append(plain);
  c.want(plain.size());
  const std::vector<Sequence*> batch = {&c, &a, &b};
  engine.step(batch);
  CHECK(logits.logits == wanted);
  CHECK(std::ranges::equal(a.logits(), std::span(wanted).last(model.spec().vocab_size)));
  CHECK(hidden.hidden == alone.hidden);
  CHECK(std::ranges::equal(c.logits(), plain_wanted));
}

}  // namespace
}  // namespace ballast::engine
