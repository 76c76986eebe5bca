// Layers with a state besides keys and values: if a part of a text is reused, the results are bit-identical to those of
// a run from its beginning.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <random>
#include <span>
#include <vector>

#include "ballast/convert.h"
#include "ballast/recipe.h"
#include "engine/engine.h"
#include "every_target.h"
#include "model/model.h"
#include "temporary_directory.h"
#include "tiny_model.h"
#include "with_threads.h"

namespace ballast::engine::hybrids {
namespace {

constexpr const char* kHybrids[] = {"qwen3_next", "lfm2", "lfm3", "granitemoehybrid", "falcon_h1", "nemotron_h"};
constexpr std::size_t kContext = 64;

std::vector<CacheOptions> caches() {
  using Type = CacheOptions::Type;
  return {{.type = Type::kF32}, {.type = Type::kInt8}, {.type = Type::kF16, .window = 20, .sinks = 2}};
}

std::vector<int> random_text(const model::Model& model, std::size_t length, std::size_t seed) {
  std::mt19937 random(static_cast<unsigned>(seed));
  std::vector<int> ids(length);
  for (int& id : ids) id = static_cast<int>(random() % model.spec().vocab_size);
  return ids;
}

/// Continues a state; the logits of all tokens.
std::vector<float> continued(const model::Model& model, std::span<const int> ids, model::SequenceState& state) {
  model::Workspace workspace;
  const model::SequenceTokens tokens = {.tokens = ids, .state = &state, .wanted = ids.size()};
  std::vector<float> logits(ids.size() * model.spec().vocab_size);
  model.run({&tokens, 1}, logits.data(), workspace);
  return logits;
}

std::vector<float> fresh(const model::Model& model, const CacheOptions& cache, const std::vector<int>& ids) {
  model::SequenceState state = model.make_state(cache, kContext);
  return continued(model, ids, state);
}

std::vector<float> last(const model::Model& model, const std::vector<float>& logits, std::size_t rows) {
  return {logits.end() - static_cast<std::ptrdiff_t>(rows * model.spec().vocab_size), logits.end()};
}

/// Calls check(model) for every hybrid.
template <typename Check>
void for_every_hybrid(const Check& check) {
  for (const char* name : kHybrids) {
    CAPTURE(name);
    const model::Model model(test::golden_model(name));
    check(model);
  }
}

template <typename Check>
void for_every_hybrid_and_cache(const Check& check) {
  for_every_hybrid([&](const model::Model& model) {
    for (const CacheOptions& cache : caches()) {
      CAPTURE(cache.window);
      CAPTURE(static_cast<int>(cache.type));
      check(model, cache);
    }
  });
}

/// Runs texts side by side, in each step a random piece of a random choice of them.
std::vector<std::vector<float>> in_random_batches(const model::Model& model, const CacheOptions& cache,
                                                  const std::vector<std::vector<int>>& texts, std::mt19937& random) {
  Engine engine(model);
  std::vector<Sequence> sequences;
  for (const std::vector<int>& text : texts) sequences.emplace_back(model, cache, text.size());
  std::vector<std::vector<float>> logits(texts.size());
  const auto ends = [&](std::size_t i) { return sequences[i].run() == texts[i].size(); };
  while (!ends(0) || !ends(1) || !ends(2) || !ends(3)) {
    std::vector<Sequence*> batch;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (ends(i) || random() % 3 == 0) continue;
      const std::size_t run = sequences[i].run();
      const std::size_t piece = std::min<std::size_t>(texts[i].size() - run, 1 + random() % 9);
      sequences[i].append(std::span(texts[i]).subspan(run, piece));
      sequences[i].want(piece);
      batch.push_back(&sequences[i]);
    }
    engine.step(batch);
    for (const Sequence* sequence : batch) {
      std::vector<float>& all = logits[static_cast<std::size_t>(sequence - sequences.data())];
      all.insert(all.end(), sequence->logits().begin(), sequence->logits().end());
    }
  }
  return logits;
}

TEST_CASE("a hybrid's logits are the same bits alone and in any batch, for any pieces, threads and kinds of cache") {
  test::for_every_target([&] {
    std::mt19937 random(4);
    for_every_hybrid_and_cache([&](const model::Model& model, const CacheOptions& cache) {
      std::vector<std::vector<int>> texts;
      for (const std::size_t length : {1, 7, 30, 50}) texts.push_back(random_text(model, length, length));
      for (const int threads : {1, 3}) {
        const auto logits = test::with_threads(threads, [&] { return in_random_batches(model, cache, texts, random); });
        for (std::size_t i = 0; i < texts.size(); ++i) CHECK(logits[i] == fresh(model, cache, texts[i]));
      }
    });
  });
}

TEST_CASE("a hybrid comes back to a snapshot as if the tokens after it had never been") {
  for_every_hybrid_and_cache([&](const model::Model& model, const CacheOptions& cache) {
    const std::vector<int> ids = random_text(model, 45, 1);
    const std::vector<float> expected = fresh(model, cache, ids);
    model::SequenceState state = model.make_state(cache, kContext);
    continued(model, std::span(ids).first(25), state);
    const model::SequenceState::Snapshot snapshot = state.snapshot();
    for (const std::size_t seed : {2, 3}) {
      continued(model, random_text(model, 9, seed), state);
      CHECK(!state.can_truncate_to(25));
      REQUIRE(state.can_restore(snapshot));
      state.restore(snapshot);
      CHECK(state.length() == 25);
    }
    CHECK(continued(model, std::span(ids).subspan(25), state) == last(model, expected, 20));
  });
}

TEST_CASE("a snapshot of a hybrid serves every text that begins with the same tokens") {
  for_every_hybrid_and_cache([&](const model::Model& model, const CacheOptions& cache) {
    const std::vector<int> beginning = random_text(model, 21, 1);
    model::SequenceState state = model.make_state(cache, kContext);
    continued(model, beginning, state);
    const model::SequenceState::Snapshot snapshot = state.snapshot();
    continued(model, random_text(model, 5, 9), state);
    for (const std::size_t seed : {2, 3}) {
      model::SequenceState fork = state;
      fork.restore(snapshot);
      const std::vector<int> rest = random_text(model, 19, seed);
      std::vector<int> whole = beginning;
      whole.insert(whole.end(), rest.begin(), rest.end());
      CHECK(continued(model, rest, fork) == last(model, fresh(model, cache, whole), rest.size()));
    }
  });
}

TEST_CASE("a rolling hybrid comes back to a snapshot while its cache still holds what is seen there") {
  const CacheOptions cache = {.type = CacheOptions::Type::kF32, .window = 12, .sinks = 2};
  for_every_hybrid([&](const model::Model& model) {
    const std::vector<int> ids = random_text(model, 60, 1);
    const std::vector<float> expected = fresh(model, cache, ids);
    model::SequenceState state = model.make_state(cache, kContext);
    continued(model, std::span(ids).first(40), state);
    const model::SequenceState::Snapshot snapshot = state.snapshot();
    continued(model, random_text(model, 6, 2), state);
    REQUIRE(state.can_restore(snapshot));
    state.restore(snapshot);
    std::vector<float> rolled;
    for (std::size_t i = 40; i < ids.size(); ++i) {
      const std::vector<float> row = continued(model, std::span(ids).subspan(i, 1), state);
      rolled.insert(rolled.end(), row.begin(), row.end());
    }
    CHECK(rolled == last(model, expected, 20));
  });
}

TEST_CASE("a text of a hybrid that is longer now is read on, one that differs from its beginning, to the same bits") {
  for_every_hybrid_and_cache([&](const model::Model& model, const CacheOptions& cache) {
    Engine engine(model);
    Sequence sequence(model, cache, kContext);
    std::vector<int> text = random_text(model, 30, 1);
    const auto logits_of = [&](std::size_t rows) -> std::vector<float> {
      sequence.want(rows);
      engine.step(sequence);
      return {sequence.logits().begin(), sequence.logits().end()};
    };
    sequence.replace(text);
    CHECK(logits_of(text.size()) == fresh(model, cache, text));

    const std::vector<int> more = random_text(model, 12, 2);
    text.insert(text.end(), more.begin(), more.end());
    sequence.replace(text);
    CHECK(sequence.run() == 30);
    CHECK(logits_of(more.size()) == last(model, fresh(model, cache, text), more.size()));

    text[20] = text[20] == 0 ? 1 : 0;
    sequence.replace(text);
    CHECK(sequence.run() == 0);
    CHECK(logits_of(text.size()) == fresh(model, cache, text));
  });
}

TEST_CASE("tokens of a hybrid after a draft that is cut back anywhere have the bits of a text without it") {
  for_every_hybrid_and_cache([&](const model::Model& model, const CacheOptions& cache) {
    Engine engine(model);
    Sequence sequence(model, cache, kContext);
    const std::vector<int> text = random_text(model, kContext, 1);
    const std::vector<float> expected = fresh(model, cache, text);
    const std::size_t vocab_size = model.spec().vocab_size;
    std::mt19937 random(7);
    sequence.append(std::span(text).first(10));
    engine.step(sequence);
    for (std::size_t known = 10; known + 10 < text.size();) {
      const std::size_t drafted = random() % 6;
      const std::size_t right = drafted == 0 ? 0 : random() % (drafted + 1);
      std::vector<int> draft(text.begin() + static_cast<std::ptrdiff_t>(known + 1),
                             text.begin() + static_cast<std::ptrdiff_t>(known + 1 + drafted));
      if (right < drafted) draft[right] = draft[right] == 0 ? 1 : 0;
      sequence.append(text[known]);
      sequence.append_draft(draft);
      sequence.want(drafted + 1);
      engine.step(sequence);
      // The row after the first wrong token is not the text's.
      const auto first = expected.begin() + static_cast<std::ptrdiff_t>(known * vocab_size);
      const std::size_t values = (right + 1) * vocab_size;
      CHECK(std::vector<float>(sequence.logits().begin(),
                               sequence.logits().begin() + static_cast<std::ptrdiff_t>(values)) ==
            std::vector<float>(first, first + static_cast<std::ptrdiff_t>(values)));
      known += right + 1;
      sequence.cut_back(known);
      CHECK(sequence.ids().size() == known);
      CHECK(sequence.run() <= known);
    }
  });
}

TEST_CASE("a hybrid that is truncated to 0 tokens still has its prefix") {
  const std::vector<int> prefix = {3, 1, 7};
  for (const char* name : kHybrids) {
    CAPTURE(name);
    const test::TemporaryDirectory directory;
    ConvertOptions options;
    options.recipe = recipe_for_scheme("f32");
    convert(test::golden_model(name), directory / "plain", options);
    options.recipe.prefix.tokens = prefix;
    convert(test::golden_model(name), directory / "prefixed", options);
    const model::Model plain(directory / "plain");
    const model::Model prefixed(directory / "prefixed");
    const std::vector<int> ids = random_text(plain, 20, 1);
    std::vector<int> whole = prefix;
    whole.insert(whole.end(), ids.begin(), ids.end());
    const CacheOptions cache = {.type = CacheOptions::Type::kF32};
    const std::vector<float> expected = last(plain, fresh(plain, cache, whole), ids.size());
    model::SequenceState state = prefixed.make_state(cache, kContext - prefix.size());
    for (int round = 0; round < 2; ++round) {
      CHECK(continued(prefixed, ids, state) == expected);
      state.truncate(0);
    }
  }
}

}  // namespace
}  // namespace ballast::engine::hybrids
