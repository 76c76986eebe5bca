#include "serve/service/worker_pool.h"

#include <exception>
#include <utility>

#include "serve/http/thread_priority.h"

namespace ballast::serve {

WorkerPool::WorkerPool(std::size_t threads, int niceness) {
  for (std::size_t i = 0; i < threads; ++i) threads_.emplace_back([this, niceness] { work(niceness); });
}

void WorkerPool::finish() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

/// Strands are linked, so that scheduling one needs no memory.
void WorkerPool::post(std::shared_ptr<Strand> strand) noexcept {
  {
    const std::lock_guard lock(mutex_);
    Strand* const last = strand.get();
    (first_ ? last_->next_ : first_) = std::move(strand);
    last_ = last;
  }
  changed_.notify_one();
}

void WorkerPool::work(int niceness) {
  lower_priority(niceness);
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ending_ || first_; });
    if (!first_) return;
    std::shared_ptr<Strand> strand = std::move(first_);
    first_ = std::move(strand->next_);
    lock.unlock();
    strand->run();
    strand.reset();
    lock.lock();
  }
}

void Strand::post(std::function<void()> task) {
  std::unique_lock lock(mutex_);
  if (failed_) return;  // destroys the task outside of the lock
  tasks_.push_back(std::move(task));
  schedule(std::move(lock));
}

void Strand::fail() noexcept {
  std::unique_lock lock(mutex_);
  failed_ = true;
  schedule(std::move(lock));
}

void Strand::release() noexcept {
  std::unique_lock lock(mutex_);
  running_ = false;
  if (!tasks_.empty() || failed_) schedule(std::move(lock));
}

void Strand::schedule(std::unique_lock<std::mutex> lock) noexcept {
  if (std::exchange(running_, true)) return;
  lock.unlock();
  pool_.post(shared_from_this());
}

void Strand::on_failure(std::function<void()> callback) {
  const std::lock_guard lock(mutex_);
  if (!failure_told_) failure_.swap(callback);
}

void Strand::run() noexcept {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (failed_ && !failure_told_) run_failure(lock);
    if (tasks_.empty()) break;
    std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    bool failed = false;
    lock.unlock();
    try {
      task();
    } catch (...) {
      failed = true;
    }
    task = nullptr;
    lock.lock();
    failed_ = failed_ || failed;
  }
  running_ = false;
  // After the last task has run and all posters are gone, nothing can fail any more; a callback that owns an object
  // that owns the strand would keep both alive.
  if (failed_) failure_ = nullptr;
}

void Strand::run_failure(std::unique_lock<std::mutex>& lock) noexcept {
  failure_told_ = true;
  std::deque<std::function<void()>> dropped;
  dropped.swap(tasks_);
  std::function<void()> failure = std::exchange(failure_, nullptr);
  lock.unlock();
  try {
    dropped.clear();
    if (failure) failure();
  } catch (...) {  // NOLINT(bugprone-empty-catch): on_failure was the last resort
  }
  failure = nullptr;
  lock.lock();
}

}  // namespace ballast::serve
