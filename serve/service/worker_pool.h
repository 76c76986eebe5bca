// Threads for what takes longer than the network may wait, and is not the engine's: JSON, templates, tokens of a text.
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

/// Tasks must not throw.
class WorkerPool {
 public:
  explicit WorkerPool(std::size_t threads);

  ~WorkerPool() { finish(); }
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// Any thread. Dropped after finish().
  void post(std::function<void()> task);

  /// Waits until all tasks have run, those included that they post, and ends the threads.
  void finish();

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

/// Tasks that run one after the other, in the order in which they came. The pool must outlive them.
class Strand : public std::enable_shared_from_this<Strand> {
 public:
  explicit Strand(WorkerPool& pool) : pool_(pool) {}

  /// Any thread.
  void post(std::function<void()> task);

 private:
  void run();

  WorkerPool& pool_;
  std::mutex mutex_;
  std::deque<std::function<void()>> tasks_;
  bool running_ = false;
};

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_SERVICE_WORKER_POOL_H_
