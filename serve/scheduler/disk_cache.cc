#include "serve/scheduler/disk_cache.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cassert>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <exception>
#include <new>
#include <utility>

#include "ballast/error.h"
#include "files/text.h"
#include "kernels/attention/key_value_pages.h"

namespace ballast::serve {
namespace {

using kernels::kPageTokens;
using model::StateKey;

/// Hashes a word that says what the key is of, a number, and two contents; each has a known place.
StateKey state_key(std::string_view kind, std::span<const std::byte> first, std::span<const std::byte> second) {
  const std::uint64_t sizes[] = {kind.size(), first.size(), second.size()};
  std::vector<std::byte> all;
  const std::span<const std::byte> parts[] = {std::as_bytes(std::span(sizes)), std::as_bytes(std::span(kind)), first,
                                              second};
  for (const std::span<const std::byte> part : parts) all.insert(all.end(), part.begin(), part.end());
  StateKey key{};
  unsigned size = 0;
  if (EVP_Digest(all.data(), all.size(), reinterpret_cast<unsigned char*>(key.data()), &size, EVP_sha256(), nullptr) !=
          1 ||
      size != key.size()) {
    throw Error("cache directory", "OpenSSL has no SHA-256, which names its files");
  }
  return key;
}

StateKey state_key(std::string_view kind, const StateKey& before, std::span<const int> tokens) {
  return state_key(kind, before, std::as_bytes(tokens));
}

/// Returns the beginning of the names of ends after a page.
std::string ends_after(const StateKey& page) {
  return CacheDirectory::name_of(page) + "-";
}

/// Returns the name of the end of a text, `tokens` after a page, fewer than a page has.
std::string end_name(const StateKey& page, std::size_t tokens, const StateKey& end) {
  char digits[3];
  std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned>(tokens % 256));
  return ends_after(page) + digits + "-" + CacheDirectory::name_of(end);
}

/// Returns the number of tokens in such a name; nullopt if it has none.
std::optional<std::size_t> tokens_of_end(std::string_view name, std::string_view beginning) {
  unsigned tokens = 0;
  const char* const begin = name.data() + beginning.size();
  const auto [end, error] = std::from_chars(begin, name.data() + name.size(), tokens, 16);
  if (error != std::errc() || tokens >= kPageTokens) return std::nullopt;
  return tokens;
}

/// Runs an action of the thread that reads and writes. Without memory for the report of a failure there is none: what
/// was to be written is missing, and what was to be read is read by the model.
template <typename Action>
void without_exceptions(const Action& action) noexcept {
  try {
    action();
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): see above
  }
}

}  // namespace

DiskCache::DiskCache(std::shared_ptr<CacheDirectory> directory, Report report)
    : directory_(std::move(directory)), report_(std::move(report)), thread_([this] { work(); }) {}

DiskCache::~DiskCache() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    giving_up_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void DiskCache::attach(std::string_view identity, const model::SequenceState& root, std::uint64_t most_waiting) {
  assert(!root.cache().rolling() && root.length() == 0);
  root_.emplace(root);
  identity_ = state_key("model", {}, std::as_bytes(std::span(identity)));
  most_waiting_ = most_waiting;
  prefix_ = root.position();
  first_page_ = prefix_ / kPageTokens;
  has_pages_ = root.cache().page_bytes() > 0;
  has_ends_ = !root.has_no_recurrent_state();
  const std::uint64_t least = model::least_state_file_bytes(root, {.page = has_pages_, .mixers = has_ends_});
  if (directory_->budget() < least) {
    throw Error(directory_->path().string(), files::concat(directory_->budget(), " bytes (--cache-disk) hold no text: ",
                                                           least, " are the least for this model"));
  }
}

/// Returns the number of tokens of a text that has filled so many pages.
std::size_t DiskCache::length_at(std::size_t pages) const {
  return pages == 0 ? 0 : (first_page_ + pages) * kPageTokens - prefix_;
}

