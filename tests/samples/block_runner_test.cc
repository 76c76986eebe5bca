#include "samples/block_runner.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "model/model.h"
#include "tiny_model.h"

namespace ballast::samples {
namespace {

constexpr std::size_t kLength = 8;
constexpr std::size_t kSamples = 3;

std::vector<int> some_ids(std::size_t count) {
  std::vector<int> ids(count);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int>(i * 7 % 31);
  return ids;
}

std::shared_ptr<const model::Embedding> embedding_of(const model::ModelSource& source) {
  return std::make_shared<const model::Embedding>(source.spec(), source.parts());
}

/// Returns the stream after the last block of `ids`, run as a whole, [ids][hidden].
std::vector<float> run_whole(const model::Model& model, std::span<const int> ids) {
  model::Workspace workspace;
  model::SequenceState state = model.make_exact_state(ids.size());
  const model::SequenceTokens tokens = {.tokens = ids, .state = &state, .wanted = ids.size()};
  const std::span<const float> hidden = model.forward({&tokens, 1}, workspace);
  return {hidden.begin(), hidden.end()};
}

/// Counts the batches, rows and shards that it gets.
class CountingObserver : public Observer {
 public:
  void add(const ObservedBatch& batch) override {
    firsts.push_back(batch.first);
    samples += batch.count;
    rows += batch.hidden.size();
    inputs += batch.activations->inputs.size();
  }
  void end_shard(std::size_t shard) override { shards.push_back(shard); }

  std::vector<std::size_t> firsts;
  std::vector<std::size_t> shards;
  std::size_t samples = 0;
  std::size_t rows = 0;
  std::size_t inputs = 0;
};

TEST_CASE(
    "samples that pass a model block by block give the result of the whole model, with shared keys and token inputs") {
  for (const std::string golden : {"llama3", "gemma4_text"}) {
    CAPTURE(golden);
    const model::Model model(test::golden_model(golden), model::FloatLayout::kRows);
    const model::ModelSource& source = model.source();
    const std::vector<int> ids = some_ids(kSamples * kLength);
    const std::shared_ptr<const model::Embedding> embedding = embedding_of(source);
    BlockRunner runner(source.spec(), kLength);
    runner.embed(embedding, {ids, kLength});
    BlockRunner later(source.spec(), kLength);  // the same samples, saved on their way
    const std::size_t last = source.spec().layers.size() - 1;
    for (std::size_t layer = 0; layer <= last; ++layer) {
      if (layer == last) {
        later.resize({ids, kLength});
        later.rows() = runner.rows();
        later.set_origin(embedding, {ids, kLength});
      }
      runner.advance(source.block(layer), layer);
    }
    later.advance(source.block(last), last);
    CHECK(later.rows().hidden == runner.rows().hidden);

    std::vector<float> whole;
    for (std::size_t sample = 0; sample < kSamples; ++sample) {
      const std::vector<float> rows = run_whole(model, std::span(ids).subspan(sample * kLength, kLength));
      whole.insert(whole.end(), rows.begin(), rows.end());
    }
    CHECK(whole == runner.rows().hidden);
  }
}

TEST_CASE("a prefix passes a block once, and every sample continues from it") {
  for (const std::string golden : {"llama3", "gemma4_text"}) {
    CAPTURE(golden);
    const model::Model model(test::golden_model(golden), model::FloatLayout::kRows);
    const model::ModelSource& source = model.source();
    const std::size_t size = source.spec().hidden_size;
    const std::vector<int> prefix = {5, 9, 2};
    const std::vector<int> ids = some_ids(kSamples * kLength);
    BlockRunner runner(source.spec(), kLength);
    runner.set_prefix(embedding_of(source), prefix);
    runner.embed(embedding_of(source), {ids, kLength});
    for (std::size_t layer = 0; layer < source.spec().layers.size(); ++layer) {
      runner.advance(source.block(layer), layer);
    }
    for (std::size_t sample = 0; sample < kSamples; ++sample) {
      std::vector<int> text = prefix;
      const std::span<const int> own = std::span(ids).subspan(sample * kLength, kLength);
      text.insert(text.end(), own.begin(), own.end());
      const std::vector<float> whole = run_whole(model, text);
      const std::span<const float> rows = std::span(runner.rows().hidden).subspan(sample * kLength * size);
      for (std::size_t i = 0; i < kLength * size; ++i) {
        REQUIRE(rows[i] == doctest::Approx(whole[prefix.size() * size + i]).epsilon(1e-4));
      }
    }
  }
}

TEST_CASE("an observer sees every sample once, shard by shard, whether the samples stay or advance") {
  const model::ModelSource source(test::golden_model("llama3"));
  const std::vector<int> ids = some_ids(kSamples * kLength);
  std::size_t checks = 0;
  BlockRunner runner(source.spec(), kLength, [&] { ++checks; });
  runner.embed(embedding_of(source), {ids, kLength});
  const std::vector<float> before = runner.rows().hidden;
  const model::BlockWeights block = source.block(0);
  for (const BlockRunner::Then then : {BlockRunner::Then::kStay, BlockRunner::Then::kAdvance}) {
    CountingObserver observer;
    checks = 0;
    runner.observe(block, 0, {.samples = kSamples}, then, {.record_inputs = true}, {&observer});
    CHECK(observer.samples == kSamples);
    CHECK(observer.rows == before.size());
    CHECK(observer.inputs > 0);
    CHECK(observer.firsts == std::vector<std::size_t>{0, 1, 2});  // no batch reaches over the end of a shard
    std::vector<std::size_t> shards(jobs::kShards);
    std::iota(shards.begin(), shards.end(), std::size_t{0});
    CHECK(observer.shards == shards);
    CHECK(checks == kSamples);
    CHECK((runner.rows().hidden == before) == (then == BlockRunner::Then::kStay));
  }
}

TEST_CASE("an accumulator that is created late has also ended the earlier shards") {
  struct Shards {
    std::vector<std::size_t> ended;
    void end_shard(std::size_t shard) { ended.push_back(shard); }
  };
  InputAccumulators<Shards> inputs;
  inputs.at(0, [] { return Shards{}; });
  inputs.end_shard(0);
  inputs.at(1, [] { return Shards{}; });
  inputs.end_shard(1);
  for (const Shards& input : inputs) CHECK(input.ended == std::vector<std::size_t>{0, 1});
}

}  // namespace
}  // namespace ballast::samples
