// The prefix cache on disk: the states of texts in files, from which a text that begins like one of them continues,
// also after a restart of the server.
#ifndef BALLAST_SERVE_SCHEDULER_DISK_CACHE_H_
#define BALLAST_SERVE_SCHEDULER_DISK_CACHE_H_

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "model/mixer/sequence_state.h"
#include "model/mixer/state_file.h"
#include "serve/scheduler/cache_directory.h"
#include "serve/scheduler/prefix_cache.h"
#include "serve/scheduler/scheduler_stats.h"

namespace ballast::serve {

/// Stores full pages of keys and values, each in a file whose name is a hash of everything that it depends on: the
/// model and the options that change its states, the salt, and all tokens up to the page's end. Texts that begin alike
/// share files, and a text that grows adds files. For models with recurrent layers there is also a file for the end of
/// a text, with the states of these layers and the page that is not full: such a text continues only there.
///
/// SHA-256 makes the names, so that no user can compose a prompt that gets the pages of another one. A file that is
/// missing is not found; one that is damaged is reported, removed and not used. A failing write is reported and ends
/// writing.
///
/// One thread reads and writes files. The other functions belong to the scheduler's thread, except stats().
class DiskCache {
 public:
  /// Receives a line about a file that cannot be read or written. Is called by the thread that reads and writes.
  using Report = std::function<void(const std::string& line)>;

  DiskCache(std::shared_ptr<CacheDirectory> directory, Report report);

  /// Drops what has not been written.
  ~DiskCache();
  DiskCache(const DiskCache&) = delete;
  DiskCache& operator=(const DiskCache&) = delete;

  /// Must be called once before the functions below. `root` is the state of a text without tokens, whose cache does not
  /// roll: a rolling cache overwrites its pages. `identity`: see state_identity(). States of at most `most_waiting`
  /// bytes wait to be written; their pages stay in memory until then. Throws Error if the directory's budget is smaller
  /// than a file.
  void attach(std::string_view identity, const model::SequenceState& root, std::uint64_t most_waiting);

  /// Queues the parts of a text's state that are not in the directory, in order, as many as may wait. All tokens have
  /// run. Returns whether none is left over.
  bool save(std::span<const int> tokens, std::string_view salt, const model::SequenceState& state);

  /// Waits until all queued parts have been written.
  void flush();

  /// Finds the longest beginning of a text in the directory and, if `memory` has less of it, reads it. Returns true
  /// while it is being read: then the caller asks again later. What was read is in `memory` when the function returns
  /// false. One text is read at a time; others that have a beginning in the directory wait.
  bool bring_back(std::span<const int> tokens, std::string_view salt, PrefixCache& memory);

  /// Waits for the text that is being read, but only a moment.
  void wait();

  /// Returns the bytes of pages that the text that is being read will still take.
  std::uint64_t loading_bytes() const { return loading_bytes_; }

  /// Drops what waits to be written and what is being read, to free memory. Returns false if there was nothing.
  bool give_up();

  DiskCacheStats stats() const;

 private:
  /// A part in the directory.
  struct Part {
    std::string name;
    model::StateKey key{};
    std::size_t page = 0;    ///< index, also of a page that is not full
    std::size_t length = 0;  ///< number of tokens up to the part's end
    model::StatePartKind kind{};
  };

  /// A part to be written, or without a state one whose time of use is set.
  struct Write {
    Part part;
    std::optional<model::StatePart> state;
    std::uint64_t bytes = 0;
    CacheDirectory::Time used = 0;
  };

  /// A text that is being read.
  struct Load {
    std::vector<int> tokens;
    std::string salt;
    std::vector<Part> parts;
    model::SequenceState state;
    std::size_t in_memory = 0;  ///< tokens that the prefix cache had
    std::size_t complete = 0;   ///< parts that were read
    bool unreadable = false;    ///< the next part is missing or damaged
  };

  enum class Phase { kNone, kReading, kRead };

  std::size_t length_at(std::size_t pages) const;
  std::vector<Part> pages_of(std::span<const int> tokens, const model::StateKey& text) const;
  model::StateKey text_key(std::string_view salt) const;
  Part end_of(std::span<const int> tokens, std::size_t pages, const model::StateKey& before) const;
  std::vector<Part> find(std::span<const int> tokens, std::string_view salt, std::size_t in_memory) const;
  std::vector<Part> find_end(std::span<const int> tokens, const model::StateKey& text, std::span<const Part> pages,
                             std::size_t in_memory) const;
  void take_loaded(PrefixCache& memory);
  void work();
  void write(Write& item);
  void read(Load& load);
  void refuse(Load& load, const std::string& problem);
  bool read_part(Load& load, const Part& part);

  const std::shared_ptr<CacheDirectory> directory_;
  const Report report_;

  // Set by attach().
  std::optional<model::SequenceState> root_;
  model::StateKey identity_{};
  std::uint64_t most_waiting_ = 0;
  std::size_t prefix_ = 0;      ///< tokens of the model's own prefix
  std::size_t first_page_ = 0;  ///< the first page that a text fills
  bool has_pages_ = false;      ///< some layers have keys and values
  bool has_ends_ = false;       ///< some layers are recurrent

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Write> writes_;
  std::set<std::string> waiting_names_;  ///< of writes_
  std::uint64_t waiting_bytes_ = 0;
  bool writing_ended_ = false;
  bool busy_ = false;  ///< the thread reads or writes
  bool stopping_ = false;
  Phase phase_ = Phase::kNone;
  std::optional<Load> load_;  ///< while reading, used only by the thread that reads
  std::string barred_;        ///< the last part of a text that was given up: it is not read again
  std::atomic<bool> giving_up_ = false;
  std::atomic<std::uint64_t> loading_bytes_ = 0;
  DiskCacheStats stats_;

  std::thread thread_;  ///< last: it uses the other members
};

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_SCHEDULER_DISK_CACHE_H_
