// Parts of states come back from files with the same bits, and damaged files are refused.
#include "model/mixer/state_file.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ballast/error.h"
#include "error_message.h"
#include "files/content_hash.h"
#include "files/private_file.h"
#include "kernels/attention/key_value_pages.h"
#include "model/model.h"
#include "model/source/prefix.h"
#include "model/source/written_spec.h"
#include "temporary_directory.h"
#include "tiny_model.h"

namespace ballast::model {
namespace {

using kernels::kPageTokens;
using test::Contains;
using test::error_message;
namespace fs = std::filesystem;

constexpr std::size_t kStateContext = 512;
constexpr StateKey kSomeKey = {std::byte{1}, std::byte{2}, std::byte{3}};

/// Writes a golden model with a context of several pages.
fs::path long_golden_model(const fs::path& directory, const std::string& name) {
  test::TinyModel model = test::read_model(test::golden_model(name));
  model.config["max_position_embeddings"] = kStateContext;
  model.config.erase("rope_scaling");
  return model.write(directory);
}

std::vector<int> numbered_ids(std::size_t count) {
  std::vector<int> ids;
  for (std::size_t i = 0; i < count; ++i) ids.push_back(static_cast<int>(i * 7 % 17));
  return ids;
}

/// Runs tokens and returns the logits of the last one.
std::vector<float> run_ids(const Model& model, std::span<const int> ids, SequenceState& state) {
  Workspace workspace;
  std::vector<float> logits(model.spec().vocab_size);
  const SequenceTokens sequence = {.tokens = ids, .state = &state, .wanted = 1};
  model.run({&sequence, 1}, logits.data(), workspace);
  return logits;
}

void write_part(const fs::path& path, StatePart part, const StateKey& key = kSomeKey) {
  const StateFile file(key, std::move(part));
  files::write_private_file(path, path.string() + ".partial", file.parts(), 1);
  CHECK(fs::file_size(path) == file.size());
}

StatePart read_part_of(const fs::path& path, const SequenceState& like, const StatePartKind& kind,
                       const StateKey& key = kSomeKey) {
  const std::optional<files::InputFile> file = files::InputFile::open(path);
  REQUIRE(file.has_value());
  return read_state_file(*file, key, like, kind);
}

/// Stores all pages of a state, and its mixers, and returns a state that was read from these files.
SequenceState through_files(const Model& model, const CacheOptions& options, const SequenceState& state,
                            const fs::path& folder) {
  SequenceState copy = model.make_state(options, kStateContext);
  const bool has_pages = state.cache().page_bytes() > 0;
  const std::size_t prefix = state.position() - state.length();
  for (std::size_t page = prefix / kPageTokens; page < kernels::pages_for(state.position()); ++page) {
    const std::size_t length = std::min((page + 1) * kPageTokens, state.position()) - prefix;
    StatePart part;
    if (has_pages) {
      write_part(folder / "page", {.page = state.cache().share_page(page), .mixers = {}});
      part = read_part_of(folder / "page", copy, {.page = true, .mixers = false});
    }
    copy.adopt(page, std::move(part.page), length);
  }
  if (!state.has_no_recurrent_state()) {
    write_part(folder / "end", {.page = {}, .mixers = state.mixers()});
    copy.set_mixers(*read_part_of(folder / "end", copy, {.page = false, .mixers = true}).mixers);
  }
  return copy;
}

TEST_CASE("a text continues with the same bits from files, for every type of cache and kind of mixer") {
  const std::vector<int> ids = numbered_ids(300);
  for (const char* name : {"llama3", "qwen2", "gemma3_text", "deepseek_v3", "qwen3_next", "lfm2", "falcon_h1",
                           "nemotron_h", "gemma4_text"}) {
    const test::TemporaryDirectory folder;
    const Model model(long_golden_model(folder / "model", name));
    for (const CacheOptions::Type type :
         {CacheOptions::Type::kF32, CacheOptions::Type::kF16, CacheOptions::Type::kInt8}) {
      CAPTURE(name);
      CAPTURE(static_cast<int>(type));
      const CacheOptions options = {.type = type};
      SequenceState state = model.make_state(options, kStateContext);
      run_ids(model, ids, state);
      SequenceState copy = through_files(model, options, state, folder.path());
      CHECK(copy.length() == ids.size());
      if (type == CacheOptions::Type::kInt8) {
        for (std::size_t layer = 0; layer < model.spec().layers.size(); ++layer) {
          if (cache_layer(model.spec(), layer) != layer || model.spec().layers[layer].attention() == nullptr) continue;
          CHECK(copy.cache().fp16_tokens(layer) == state.cache().fp16_tokens(layer));
        }
      }
      for (const int next : {3, 5, 8}) {
        CHECK(run_ids(model, std::vector<int>{next}, copy) == run_ids(model, std::vector<int>{next}, state));
      }
    }
  }
}

TEST_CASE("the files of a model with a prefix have the page in which the prefix ends") {
  const test::TemporaryDirectory folder;
  test::TinyModel tiny = test::random_model();
  tiny.config["max_position_embeddings"] = kStateContext;
  tiny.config["ballast"] = written_spec(ModelSpec{});
  tiny.config["ballast"][kPrefixTokensField] = {7, 261, 3};
  const Model model(tiny.write(folder / "model"));
  const CacheOptions options = {.type = CacheOptions::Type::kInt8};
  SequenceState state = model.make_state(options, kStateContext - 3);
  run_ids(model, numbered_ids(200), state);
  SequenceState copy = model.make_state(options, kStateContext - 3);
  for (std::size_t page = 0; page < 2; ++page) {
    write_part(folder / "page", {.page = state.cache().share_page(page), .mixers = {}});
    copy.adopt(page, read_part_of(folder / "page", copy, {}).page, page == 0 ? kPageTokens - 3 : 200);
  }
  CHECK(run_ids(model, std::vector<int>{4}, copy) == run_ids(model, std::vector<int>{4}, state));
  copy.truncate(0);  // the prefix is still there
  SequenceState fresh = model.make_state(options, kStateContext - 3);
  CHECK(run_ids(model, numbered_ids(9), copy) == run_ids(model, numbered_ids(9), fresh));
}

/// A file with a page and mixers, and what it is read for.
struct WrittenState {
  explicit WrittenState(const fs::path& folder)
      : model(long_golden_model(folder / "model", "qwen3_next")),
        state(model.make_state({.type = CacheOptions::Type::kInt8}, kStateContext)),
        path(folder / "part") {
    run_ids(model, numbered_ids(100), state);
    write_part(path, {.page = state.cache().share_page(0), .mixers = state.mixers()});
    bytes = test::read_file(path);
  }

