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

  /// The one that prints and writes files.
  bool first() const { return rank() == 0; }

  /// Element by element over all ranks, in place: the same bytes on every rank. Float sums depend on the number of
  /// ranks by their rounding; jobs/sharded_sum.h has those that do not.
  virtual void sum(std::span<float> values) = 0;
  virtual void sum(std::span<double> values) = 0;
  virtual void sum(std::span<std::uint64_t> values) = 0;
  virtual void minimum(std::span<float> values) = 0;
  virtual void maximum(std::span<float> values) = 0;

  /// Every rank gets what `root` has.
  virtual void broadcast(std::span<std::byte> bytes, std::size_t root) = 0;

  /// From this rank to another one, which receives as many bytes.
  virtual void send(std::span<const std::byte> bytes, std::size_t to) = 0;
  virtual void receive(std::span<std::byte> bytes, std::size_t from) = 0;

  /// What each rank gave, in the order of ranks; on every rank.
  virtual std::vector<std::string> gather(const std::string& bytes) = 0;

  virtual void barrier() = 0;

  /// Whether no other rank has asked this before; one that has then waits a while to be ended. For when a rank fails:
  /// the only call that a rank makes whatever the others do.
  virtual bool first_to_fail() = 0;

  /// Ends the processes of all ranks at once, whatever they wait for.
  [[noreturn]] virtual void end_all(int exit_code) = 0;
};

/// A job of one process.
Ranks& single_rank();

/// Those that share a job; null: single_rank().
inline Ranks& ranks_or_single(Ranks* ranks) {
  return ranks == nullptr ? single_rank() : *ranks;
}

/// How many processes the launcher says that it started, 1 when there was no launcher. Costs nothing.
std::size_t launched_ranks();

/// Of these, the ones on this machine; and which one this process is.
std::size_t launched_ranks_here();
std::size_t launched_rank();

/// The ranks that the launcher started this process with; one without a launcher, which costs nothing then. Once per
/// process; when it is destroyed all ranks part in peace. Throws Error when there is a launcher and the MPI module,
/// libballast_mpi.so, is missing or not of this version.
std::unique_ptr<Ranks> open_ranks();

}  // namespace ballast

#endif  // BALLAST_RANKS_H_
