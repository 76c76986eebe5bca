// Texts continue from files with the same bits as without.
#include "serve/scheduler/disk_cache.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ballast/error.h"
#include "engine/engine.h"
#include "engine/sequence.h"
#include "error_message.h"
#include "model/model.h"
#include "model/source/prefix.h"
#include "model/source/written_spec.h"
#include "serve/scheduler/prefix_cache.h"
#include "temporary_directory.h"
#include "tiny_model.h"

namespace ballast::serve {
namespace {

using test::Contains;
using test::error_message;
namespace fs = std::filesystem;

using Tokens = std::vector<int>;

constexpr std::size_t kDiskContext = 512;

fs::path disk_model(const fs::path& directory, const std::string& name) {
  test::TinyModel model = test::read_model(test::golden_model(name));
  model.config["max_position_embeddings"] = kDiskContext;
  model.config.erase("rope_scaling");
  return model.write(directory);
}

Tokens text_of(std::size_t count, int step = 7) {
  Tokens tokens;
  for (std::size_t i = 0; i < count; ++i) tokens.push_back(static_cast<int>(i) * step % 17);
  return tokens;
}

/// A model, the prefix caches in memory and on disk, and what a scheduler does with them. Each object is a server.
class DiskServer {
 public:
  DiskServer(const fs::path& model, const fs::path& cache, std::uint64_t budget = 1 << 30,
             const CacheOptions& options = {}, const std::string& identity = "identity",
             std::uint64_t most_waiting = 1 << 30)
      : model_(model),
        engine_(model_),
        root_(model_.make_state(options, kDiskContext - 3)),
        directory_(std::make_shared<CacheDirectory>(cache, budget)),
        disk_(directory_, [this](const std::string& line) {
          const std::lock_guard lock(mutex_);
          lines_.push_back(line);
        }) {
    disk_.attach(identity, root_, most_waiting);
  }

  /// Runs a text as the scheduler does, and returns the logits of its last token.
  std::vector<float> run(const Tokens& tokens, const std::string& salt = "") {
    while (disk_.bring_back(tokens, salt, memory_)) disk_.wait();
    const PrefixCache::Match match = memory_.find(tokens, salt);
    cached_ = match.length;
    model::SequenceState state = match.state == nullptr ? root_ : *match.state;
    if (match.state != nullptr) state.truncate(match.length);
    engine::Sequence sequence(std::move(state), Tokens(tokens.begin(), tokens.begin() + static_cast<long>(cached_)));
    sequence.append(std::span(tokens).subspan(cached_));
    engine_.step(sequence);
    memory_.insert(tokens, salt, sequence.state());
    all_queued_ = disk_.save(tokens, salt, sequence.state());
    return {sequence.logits().begin(), sequence.logits().end()};
  }

  std::size_t cached() const { return cached_; }  ///< tokens of the last text that were not run
  bool all_queued() const { return all_queued_; }
  DiskCache& disk() { return disk_; }
  CacheDirectory& directory() { return *directory_; }
  const model::SequenceState& root() const { return root_; }

