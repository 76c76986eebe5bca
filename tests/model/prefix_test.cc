// A model with a prefix runs every text as if the prefix were its beginning.
#include "model/source/prefix.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <filesystem>
#include <vector>

#include "error_message.h"
#include "model/model.h"
#include "model/source/written_spec.h"
#include "model_runs.h"
#include "temporary_directory.h"
#include "tiny_model.h"

namespace ballast::model {
namespace {

using test::Contains;
using test::error_message;
namespace fs = std::filesystem;

const std::vector<int> kPrefix = {7, 261, 3};

std::vector<int> text_ids(std::size_t count) {
  std::vector<int> ids;
  for (std::size_t i = 0; i < count; ++i) ids.push_back(static_cast<int>(i * 23 % 250));
  return ids;
}

std::vector<int> behind_prefix(const std::vector<int>& ids) {
  std::vector<int> all = kPrefix;
  all.insert(all.end(), ids.begin(), ids.end());
  return all;
}

/// Writes a model like a conversion, with any value of the prefix field.
fs::path written_model(const fs::path& directory, const nlohmann::json& prefix) {
  test::TinyModel model = test::random_model();
  model.config["ballast"] = written_spec(ModelSpec{});
  model.config["ballast"][kPrefixTokensField] = prefix;
  return model.write(directory);
}

TEST_CASE("a text's logits equal those of the text with the prefix in front") {
  const test::TemporaryDirectory directory;
  Model plain(test::random_model().write(directory / "plain"));
  Model model(written_model(directory / "prefixed", kPrefix));
  const std::vector<int> ids = text_ids(20);
  const std::vector<float> all = test::run_at_once(plain, behind_prefix(ids));
  const std::vector<float> expected(all.begin() + static_cast<std::ptrdiff_t>(kPrefix.size() * plain.spec().vocab_size),
                                    all.end());
  CHECK(model.context_length() == plain.context_length() - kPrefix.size());
  for (const std::size_t piece : {1, 7, 20}) {
    CAPTURE(piece);
    CHECK(test::relative_error(test::run_in_pieces(model, ids, piece), expected) < 1e-5);
  }
}

TEST_CASE("a cache that is truncated to 0 tokens still holds the prefix") {
  const test::TemporaryDirectory directory;
  Model model(written_model(directory / "model", kPrefix));
  SequenceState state = model.make_exact_state(16);
  CHECK(state.length() == 0);
  CHECK(state.cache().capacity() == 16);
  CHECK(state.cache().room() == 16);
  const std::vector<float> first = test::run_tokens(model, text_ids(16), state);
  CHECK(state.length() == 16);
  CHECK(state.cache().room() == 0);
  state.truncate(0);
  CHECK(test::run_tokens(model, text_ids(16), state) == first);
}

TEST_CASE("an INT8 cache keeps the prefix in 16 bits") {
  const test::TemporaryDirectory directory;
  Model model(written_model(directory / "model", {1, 2, 3, 4, 5, 6}));
  SequenceState state = model.make_state({.type = CacheOptions::Type::kInt8}, 16);
  CHECK(state.cache().fp16_tokens(0) == 6);
  test::run_tokens(model, text_ids(16), state);
  CHECK(state.cache().fp16_tokens(0) == 6);
  state.truncate(0);
  CHECK(state.cache().fp16_tokens(1) == 6);
}

TEST_CASE("a rolling cache keeps the prefix as sinks") {
  const test::TemporaryDirectory directory;
  Model plain(test::random_model().write(directory / "plain"));
  Model model(written_model(directory / "prefixed", kPrefix));
  constexpr std::size_t kPiece = 4;
  SequenceState state = model.make_state({.type = CacheOptions::Type::kF32, .window = 8, .sinks = 1}, 0);
  SequenceState wanted =
      plain.make_state({.type = CacheOptions::Type::kF32, .window = 8, .sinks = kPrefix.size() + 1}, 0);
  test::run_tokens(plain, kPrefix, wanted);
  const std::vector<int> ids = text_ids(40);
  for (std::size_t begin = 0; begin < ids.size(); begin += kPiece) {
    CAPTURE(begin);
    const auto from = ids.begin() + static_cast<std::ptrdiff_t>(begin);
    const std::vector<int> piece(from, from + kPiece);
    CHECK(test::relative_error(test::run_tokens(model, piece, state), test::run_tokens(plain, piece, wanted)) < 1e-5);
  }
  CHECK(error_message([&] { model.make_state({.window = 61}, 0); }) == "no error");
  CHECK(error_message([&] { model.make_state({.window = 62}, 0); }) == Contains("context of 61"));
}

TEST_CASE("a damaged prefix in config.json is reported in one line") {
  const test::TemporaryDirectory directory;
  const auto refusal = [&](const nlohmann::json& prefix) {
    return error_message([&] { ModelSource(written_model(directory / "model", prefix)); });
  };
  CHECK(refusal(kPrefix) == "no error");
  CHECK(refusal("7,3") == Contains("prefix_tokens: must be a list"));
  CHECK(refusal(nlohmann::json::array()) == Contains("prefix_tokens: must be a list"));
  CHECK(refusal({3, -1}) == Contains("prefix_tokens[1]: must be between 0 and 2^31 - 1, is -1"));
  CHECK(refusal({3, 1.5}) == Contains("prefix_tokens[1]: must be a whole number, is 1.5"));
  CHECK(refusal({3, 264}) == Contains("config.json: the prefix holds token 264"));
  CHECK(refusal(std::vector<int>(63, 1)) == Contains("leaves no room for text"));
}

TEST_CASE("an encoder refuses a prefix") {
  ModelSpec spec;
  spec.vocab_size = spec.context_length = 64;
  spec.causal = false;
  CHECK(error_message([&] { check_prefix(spec, kPrefix, "m"); }) == Contains("m: is an encoder"));
}

}  // namespace
}  // namespace ballast::model
