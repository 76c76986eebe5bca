#include "jobs/job_state.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <system_error>
#include <utility>

#include "ballast/error.h"
#include "files/content_hash.h"
#include "files/output_file.h"

namespace ballast::jobs {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kKeyFile = "key";
constexpr std::string_view kBlobSuffix = ".blob";
constexpr std::string_view kPartialSuffix = ".partial";

struct BlobHeader {
  std::array<char, 8> magic{'B', 'A', 'L', 'B', 'L', 'O', 'B', '1'};
  std::uint64_t checksum = 0;
};

// Reads from `position` to the end.
std::optional<std::string> read_rest(std::ifstream& file, const fs::path& path, std::size_t position) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path, error);
  if (!file || error || size < position) return std::nullopt;
  std::string bytes(size - position, '\0');
  file.seekg(static_cast<std::streamoff>(position));
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file) return std::nullopt;
  return bytes;
}

/// Returns whether the text is a suffix that folder_of adds for several ranks.
bool is_rank_suffix(std::string_view text) {
  const auto skip_number = [&] {
    const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    text.remove_prefix(digits);
    return digits > 0;
  };
  const auto skip = [&](std::string_view word) {
    const bool found = text.starts_with(word);
    if (found) text.remove_prefix(word.size());
    return found;
  };
  return skip("-") && skip_number() && skip("-of-") && skip_number() && text.empty();
}

}  // namespace

fs::path JobState::folder_beside(const fs::path& output) {
  fs::path normal = output.lexically_normal();
  if (!normal.has_filename()) normal = normal.parent_path();
  return normal.parent_path() / ("." + normal.filename().string() + ".resume");
}

fs::path JobState::folder_of(const fs::path& folder, const Ranks& ranks) {
  if (ranks.size() == 1) return folder;
  return folder.string() + "-" + std::to_string(ranks.rank() + 1) + "-of-" + std::to_string(ranks.size());
}

JobState::JobState(fs::path folder, const JobKey& key, std::function<Time()> now)
    : folder_(std::move(folder)), digest_(key.digest()), now_(std::move(now)) {
  open();
}

JobState::~JobState() {
  if (lock_ < 0) return;
  if (names().empty()) remove();
  if (lock_ >= 0) ::close(lock_);
}

void JobState::open() {
  std::error_code error;
  fs::create_directory(folder_, error);
  const fs::path key = folder_ / kKeyFile;
  lock_ = error ? -1 : ::open(key.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (lock_ < 0) {
    give_up("cannot be created: " + (error ? error.message() : std::generic_category().message(errno)));
    return;
  }
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(std::exchange(lock_, -1));
    throw FileError(folder_.string(),
                    "another ballast is at work on the same output; wait for it or name another output");
  }
  std::ifstream present(key, std::ios::binary);
  if (read_rest(present, key, 0) == digest_) return;
  empty(folder_);
  const bool written = ::ftruncate(lock_, 0) == 0 &&
                       ::pwrite(lock_, digest_.data(), digest_.size(), 0) == static_cast<ssize_t>(digest_.size());
  if (!written) give_up("cannot be written: " + std::generic_category().message(errno));
}

fs::path JobState::path_of(std::string_view name) const {
  return folder_ / (std::string(name) + std::string(kBlobSuffix));
}

std::optional<std::string> JobState::get(std::string_view name) const {
  if (!problem_.empty()) return std::nullopt;
  const fs::path path = path_of(name);
  std::ifstream file(path, std::ios::binary);
  const BlobHeader expected;
  BlobHeader header;
  file.read(reinterpret_cast<char*>(&header), sizeof header);
  std::optional<std::string> bytes = read_rest(file, path, sizeof header);
  if (!bytes || header.magic != expected.magic) return std::nullopt;
  if (header.checksum != files::content_hash({std::as_bytes(std::span(*bytes))})) return std::nullopt;
  return bytes;
}

std::vector<std::string> JobState::names() const {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_, ignored)) {
    const fs::path& path = entry.path();
    if (path.extension() == kBlobSuffix) names.push_back(path.stem().string());
  }
  std::ranges::sort(names);
  return names;
}

bool JobState::put(std::string_view name, std::span<const std::span<const std::byte>> parts) {
  if (!problem_.empty()) return false;
  const fs::path path = path_of(name);
  const fs::path partial = path.string() + std::string(kPartialSuffix);
  try {
    fs::remove(partial);
    // The file is not synced: the data of a killed process is still written, and the checksum detects damage by a crash
    // of the machine.
    files::OutputFile file(partial);
    BlobHeader header;
    header.checksum = files::content_hash(parts);
    file.write_at(0, std::as_bytes(std::span(&header, 1)));
    std::uint64_t position = sizeof header;
    for (const auto part : parts) {
      file.write_at(position, part);
      position += part.size();
    }
    fs::rename(partial, path);
  } catch (const std::exception& error) {
    give_up(error.what());
    return false;
  }
  return true;
}

bool JobState::put(std::string_view name, std::string_view bytes) {
  return put(name, {std::as_bytes(std::span(bytes))});
}

void JobState::erase(std::string_view name) {
  std::error_code ignored;
  fs::remove(path_of(name), ignored);
}

bool JobState::worth_saving() const {
  return problem_.empty() && (!last_saved_ || now_() - *last_saved_ >= 10 * saving_);
}

void JobState::empty(const fs::path& folder) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    const fs::path& path = entry.path();
    if (path.extension() == kBlobSuffix || path.extension() == kPartialSuffix) fs::remove(path, ignored);
  }
}

// Files of others in the folder are kept, and then the folder, too.
void JobState::remove() {
  if (lock_ < 0) return;
  remove_files(folder_);
  ::close(std::exchange(lock_, -1));
  problem_ = "is removed";
}

void JobState::remove_folders(const fs::path& folder) {
  remove_folder(folder);
  const std::string name = folder.filename().string();
  std::vector<fs::path> of_ranks;
  std::error_code ignored;
  const fs::path parent = folder.has_parent_path() ? folder.parent_path() : fs::path(".");
  for (fs::directory_iterator entry(parent, ignored); entry != fs::directory_iterator(); entry.increment(ignored)) {
    const std::string other = entry->path().filename().string();
    if (other.starts_with(name) && is_rank_suffix(std::string_view(other).substr(name.size()))) {
      of_ranks.push_back(entry->path());
    }
  }
  for (const fs::path& of_rank : of_ranks) remove_folder(of_rank);
}

void JobState::remove_folder(const fs::path& folder) {
  const int lock = ::open((folder / kKeyFile).c_str(), O_RDWR | O_CLOEXEC);
  const bool in_use = lock >= 0 && ::flock(lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (!in_use) remove_files(folder);
  if (lock >= 0) ::close(lock);
}

void JobState::remove_files(const fs::path& folder) {
  empty(folder);
  std::error_code ignored;
  fs::remove(folder / kKeyFile, ignored);
  fs::remove(folder, ignored);
}

void JobState::give_up(const std::string& problem) {
  remove();
  problem_ = folder_.string() + ": " + problem + "; continuing, but a killed job will start over";
}

}  // namespace ballast::jobs