/// Returns the parts of all pages that the tokens fill.
std::vector<DiskCache::Part> DiskCache::pages_of(std::span<const int> tokens, const StateKey& text) const {
  std::vector<Part> pages;
  StateKey key = text;
  for (std::size_t i = 0; length_at(i + 1) <= tokens.size(); ++i) {
    const std::size_t begin = length_at(i);
    key = state_key("page", key, tokens.subspan(begin, length_at(i + 1) - begin));
    Part& page = pages.emplace_back();
    page.name = CacheDirectory::name_of(key);
    page.key = key;
    page.page = first_page_ + i;
    page.length = length_at(i + 1);
    page.kind = {.page = has_pages_, .mixers = false};
  }
  return pages;
}

/// Returns the key of all texts with a salt.
StateKey DiskCache::text_key(std::string_view salt) const {
  return state_key("text", identity_, std::as_bytes(std::span(salt)));
}

/// Returns the part of the end of `tokens`, which have filled `pages`; `before` is the last one's key.
DiskCache::Part DiskCache::end_of(std::span<const int> tokens, std::size_t pages, const StateKey& before) const {
  const std::span<const int> rest = tokens.subspan(length_at(pages));
  Part end;
  end.key = state_key("end", before, rest);
  end.name = end_name(before, rest.size(), end.key);
  end.page = first_page_ + pages;
  end.length = tokens.size();
  end.kind = {.page = has_pages_ && (prefix_ + tokens.size()) % kPageTokens != 0, .mixers = true};
  return end;
}

bool DiskCache::save(std::span<const int> tokens, std::string_view salt, const model::SequenceState& state) {
  assert(state.length() == tokens.size());
  const StateKey text = text_key(salt);
  std::vector<Part> parts = pages_of(tokens, text);
  if (has_ends_) parts.push_back(end_of(tokens, parts.size(), parts.empty() ? text : parts.back().key));
  if (!has_pages_) std::erase_if(parts, [](const Part& part) { return !part.kind.mixers; });
  CacheDirectory::Time used = directory_->take_times(parts.size()) + static_cast<CacheDirectory::Time>(parts.size());
  const std::lock_guard lock(mutex_);
  if (writing_ended_) return true;
  bool all = true;
  for (Part& part : parts) {
    Write item = {.part = std::move(part), .state = {}, .bytes = 0, .used = --used};
    if (!directory_->contains(item.part.name) && !waiting_names_.contains(item.part.name)) {
      const model::StatePartKind& kind = item.part.kind;
      item.bytes = (kind.page ? state.cache().page_bytes() : 0) + (kind.mixers ? state.mixer_bytes() : 0);
      all = waiting_bytes_ == 0 || waiting_bytes_ + item.bytes <= most_waiting_;
      if (!all) break;
      item.state.emplace();
      if (kind.page) item.state->page = state.cache().share_page(item.part.page);
      if (kind.mixers) item.state->mixers = state.mixers();
      waiting_names_.insert(item.part.name);
      waiting_bytes_ += item.bytes;
    }
    writes_.push_back(std::move(item));
  }
  changed_.notify_all();
  return all;
}

void DiskCache::flush() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return writes_.empty() && !busy_; });
}

/// Returns the parts of the longest beginning of a text that are in the directory, after the pages that are in memory;
/// none if the text gains no token by them.
std::vector<DiskCache::Part> DiskCache::find(std::span<const int> tokens, std::string_view salt,
                                             std::size_t in_memory) const {
  if (tokens.empty()) return {};
  const StateKey text = text_key(salt);
  std::vector<Part> pages = pages_of(tokens, text);
  const std::size_t first = has_ends_ ? 0 : (prefix_ + in_memory) / kPageTokens - first_page_;
  std::size_t count = std::min(first, pages.size());
  while (count < pages.size() && (!has_pages_ || directory_->contains(pages[count].name))) ++count;
  if (has_ends_) return find_end(tokens, text, std::span(pages).first(count), in_memory);
  if (count <= first || std::min(pages[count - 1].length, tokens.size() - 1) <= in_memory) return {};
  pages.resize(count);
  pages.erase(pages.begin(), pages.begin() + static_cast<std::ptrdiff_t>(first));
  return pages;
}