  /// Returns the error of reading the file with these bytes.
  std::string error_of(const std::string& content, const StatePartKind& kind = {.page = true, .mixers = true}) const {
    test::write_file(path, content);
    return error_message([&] { read_part_of(path, state, kind); });
  }

  Model model;
  SequenceState state;
  fs::path path;
  std::string bytes;
};

TEST_CASE("a file with any changed byte is refused") {
  const test::TemporaryDirectory folder;
  const WrittenState written(folder.path());
  CHECK(written.error_of(written.bytes) == "no error");
  REQUIRE(written.bytes.size() > 2000);
  for (std::size_t i = 0; i < written.bytes.size(); i += i < 200 ? 1 : 97) {
    CAPTURE(i);
    std::string changed = written.bytes;
    changed[i] = static_cast<char>(changed[i] ^ (1 << i % 8));
    CHECK(written.error_of(changed) == Contains(written.path.string()));
  }
}

TEST_CASE("a file that is shorter or longer is refused") {
  const test::TemporaryDirectory folder;
  const WrittenState written(folder.path());
  for (std::size_t size = 0; size < written.bytes.size(); size += size < 200 ? 1 : 97) {
    CAPTURE(size);
    CHECK(written.error_of(written.bytes.substr(0, size)) == Contains(written.path.string()));
  }
  CHECK(written.error_of(written.bytes.substr(0, written.bytes.size() - 1)) == Contains("a part is missing"));
  CHECK(written.error_of(written.bytes + "x") == Contains("a part is missing"));
}

TEST_CASE("a file of another text, another version, another layout or another kind is refused with the reason") {
  const test::TemporaryDirectory folder;
  const WrittenState written(folder.path());
  const StatePartKind both = {.page = true, .mixers = true};
  CHECK(error_message([&] { read_part_of(written.path, written.state, both, StateKey{}); }) ==
        Contains("the state of another text"));
  CHECK(written.error_of(std::string(written.bytes).replace(0, 1, "B")) == Contains("is not a file of the cache"));
  CHECK(written.error_of(std::string(written.bytes).replace(8, 1, "\7")) ==
        Contains("has version 7 of the format, this program reads version 1"));
  CHECK(written.error_of(written.bytes, {.page = true, .mixers = false}) == Contains("a part is missing"));
  CHECK(written.error_of(written.bytes, {.page = false, .mixers = true}) == Contains("pages of another layout"));
  for (const CacheOptions::Type type : {CacheOptions::Type::kF32, CacheOptions::Type::kF16}) {
    const SequenceState other = written.model.make_state({.type = type}, kStateContext);
    CHECK(error_message([&] { read_part_of(written.path, other, both); }) != "no error");
  }
}

TEST_CASE("a file with a valid hash is refused if a slot refers to a row that the file does not have") {
  const test::TemporaryDirectory folder;
  const WrittenState written(folder.path());
  const kernels::PageLayout& layout = *written.state.cache().view(1, 0).layout;
  for (const int number : {40, 127, -2, -128}) {
    CAPTURE(number);
    const std::vector<StoredPage> shared = written.state.cache().share_page(0);
    std::vector<std::uint32_t> sizes;
    for (const StoredPage& page : shared) sizes.push_back(static_cast<std::uint32_t>(page.fp16_bytes));
    std::vector<StoredPage> page = written.state.cache().make_page(sizes);
    for (std::size_t i = 0; i < page.size(); ++i) {
      std::memcpy(page[i].data.data(), shared[i].data.data(), shared[i].data.bytes());
      if (sizes[i] > 0) std::memcpy(page[i].fp16_rows.data(), shared[i].fp16_rows.data(), sizes[i]);
    }
    page.back().data.data()[layout.fp16_numbers_at() + 9] = static_cast<std::byte>(number);
    write_part(written.path, {.page = std::move(page), .mixers = written.state.mixers()});
    CHECK(error_message([&] { read_part_of(written.path, written.state, {.page = true, .mixers = true}); }) ==
          Contains("F16 rows that it does not have"));
  }
}

TEST_CASE("pages in files are not changed by a sequence that continues") {
  const test::TemporaryDirectory folder;
  const Model model(long_golden_model(folder / "model", "llama3"));
  SequenceState state = model.make_state({.type = CacheOptions::Type::kInt8}, kStateContext);
  run_ids(model, numbered_ids(100), state);
  const std::vector<StoredPage> page = state.cache().share_page(0);
  const auto contents = [&] {
    std::string all;
    for (const StoredPage& layer : page) {
      all.append(reinterpret_cast<const char*>(layer.data.data()), layer.data.bytes());
      if (layer.fp16_bytes > 0) all.append(reinterpret_cast<const char*>(layer.fp16_rows.data()), layer.fp16_bytes);
    }
    return all;
  };
  const std::string before = contents();
  run_ids(model, numbered_ids(200), state);
  CHECK(contents() == before);
}

}  // namespace
}  // namespace ballast::model
