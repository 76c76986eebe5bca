// The processes that share one job, on one machine or on many, started by `mpirun -n N`.
//
// Every rank runs the same program on its own part of the samples; what they found is combined by the calls below,
// which all ranks make in the same order. Calls come from one thread. A rank that fails must not leave the others
// waiting: the caller prints the error, if it is the first_to_fail(), and calls end_all().
#ifndef BALLAST_RANKS_H_
#define BALLAST_RANKS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ballast {

class Ranks {
 public:
  Ranks() = default;
  virtual ~Ranks() = default;
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  virtual std::size_t rank() const = 0;
  virtual std::size_t size() const = 0;

  /// Returns whether this is the root rank, which prints and writes files.
  bool first() const { return rank() == 0; }

  /// Reduce element by element over all ranks, in place, with the same bytes on every rank. The rounding of float sums
  /// depends on the number of ranks; sums in jobs/sharded_sum.h do not.
  virtual void sum(std::span<float> values) = 0;
  virtual void sum(std::span<double> values) = 0;
  virtual void sum(std::span<std::uint64_t> values) = 0;
  virtual void minimum(std::span<float> values) = 0;
  virtual void maximum(std::span<float> values) = 0;

  /// Sends the bytes of `root` to every rank.
  virtual void broadcast(std::span<std::byte> bytes, std::size_t root) = 0;

  /// Sends bytes to another rank, which receives the same number of bytes.
  virtual void send(std::span<const std::byte> bytes, std::size_t to) = 0;
  virtual void receive(std::span<std::byte> bytes, std::size_t from) = 0;

  /// Returns each rank's bytes in the order of ranks, on every rank.
  virtual std::vector<std::string> gather(const std::string& bytes) = 0;

  virtual void barrier() = 0;

  /// Returns true to the first rank that calls it; others then wait a moment to be ended. It is the only call that a
  /// failing rank makes independently of the others.
  virtual bool first_to_fail() = 0;

  /// Ends the processes of all ranks immediately, also if they are waiting.
  [[noreturn]] virtual void end_all(int exit_code) = 0;
};

/// Returns the ranks of a job in one process.
Ranks& single_rank();

/// Returns `ranks`, or single_rank() for null.
inline Ranks& ranks_or_single(Ranks* ranks) {
  return ranks == nullptr ? single_rank() : *ranks;
}

/// Returns the number of processes that the launcher reports, 1 without a launcher. Takes no time.
std::size_t launched_ranks();

/// Return the number of these on this machine, and the index of this process among them.
std::size_t launched_ranks_here();
std::size_t launched_rank();

/// Connects the ranks that the launcher started; returns one rank without a launcher, which takes no time. Must be
/// called once per process; destroying the result disconnects all ranks. Throws Error if there is a launcher and the
/// MPI module, libballast_mpi.so, is missing or of another version.
std::unique_ptr<Ranks> open_ranks();

}  // namespace ballast

#endif  // BALLAST_RANKS_H_
