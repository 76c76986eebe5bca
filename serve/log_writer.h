// A log whose lines are written by a separate thread, so that no other thread waits for the reader.
#ifndef BALLAST_SERVE_LOG_WRITER_H_
#define BALLAST_SERVE_LOG_WRITER_H_

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace ballast::serve {

class LogWriter {
 public:
  /// Limits of the queue; lines beyond either are dropped.
  static constexpr std::size_t kMostLines = 8192;
  static constexpr std::size_t kMostBytes = std::size_t{16} << 20;

  /// `write` must return soon. If it returns false because a line cannot be written now, it is called again later.
  /// Null: nothing is written.
  explicit LogWriter(std::function<bool(std::string_view line)> write);

  /// Writes the waiting lines as long as they can be written at once.
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  /// Never blocks. Any thread.
  void add(std::string line) noexcept;

  /// Returns the number of dropped lines.
  std::uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  void run();

  std::function<bool(std::string_view)> write_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> lines_;
  std::size_t bytes_ = 0;
  bool ending_ = false;
  std::atomic<std::uint64_t> dropped_ = 0;
  std::thread thread_;  ///< last: it uses the other members
};

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_LOG_WRITER_H_
