// The saved progress of a long job, in a folder next to its output, with which the same command continues after a kill.
//
// A job's state is a set of named blobs. Each is written under a temporary name and renamed when complete, so a blob
// exists completely or not at all; a checksum detects damage by a crash of the machine. The job chooses the names and
// the order of writing: it writes a stage's blobs, then one small blob that marks the stage as complete, then removes
// the blobs that the stage replaces.
//
// Saving is optional: when the disk is full or the folder is not writable, the state is removed, the job continues
// without it, and problem() returns the reason.
#ifndef BALLAST_JOBS_JOB_STATE_H_
#define BALLAST_JOBS_JOB_STATE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
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
  using Time = std::chrono::steady_clock::time_point;

  /// Creates the folder, or empties that of a job with another key. `now` returns the time by which worth_saving()
  /// decides. Throws Error if another process uses the folder.
  JobState(std::filesystem::path folder, const JobKey& key,
           std::function<Time()> now = &std::chrono::steady_clock::now);
  ~JobState();
  JobState(const JobState&) = delete;
  JobState& operator=(const JobState&) = delete;

  /// Returns the hidden folder next to `output`: ".OUTPUT.resume".
  static std::filesystem::path folder_beside(const std::filesystem::path& output);

  /// Returns FOLDER for a single rank, and "FOLDER-1-of-4" and so on for several ranks.
  static std::filesystem::path folder_of(const std::filesystem::path& folder, const Ranks& ranks);

  /// Returns the blob's bytes, or nullopt if it is missing or damaged.
  std::optional<std::string> get(std::string_view name) const;
  std::vector<std::string> names() const;  ///< of the blobs, sorted

  /// Writes the parts one after the other as the blob `name` ([A-Za-z0-9._-]+). Returns false if it could not: then
  /// nothing is saved any more.
  bool put(std::string_view name, std::span<const std::span<const std::byte>> parts);
  bool put(std::string_view name, std::initializer_list<std::span<const std::byte>> parts) {
    return put(name, std::span(parts));
  }
  bool put(std::string_view name, std::string_view bytes);

  void erase(std::string_view name);

  /// Returns whether a stage that takes as long to save as the last one keeps saving below a tenth of the time since
  /// then; true before the first stage. save_stage() measures the time of `save`.
  bool worth_saving() const;
  template <typename Save>
  void save_stage(const Save& save) {
    const Time begin = now_();
    save();
    last_saved_ = now_();
    saving_ = *last_saved_ - begin;
  }

  /// Removes everything when the job is complete.
  void remove();

  /// Removes a folder, and those of several ranks, with any key, unless another process uses one.
  static void remove_folders(const std::filesystem::path& folder);

  /// Returns why nothing is saved any more; empty while saving works.
  const std::string& problem() const { return problem_; }

 private:
  void open();
  static void empty(const std::filesystem::path& folder);
  static void remove_folder(const std::filesystem::path& folder);
  static void remove_files(const std::filesystem::path& folder);
  void give_up(const std::string& problem);
  std::filesystem::path path_of(std::string_view name) const;

  std::filesystem::path folder_;
  std::string digest_;
  int lock_ = -1;  ///< file descriptor of the key's file, while this process uses the folder
  std::string problem_;
  std::function<Time()> now_;
  std::optional<Time> last_saved_;  ///< nullopt before the first stage
  Time::duration saving_{};         ///< time to save the last stage
};

/// Runs job(), whose progress was saved. If an input is refused, discard() removes the progress, because the next
/// attempt would be refused, too. After a failure of the system (FileError) the progress is kept for the next attempt.
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