/// Returns the parts up to the last end in the directory that comes after some of the pages and before the last token.
std::vector<DiskCache::Part> DiskCache::find_end(std::span<const int> tokens, const StateKey& text,
                                                 std::span<const Part> pages, std::size_t in_memory) const {
  for (std::size_t count = pages.size() + 1; count-- > 0;) {
    const StateKey& before = count == 0 ? text : pages[count - 1].key;
    const std::vector<std::string> names = directory_->names(ends_after(before));
    for (std::size_t i = names.size(); i-- > 0;) {  // the longest is the last
      const std::optional<std::size_t> rest = tokens_of_end(names[i], ends_after(before));
      const std::size_t length = length_at(count) + rest.value_or(0);
      if (!rest || length >= tokens.size() || length <= in_memory) continue;
      Part end = end_of(tokens.first(length), count, before);
      if (end.name != names[i]) continue;
      std::vector<Part> parts(pages.begin(), pages.begin() + static_cast<std::ptrdiff_t>(count));
      parts.push_back(std::move(end));
      return parts;
    }
  }
  return {};
}

bool DiskCache::bring_back(std::span<const int> tokens, std::string_view salt, PrefixCache& memory) {
  std::unique_lock lock(mutex_);
  if (phase_ == Phase::kRead) take_loaded(memory);
  const bool reading = phase_ == Phase::kReading;
  lock.unlock();
  const std::size_t in_memory = memory.length(tokens, salt);
  std::vector<Part> parts = find(tokens, salt, in_memory);
  if (parts.empty() || parts.back().name == barred_) return false;
  if (reading) return true;
  model::SequenceState state = *root_;
  const std::size_t before = parts.front().page - first_page_;  // pages that are in memory
  if (before > 0 && !has_ends_) {
    state = *memory.find(tokens, salt).state;
    state.truncate(length_at(before));
  }
  std::uint64_t bytes = 0;
  for (const Part& part : parts) bytes += part.kind.page ? state.cache().page_bytes() : 0;
  Load load = {.tokens = {}, .salt = {}, .parts = std::move(parts), .state = std::move(state)};
  load.tokens.assign(tokens.begin(), tokens.end());
  load.salt = salt;
  load.in_memory = in_memory;
  lock.lock();
  load_.emplace(std::move(load));
  loading_bytes_ = bytes;
  phase_ = Phase::kReading;
  changed_.notify_all();
  return true;
}

/// Moves the text that was read to the memory, if more of it was read than is there.
void DiskCache::take_loaded(PrefixCache& memory) {
  phase_ = Phase::kNone;
  const Load load = *std::exchange(load_, std::nullopt);
  if (load.complete < load.parts.size()) barred_ = load.unreadable ? "" : load.parts.back().name;
  const std::size_t parts = has_ends_ && load.complete < load.parts.size() ? 0 : load.complete;
  if (parts == 0) return;
  const std::size_t length = load.parts[parts - 1].length;
  memory.insert(std::span(load.tokens).first(length), load.salt, load.state);
  stats_.hits += std::min(length, load.tokens.size() - 1) - load.in_memory;
}

void DiskCache::wait() {
  constexpr std::chrono::milliseconds kMoment{20};
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kMoment, [&] { return phase_ != Phase::kReading; });
}

bool DiskCache::give_up() {
  std::unique_lock lock(mutex_);
  const bool held = !writes_.empty() || busy_ || phase_ != Phase::kNone;
  writes_.clear();
  waiting_names_.clear();
  waiting_bytes_ = 0;
  giving_up_ = true;
  changed_.wait(lock, [&] { return !busy_ && phase_ != Phase::kReading; });
  giving_up_ = false;
  if (load_) barred_ = load_->parts.back().name;
  load_.reset();
  phase_ = Phase::kNone;
  loading_bytes_ = 0;
  return held;
}

