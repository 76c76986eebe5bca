#include "serve/scheduler/state_identity.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <system_error>
#include <vector>

#include "ballast/error.h"
#include "ballast/processor.h"
#include "files/content_hash.h"
#include "files/private_file.h"
#include "jobs/job_key.h"
#include "model/mixer/state_file.h"

namespace ballast::serve {
namespace {

namespace fs = std::filesystem;

/// Returns a hash of a small file, or of samples of a large one, at equal distances, its beginning and end included.
std::string content_samples(const files::InputFile& file) {
  constexpr std::uint64_t kSampleBytes = 4096;
  constexpr std::uint64_t kSamples = 256;  // 1 MB: some milliseconds
  std::vector<std::byte> content(std::min(file.size(), kSamples * kSampleBytes));
  if (content.size() == file.size()) {
    const std::span<std::byte> whole(content);
    file.read_at(0, {&whole, 1});
  } else {
    for (std::uint64_t i = 0; i < kSamples; ++i) {
      const std::span<std::byte> sample = std::span(content).subspan(i * kSampleBytes, kSampleBytes);
      file.read_at((file.size() - kSampleBytes) / (kSamples - 1) * i, {&sample, 1});
    }
  }
  return files::content_digits(content);
}

void add_model_file(const fs::path& path, jobs::JobKey& key) {
  const std::optional<files::InputFile> file = files::InputFile::open(fs::canonical(path));  // may be a link
  if (!file) throw FileError(path.string(), "was removed");
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) throw FileError(path.string(), "was removed");
  key.add("file", path.filename().string()).add("size", file->size());
  key.add("changed", std::to_string(status.st_mtim.tv_sec) + "." + std::to_string(status.st_mtim.tv_nsec));
  key.add("content", content_samples(*file));
}

/// Returns the file, or the files of a directory, sorted.
std::vector<fs::path> files_of_model(const fs::path& model) {
  if (!fs::is_directory(model)) return {model};
  std::vector<fs::path> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(model)) {
    if (entry.is_regular_file()) found.push_back(entry.path());
  }
  std::ranges::sort(found);
  return found;
}

}  // namespace

std::string state_identity(const engine::LoadedModel& loaded, const model::SequenceState& root) {
  const model::ModelSource& source = loaded.model.source();
  jobs::JobKey key(source.compute());
  key.add("states", model::kStateFileVersion).add("instructions", simd_target());
  key.add("activations", static_cast<std::uint64_t>(source.code_activations()));
  key.add("context", loaded.model.context_length());  // a longer one may have another rotation
  key.add("cache", static_cast<std::uint64_t>(root.cache().type()));
  key.add("page", root.cache().page_bytes()).add("mixers", root.mixer_bytes()).add("prefix", root.position());
  try {
    for (const fs::path& path : source.paths()) {
      for (const fs::path& file : files_of_model(path)) add_model_file(file, key);
    }
  } catch (const fs::filesystem_error& error) {
    throw FileError(loaded.path.string(), "cannot be read: " + error.code().message());
  }
  return key.digest();
}

}  // namespace ballast::serve