  std::vector<std::string> lines() {
    disk_.flush();
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  model::Model model_;
  engine::Engine engine_;
  model::SequenceState root_;
  std::mutex mutex_;
  std::vector<std::string> lines_;
  std::shared_ptr<CacheDirectory> directory_;
  PrefixCache memory_;
  DiskCache disk_;
  std::size_t cached_ = 0;
  bool all_queued_ = false;
};

/// Returns the logits of a text without any cache.
std::vector<float> run_uncached(const fs::path& model, const Tokens& tokens, const CacheOptions& options = {}) {
  const test::TemporaryDirectory folder;
  return DiskServer(model, folder.path(), 1 << 30, options).run(tokens);
}

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

TEST_CASE("after a restart a text comes back by pages with the same bits, for every type of cache") {
  for (const char* name : {"llama3", "deepseek_v3", "gemma3_text"}) {
    const test::TemporaryDirectory folder;
    const fs::path model = disk_model(folder / "model", name);
    for (const CacheOptions::Type type :
         {CacheOptions::Type::kF32, CacheOptions::Type::kF16, CacheOptions::Type::kInt8}) {
      CAPTURE(name);
      CAPTURE(static_cast<int>(type));
      const CacheOptions options = {.type = type};
      const fs::path cache = folder / std::to_string(static_cast<int>(type));
      {
        DiskServer server(model, cache, 1 << 30, options);
        server.run(text_of(300));
        CHECK(server.lines().empty());
        CHECK(server.disk().stats().files == 2);
      }
      Tokens longer = text_of(320);
      DiskServer server(model, cache, 1 << 30, options);
      CHECK(server.run(longer) == run_uncached(model, longer, options));
      CHECK(server.cached() == 256);
      CHECK(server.disk().stats().hits == 256);
      // Now the memory has it.
      server.run(longer);
      CHECK(server.cached() == 319);
      CHECK(server.disk().stats().hits == 256);
      // A text that differs in the second page has the first one.
      longer[200] = 1;
      DiskServer third(model, cache, 1 << 30, options);
      CHECK(third.run(longer) == run_uncached(model, longer, options));
      CHECK(third.cached() == 128);
      // The memory's page is shared, and only the others are read.
      Tokens text = text_of(300);
      const std::uint64_t before = third.disk().stats().read_bytes;
      CHECK(third.run(text) == run_uncached(model, text, options));
      CHECK(third.cached() == 256);
      CHECK(third.disk().stats().read_bytes < before * 3 / 2 + before);
      CHECK(third.lines().empty());
    }
  }
}

TEST_CASE("a hybrid's text comes back where it ended, with the same bits") {
  for (const char* name : {"qwen3_next", "lfm2", "falcon_h1", "nemotron_h", "granitemoehybrid"}) {
    CAPTURE(name);
    const test::TemporaryDirectory folder;
    const fs::path model = disk_model(folder / "model", name);
    for (const std::size_t length : {30, 256, 300}) {
      CAPTURE(length);
      const fs::path cache = folder / std::to_string(length);
      {
        DiskServer server(model, cache);
        server.run(text_of(length));
        server.run(text_of(length + 4));
        CHECK(server.lines().empty());
      }
      DiskServer server(model, cache);
      const Tokens longer = text_of(length + 9);
      CHECK(server.run(longer) == run_uncached(model, longer));
      CHECK(server.cached() == length + 4);
      // The last token is always run, so the end must be before it.
      DiskServer second(model, cache);
      CHECK(second.run(text_of(length + 4)) == run_uncached(model, text_of(length + 4)));
      CHECK(second.cached() == length);
      Tokens other = longer;
      other[length - 1] += 1;
      DiskServer third(model, cache);
      CHECK(third.run(other) == run_uncached(model, other));
      CHECK(third.cached() == 0);
      CHECK(third.lines().empty());
    }
  }
}

TEST_CASE("a model with its own prefix gets its texts back") {
  const test::TemporaryDirectory folder;
  test::TinyModel tiny = test::random_model();
  tiny.config["max_position_embeddings"] = kDiskContext;
  tiny.config["ballast"] = model::written_spec(ModelSpec{});
  for (const std::size_t count : {3, 130}) {
    CAPTURE(count);
    tiny.config["ballast"][model::kPrefixTokensField] = text_of(count, 5);
    const fs::path model = tiny.write(folder / "model");
    const fs::path cache = folder / std::to_string(count);
    DiskServer(model, cache).run(text_of(10));  // no page is full
    CHECK(fs::is_empty(cache));
    {
      DiskServer server(model, cache);
      server.run(text_of(300));
      server.disk().flush();
    }
    DiskServer server(model, cache);
    CHECK(server.run(text_of(310)) == run_uncached(model, text_of(310)));
    CHECK(server.cached() == (count == 3 ? 2 * 128 - 3 : 3 * 128 - 130));
  }
}

TEST_CASE("texts of another salt, and those of another model, are not found") {
  const test::TemporaryDirectory folder;
  const fs::path model = disk_model(folder / "model", "llama3");
  {
    DiskServer server(model, folder / "cache");
    server.run(text_of(300), "mine");
    server.disk().flush();
  }
  const auto cached = [&](const std::string& salt, const std::string& identity) {
    DiskServer server(model, folder / "cache", 1 << 30, {}, identity);
    server.run(text_of(300), salt);
    CHECK(server.lines().empty());
    return server.cached();
  };
  CHECK(cached("yours", "identity") == 0);
  CHECK(cached("", "identity") == 0);
  CHECK(cached("mine", "another identity") == 0);
  CHECK(cached("mine", "identity") == 256);
}

TEST_CASE("texts that begin alike share files") {
  const test::TemporaryDirectory folder;
  const fs::path model = disk_model(folder / "model", "llama3");
  DiskServer server(model, folder / "cache");
  for (int i = 0; i < 5; ++i) {
    Tokens text = text_of(300);
    text[290] = i;
    server.run(text);
  }
  server.disk().flush();
  CHECK(files_in(folder / "cache").size() == 2);
}

TEST_CASE("a damaged file is removed with one line, and the text is read up to it") {
  const test::TemporaryDirectory folder;
  const fs::path model = disk_model(folder / "model", "llama3");
  const std::vector<float> expected = run_uncached(model, text_of(400));
  const auto fill = [&](const fs::path& cache) {
    DiskServer server(model, cache);
    server.run(text_of(390));
    server.disk().flush();
    REQUIRE(files_in(cache).size() == 3);
  };
  const auto check = [&](const fs::path& cache, std::size_t most_lines) {
    {
      DiskServer server(model, cache);
      CHECK(server.run(text_of(400)) == expected);
      CHECK(server.cached() <= 256);
      CHECK(server.cached() % 128 == 0);
      const std::vector<std::string> lines = server.lines();
      CHECK(lines.size() == most_lines);
      for (const std::string& line : lines) CHECK(line == Contains(cache.string()));
      CHECK(server.disk().stats().unreadable == most_lines);
    }
    // It was written again.
    DiskServer server(model, cache);
    CHECK(server.run(text_of(400)) == expected);
    CHECK(server.cached() == 384);
    CHECK(server.lines().empty());
  };
  for (std::size_t i = 0; i < 3; ++i) {
    CAPTURE(i);
    const fs::path cache = folder / ("cache" + std::to_string(i));
    fill(cache);
    const fs::path file = files_in(cache)[i];
    const std::string content = test::read_file(file);
    test::write_file(file, content.substr(0, content.size() / 2));
    check(cache, 1);
    test::write_file(file, "");
    check(cache, 1);
    std::string changed = content;
    changed[changed.size() - 200] = static_cast<char>(changed[changed.size() - 200] ^ 4);
    test::write_file(file, changed);
    check(cache, 1);
    test::write_file(file, test::read_file(files_in(cache)[(i + 1) % 3]));
    check(cache, 1);
    fs::remove(file);
    check(cache, 0);
    fs::remove(file);
    fs::create_directory(file);  // a directory has no place in the index
    {
      DiskServer server(model, cache);
      CHECK(server.run(text_of(400)) == expected);
    }
    fs::remove(file);
    fill(cache);
    {
      // A file that the system cannot read is not removed.
      DiskServer server(model, cache);
      fs::rename(file, folder / "aside");
      fs::create_directory(file);
      CHECK(server.run(text_of(400)) == expected);
      CHECK(fs::is_directory(file));
      REQUIRE(!server.lines().empty());
      CHECK(server.lines()[0] == Contains("is not a regular file, and the model reads the text"));
    }
  }
}

TEST_CASE("the directory stays below its budget, and keeps the beginnings of texts") {
  const test::TemporaryDirectory folder;
  const fs::path model = disk_model(folder / "model", "llama3");
  std::uint64_t file = 0;
  {
    DiskServer server(model, folder / "size");
    server.run(text_of(130));
    server.disk().flush();
    file = server.directory().bytes();
  }
  const auto sum = [&] {
    std::uint64_t bytes = 0;
    for (const fs::path& path : files_in(folder / "cache")) bytes += fs::file_size(path);
    return bytes;
  };
  {
    DiskServer server(model, folder / "cache", 4 * file + file / 2);
    for (int step = 2; step < 12; ++step) {
      server.run(text_of(300, step));
      server.disk().flush();
      CHECK(sum() <= 4 * file + file / 2);
    }
    CHECK(server.lines().empty());
    CHECK(server.directory().files() == 4);
  }
  {
    DiskServer server(model, folder / "cache", 4 * file + file / 2);
    server.run(text_of(300, 11));
    CHECK(server.cached() == 256);
    server.run(text_of(300, 5));
    CHECK(server.cached() < 128);
  }
  {
    // A text that is larger than the budget.
    DiskServer server(model, folder / "cache", 2 * file + file / 2);
    server.run(text_of(500, 13));
    server.disk().flush();
    CHECK(sum() <= 2 * file + file / 2);
  }
  DiskServer server(model, folder / "cache", 2 * file + file / 2);
  server.run(text_of(500, 13));
  CHECK(server.cached() == 256);
  CHECK(error_message([&] { DiskServer(model, folder / "cache", file / 2); }) == Contains("hold no text"));
}

TEST_CASE("a full disk ends writing with one line, and texts are still read") {
  const test::TemporaryDirectory folder;
  const fs::path model = disk_model(folder / "model", "llama3");
  {
    DiskServer server(model, folder / "cache");
    server.run(text_of(300));
    server.disk().flush();
  }
  DiskServer server(model, folder / "cache");
  // A limit of the size of files is reported as a full disk is.
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &limit) == 0);
  rlimit small = limit;
  small.rlim_cur = 1000;
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &small);
  const std::vector<float> other = server.run(text_of(300, 3));
  const std::vector<float> another = server.run(text_of(400, 5));
  server.disk().flush();
  ::setrlimit(RLIMIT_FSIZE, &limit);
  ::signal(SIGXFSZ, handler);
  CHECK(other == run_uncached(model, text_of(300, 3)));
  CHECK(another == run_uncached(model, text_of(400, 5)));
  CHECK(server.run(text_of(300)) == run_uncached(model, text_of(300)));
  CHECK(server.cached() == 256);
  REQUIRE(server.lines().size() == 1);
  CHECK(server.lines()[0] == Contains("disk full"));
  CHECK(server.lines()[0] == Contains("nothing more is written"));
  CHECK(files_in(folder / "cache").size() == 2);
}