DiskCacheStats DiskCache::stats() const {
  const std::lock_guard lock(mutex_);
  DiskCacheStats stats = stats_;
  stats.used = true;
  stats.bytes = directory_->bytes();
  stats.files = directory_->files();
  return stats;
}

/// Reads and writes until the end; texts are read first, because requests wait for them.
void DiskCache::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || phase_ == Phase::kReading || !writes_.empty(); });
    if (stopping_) return;
    busy_ = true;
    if (phase_ == Phase::kReading) {
      lock.unlock();
      without_exceptions([&] { read(*load_); });
      lock.lock();
      phase_ = Phase::kRead;
      loading_bytes_ = 0;
    } else {
      Write item = std::move(writes_.front());
      writes_.pop_front();
      lock.unlock();
      without_exceptions([&] { write(item); });
      const bool had_state = item.state.has_value();
      item.state.reset();  // frees its pages before give_up() returns
      lock.lock();
      if (had_state && waiting_names_.erase(item.part.name) > 0) waiting_bytes_ -= item.bytes;
    }
    busy_ = false;
    changed_.notify_all();
  }
}

void DiskCache::write(Write& item) {
  try {
    if (!item.state || directory_->contains(item.part.name)) return directory_->use(item.part.name, item.used);
    const model::StateFile file(item.part.key, *std::move(item.state));
    if (!directory_->write(item.part.name, file.size(), file.parts(), item.used)) return;
    const std::lock_guard lock(mutex_);
    stats_.written_bytes += file.size();
  } catch (const std::exception& error) {
    report_(error.what() + std::string("; nothing more is written until the server starts again"));
    const std::lock_guard lock(mutex_);
    writing_ended_ = true;
    writes_.clear();
    waiting_names_.clear();
    waiting_bytes_ = 0;
  }
}

void DiskCache::read(Load& load) {
  CacheDirectory::Time used =
      directory_->take_times(load.parts.size()) + static_cast<CacheDirectory::Time>(load.parts.size());
  for (const Part& part : load.parts) {
    if (giving_up_) return;
    try {
      if (!read_part(load, part)) return;
      if (part.kind.page || part.kind.mixers) directory_->use(part.name, --used);
      ++load.complete;
    } catch (const FileError& error) {  // the system cannot read it now, which says nothing about its contents
      refuse(load, error.what());
      directory_->forget(part.name);
      return;
    } catch (const Error& error) {
      refuse(load, error.what() + std::string("; it is removed"));
      directory_->remove(part.name);
      return;
    } catch (const std::bad_alloc&) {
      return;  // the text is read by the model, if there is memory for that
    }
  }
}

/// Reports a file that cannot be used.
void DiskCache::refuse(Load& load, const std::string& problem) {
  report_(problem + ", and the model reads the text");
  load.unreadable = true;
  const std::lock_guard lock(mutex_);
  ++stats_.unreadable;
}

/// Reads a part and appends it to the state. Returns false if the file is missing. Throws Error if it is unreadable,
/// and std::bad_alloc.
bool DiskCache::read_part(Load& load, const Part& part) {
  model::StatePart read;
  if (part.kind.page || part.kind.mixers) {
    const std::optional<files::InputFile> file = directory_->open(part.name);
    if (!file) {
      load.unreadable = true;
      return false;
    }
    read = model::read_state_file(*file, part.key, load.state, part.kind);
    const std::lock_guard lock(mutex_);
    stats_.read_bytes += file->size();
  }
  if (part.length > load.state.length()) load.state.adopt(part.page, std::move(read.page), part.length);
  if (read.mixers) load.state.set_mixers(*std::move(read.mixers));
  loading_bytes_ -= part.kind.page ? load.state.cache().page_bytes() : 0;
  return true;
}

}  // namespace ballast::serve
