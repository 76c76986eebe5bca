#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "jobs/mpi/module.h"

namespace ballast::jobs {

namespace {

// MPI counts in int.
constexpr std::size_t kMostAtOnce = std::size_t{1} << 28;

// Time for the first rank that fails to print the error and to end all ranks.
constexpr auto kMostWait = std::chrono::seconds(10);

// Calls visit(begin, count) for pieces of `size` elements that MPI can count.
template <typename Visit>
void for_each_piece(std::size_t size, const Visit& visit) {
  for (std::size_t begin = 0; begin < size; begin += kMostAtOnce) {
    visit(begin, static_cast<int>(std::min(kMostAtOnce, size - begin)));
  }
}

class MpiRanks final : public Ranks {
 public:
  MpiRanks() {
    int provided = 0;
    // Other threads compute; only this one calls MPI.
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    int* failed = nullptr;
    MPI_Win_allocate(sizeof *failed, sizeof *failed, MPI_INFO_NULL, MPI_COMM_WORLD, &failed, &failures_);
    *failed = 0;
    MPI_Barrier(MPI_COMM_WORLD);
  }
  ~MpiRanks() override {
    MPI_Win_free(&failures_);
    MPI_Finalize();
  }

  std::size_t rank() const override { return static_cast<std::size_t>(rank_); }
  std::size_t size() const override { return static_cast<std::size_t>(size_); }

  void sum(std::span<float> values) override { reduce(values, MPI_FLOAT, MPI_SUM); }
  void sum(std::span<double> values) override { reduce(values, MPI_DOUBLE, MPI_SUM); }
  void sum(std::span<std::uint64_t> values) override { reduce(values, MPI_UINT64_T, MPI_SUM); }
  void minimum(std::span<float> values) override { reduce(values, MPI_FLOAT, MPI_MIN); }
  void maximum(std::span<float> values) override { reduce(values, MPI_FLOAT, MPI_MAX); }

  void broadcast(std::span<std::byte> bytes, std::size_t root) override {
    for_each_piece(bytes.size(), [&](std::size_t begin, int count) {
      MPI_Bcast(bytes.data() + begin, count, MPI_BYTE, static_cast<int>(root), MPI_COMM_WORLD);
    });
  }

  void send(std::span<const std::byte> bytes, std::size_t to) override {
    for_each_piece(bytes.size(), [&](std::size_t begin, int count) {
      MPI_Send(bytes.data() + begin, count, MPI_BYTE, static_cast<int>(to), 0, MPI_COMM_WORLD);
    });
  }

  void receive(std::span<std::byte> bytes, std::size_t from) override {
    for_each_piece(bytes.size(), [&](std::size_t begin, int count) {
      MPI_Recv(bytes.data() + begin, count, MPI_BYTE, static_cast<int>(from), 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    });
  }

  std::vector<std::string> gather(const std::string& bytes) override {
    std::vector<std::uint64_t> sizes(size());
    sizes[rank()] = bytes.size();
    sum(sizes);
    std::vector<std::string> all;
    for (std::size_t r = 0; r < size(); ++r) {
      all.push_back(r == rank() ? bytes : std::string(sizes[r], '\0'));
      broadcast(std::as_writable_bytes(std::span(all.back())), r);
    }
    return all;
  }

  void barrier() override { MPI_Barrier(MPI_COMM_WORLD); }

  // Uses a counter in the root rank's memory, which needs no reply of that rank: a message may arrive late on a busy
  // machine.
  bool first_to_fail() override {
    constexpr int kOne = 1;
    int earlier = 0;
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, failures_);
    MPI_Fetch_and_op(&kOne, &earlier, MPI_INT, 0, 0, MPI_SUM, failures_);
    MPI_Win_unlock(0, failures_);
    if (earlier > 0) wait_for_end();
    return earlier == 0;
  }

  [[noreturn]] void end_all(int exit_code) override {
    MPI_Abort(MPI_COMM_WORLD, exit_code);
    std::_Exit(exit_code);
  }

 private:
  // Probing for messages lets other ranks access this one's memory.
  static void wait_for_end() {
    const auto end = std::chrono::steady_clock::now() + kMostWait;
    while (std::chrono::steady_clock::now() < end) {
      int told = 0;
      MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &told, MPI_STATUS_IGNORE);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }

  // An Allreduce may round differently on each rank, so one rank sums and sends the result to all.
  template <typename T>
  void reduce(std::span<T> values, MPI_Datatype type, MPI_Op operation) {
    for_each_piece(values.size(), [&](std::size_t begin, int count) {
      T* piece = values.data() + begin;
      MPI_Reduce(rank_ == 0 ? MPI_IN_PLACE : piece, piece, count, type, operation, 0, MPI_COMM_WORLD);
      MPI_Bcast(piece, count, type, 0, MPI_COMM_WORLD);
    });
  }

  int rank_ = 0;
  int size_ = 1;
  MPI_Win failures_ = MPI_WIN_NULL;  ///< on the root rank: number of ranks that have failed
};

}  // namespace

}  // namespace ballast::jobs

extern "C" ballast::Ranks* ballast_open_mpi_ranks(const char* version) {
  if (std::string_view(version) != BALLAST_VERSION) return nullptr;
  return new ballast::jobs::MpiRanks();
}
