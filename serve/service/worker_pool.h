// Threads for work that is too slow for the network thread and not the engine's: JSON, templates, tokenization.
#ifndef BALLAST_SERVE_SERVICE_WORKER_POOL_H_
#define BALLAST_SERVE_SERVICE_WORKER_POOL_H_

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace ballast::serve {

class Strand;

/// Threads that run the tasks of strands.
class WorkerPool {
 public:
  /// `niceness` lowers the priority of these threads, by at most 19.
  explicit WorkerPool(std::size_t threads, int niceness = 0);

  ~WorkerPool() { finish(); }
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// Waits until all tasks have run, including tasks that they post, and ends the threads.
  void finish();

 private:
  friend class Strand;

  void post(std::shared_ptr<Strand> strand) noexcept;
  void work(int niceness);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<Strand> first_;  ///< the first waiting strand; each points to the next
  Strand* last_ = nullptr;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

/// A queue of tasks that run one after the other, in the order of posting. The pool must outlive it. If a task throws,
/// the strand has failed: its later tasks are dropped, and the callback of on_failure() runs instead.
class Strand : public std::enable_shared_from_this<Strand> {
 public:
  enum class Begin { kAtOnce, kHeld };

  /// A held strand runs its tasks after release().
  explicit Strand(WorkerPool& pool, Begin begin = Begin::kAtOnce) : pool_(pool), running_(begin == Begin::kHeld) {}

  // Called from any thread.

  /// Throws std::bad_alloc if there is no memory for the task; fail() needs none.
  void post(std::function<void()> task);
  void fail() noexcept;
  void release() noexcept;

  /// Sets the callback that runs once when the strand fails; replaces an earlier one. Must be called by a task, or
  /// before release().
  void on_failure(std::function<void()> callback);

 private:
  friend class WorkerPool;

  void run() noexcept;
  void run_failure(std::unique_lock<std::mutex>& lock) noexcept;
  void schedule(std::unique_lock<std::mutex> lock) noexcept;

  WorkerPool& pool_;
  std::shared_ptr<Strand> next_;  ///< used by the pool
  std::mutex mutex_;
  std::deque<std::function<void()>> tasks_;
  std::function<void()> failure_;
  bool failed_ = false;
  bool failure_told_ = false;
  bool running_;  ///< or held, or waiting for a thread
};

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_SERVICE_WORKER_POOL_H_