TEST_CASE("as many parts as may wait are queued, and the rest of the text when it is saved again") {
  const test::TemporaryDirectory folder;
  const fs::path model = disk_model(folder / "model", "llama3");
  DiskServer server(model, folder / "cache", 1 << 30, {}, "identity", /*most_waiting=*/1);
  server.run(text_of(500));
  CHECK(!server.all_queued());
  for (int i = 0; i < 10 && !server.all_queued(); ++i) {
    server.disk().flush();
    server.run(text_of(500));
  }
  CHECK(server.all_queued());
  server.disk().flush();
  CHECK(files_in(folder / "cache").size() == 3);
}

TEST_CASE("what waits is dropped when memory is needed, and a text that was given up is not read again") {
  const test::TemporaryDirectory folder;
  const fs::path model = disk_model(folder / "model", "llama3");
  {
    DiskServer server(model, folder / "cache");
    server.run(text_of(500));
    server.disk().flush();
    CHECK(!server.disk().give_up());
  }
  DiskServer server(model, folder / "cache");
  PrefixCache memory;
  REQUIRE(server.disk().bring_back(text_of(500), "", memory));
  CHECK(server.disk().give_up());
  CHECK(server.disk().loading_bytes() == 0);
  CHECK(server.root().cache().pool().bytes_in_use() == 0);
  CHECK(!server.disk().give_up());
  CHECK(!server.disk().bring_back(text_of(500), "", memory));
  CHECK(server.disk().bring_back(text_of(300), "", memory));  // another text is
  while (server.disk().bring_back(text_of(300), "", memory)) server.disk().wait();
  CHECK(memory.length(text_of(300), "") == 256);
}

TEST_CASE("a text waits while another one is read only if it has a beginning on disk, too") {
  const test::TemporaryDirectory folder;
  const fs::path model = disk_model(folder / "model", "llama3");
  {
    DiskServer server(model, folder / "cache");
    server.run(text_of(500));
    server.run(text_of(500, 3));
    server.disk().flush();
  }
  DiskServer server(model, folder / "cache");
  PrefixCache memory;
  REQUIRE(server.disk().bring_back(text_of(500), "", memory));
  CHECK(!server.disk().bring_back(text_of(500, 11), "", memory));
  CHECK(server.disk().bring_back(text_of(500, 3), "", memory));
  while (server.disk().bring_back(text_of(500, 3), "", memory)) server.disk().wait();
  CHECK(memory.length(text_of(500, 3), "") == 384);
  while (server.disk().bring_back(text_of(500), "", memory)) server.disk().wait();
  CHECK(memory.length(text_of(500), "") == 384);
}

}  // namespace
}  // namespace ballast::serve
