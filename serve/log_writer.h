// Lines of a log, written by a thread of their own, so that nobody waits for who reads them.
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
  /// What may wait; a line beyond either is dropped.
  static constexpr std::size_t kMostLines = 8192;
  static constexpr std::size_t kMostBytes = std::size_t{16} << 20;

  /// `write` returns false where the line cannot be written now, and is then asked again; it must return soon. Null:
  /// nothing is written.
  explicit LogWriter(std::function<bool(std::string_view line)> write);

  /// Writes what waits, as long as it can be written at once.
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  /// Never waits for a reader. Any thread.
  void add(std::string line) noexcept;

  /// Lines that were not written.
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
  std::thread thread_;  ///< last: it uses the rest
};

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_LOG_WRITER_H_
