#include "serve/log_writer.h"

#include <exception>
#include <utility>

namespace ballast::serve {

LogWriter::LogWriter(std::function<bool(std::string_view)> write) : write_(std::move(write)) {
  if (write_) thread_ = std::thread([this] { run(); });
}

LogWriter::~LogWriter() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void LogWriter::add(std::string line) noexcept {
  if (!write_) return;
  try {
    const std::lock_guard lock(mutex_);
    if (lines_.size() < kMostLines && line.size() <= kMostBytes - bytes_) {
      const std::size_t size = line.size();
      lines_.push_back(std::move(line));
      bytes_ += size;
      changed_.notify_one();
      return;
    }
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): no memory; counted below
  }
  dropped_.fetch_add(1, std::memory_order_relaxed);
}

void LogWriter::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ending_ || !lines_.empty(); });
    if (lines_.empty()) return;
    const std::string line = std::move(lines_.front());
    lines_.pop_front();
    bool written = false;
    while (!written) {
      const bool last_try = ending_;
      lock.unlock();
      try {
        written = write_(line);
      } catch (const std::exception&) {  // no memory for it
        written = true;
        dropped_.fetch_add(1, std::memory_order_relaxed);
      }
      lock.lock();
      if (!written && last_try) {
        dropped_.fetch_add(1 + lines_.size(), std::memory_order_relaxed);
        return;
      }
    }
    bytes_ -= line.size();
  }
}

}  // namespace ballast::serve
