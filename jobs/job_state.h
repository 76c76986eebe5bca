// What a long job has done so far, kept in a folder beside its output, so that after a kill the same command goes on.
//
// A job's state is a set of named blobs. Each is written under another name and renamed when complete, so a blob is
// there whole or not at all; a checksum finds what a crash of the machine left damaged. The names and what order they
// are written in are the job's: it writes a stage's blobs, then one small blob that says the stage is complete, then
// removes those that the stage replaces.
//
// Saving is a convenience, not the job: when the disk is full or the folder not writable, the state removes itself, the
// job goes on without, and problem() says why.
#ifndef BALLAST_JOBS_JOB_STATE_H_
#define BALLAST_JOBS_JOB_STATE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/error.h"
#include "ballast/ranks.h"
#include "jobs/job_key.h"

namespace ballast::jobs {

class JobState {
 public:
  /// Creates the folder. One that a job of another key left is emptied. Throws Error when another process works in it.
  JobState(std::filesystem::path folder, const JobKey& key);
  ~JobState();
  JobState(const JobState&) = delete;
  JobState& operator=(const JobState&) = delete;

  /// Beside `output`, hidden: ".OUTPUT.resume".
  static std::filesystem::path folder_beside(const std::filesystem::path& output);

  /// FOLDER for a single rank, of several ranks "FOLDER-1-of-4" and so on.
  static std::filesystem::path folder_of(const std::filesystem::path& folder, const Ranks& ranks);

  /// The blob's bytes; empty when there is none or when it is damaged.
  std::optional<std::string> get(std::string_view name) const;
  std::vector<std::string> names() const;  ///< of the blobs, sorted

  /// Writes the parts one after the other as the blob `name` ([A-Za-z0-9._-]+). False when it could not: then and
  /// from then on nothing is saved.
  bool put(std::string_view name, std::span<const std::span<const std::byte>> parts);
  bool put(std::string_view name, std::initializer_list<std::span<const std::byte>> parts) {
    return put(name, std::span(parts));
  }
  bool put(std::string_view name, std::string_view bytes);

  void erase(std::string_view name);

  /// Whether a stage that takes as long to save as the last one keeps saving below a tenth of the time since then: true
  /// before the first. save_stage() times what `save` puts.
  bool worth_saving() const;
  template <typename Save>
  void save_stage(const Save& save) {
    const auto begin = Clock::now();
    save();
    last_saved_ = Clock::now();
    saving_ = last_saved_ - begin;
  }

  /// Removes everything: the job is done.
  void remove();

  /// The same for a folder, and for those that several ranks had in its place, whatever their keys, unless another
  /// process is at work in one.
  static void remove_folders(const std::filesystem::path& folder);

  /// Why nothing is saved any more, empty as long as it is.
  const std::string& problem() const { return problem_; }

 private:
  using Clock = std::chrono::steady_clock;

  void open();
  static void empty(const std::filesystem::path& folder);
  static void remove_folder(const std::filesystem::path& folder);
  static void remove_files(const std::filesystem::path& folder);
  void give_up(const std::string& problem);
  std::filesystem::path path_of(std::string_view name) const;

  std::filesystem::path folder_;
  std::string digest_;
  int lock_ = -1;  ///< a descriptor of the key's file, while this process works in the folder
  std::string problem_;
  Clock::time_point last_saved_{};
  Clock::duration saving_{};  ///< that the last stage took
};

/// job(), of which what is done was saved: discard() removes that when an input was refused, for the next try would be
/// refused, too. When the system failed (FileError) it stays and helps the next try.
template <typename Job, typename Discard>
auto keep_progress_for_retry(const Job& job, const Discard& discard) {
  try {
    return job();
  } catch (const FileError&) {
    throw;
  } catch (const Error&) {
    discard();
    throw;
  }
}

}  // namespace ballast::jobs

#endif  // BALLAST_JOBS_JOB_STATE_H_
