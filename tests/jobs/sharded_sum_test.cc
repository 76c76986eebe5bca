#include "jobs/sharded_sum.h"

#include <doctest/doctest.h>

#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace ballast::jobs {
namespace {

/// Connects ranks that are threads of one process: sent bytes wait in queues.
class Mail {
 public:
  void put(std::size_t from, std::size_t to, std::string bytes) {
    const std::lock_guard lock(mutex_);
    queues_[{from, to}].push_back(std::move(bytes));
    arrived_.notify_all();
  }
  std::string take(std::size_t from, std::size_t to) {
    std::unique_lock lock(mutex_);
    std::deque<std::string>& queue = queues_[{from, to}];
    arrived_.wait(lock, [&] { return !queue.empty(); });
    std::string bytes = std::move(queue.front());
    queue.pop_front();
    return bytes;
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<std::pair<std::size_t, std::size_t>, std::deque<std::string>> queues_;
};

class ThreadRank : public Ranks {
 public:
  ThreadRank(std::size_t rank, std::size_t size, Mail& mail) : rank_(rank), size_(size), mail_(mail) {}
  std::size_t rank() const override { return rank_; }
  std::size_t size() const override { return size_; }
  void sum(std::span<float> values) override { add_up(values); }
  void sum(std::span<double> values) override { add_up(values); }
  void sum(std::span<std::uint64_t> values) override { add_up(values); }
  void minimum(std::span<float> /*values*/) override { FAIL("not used here"); }
  void maximum(std::span<float> /*values*/) override { FAIL("not used here"); }
  void broadcast(std::span<std::byte> bytes, std::size_t root) override {
    for (std::size_t to = 0; rank_ == root && to < size_; ++to) {
      if (to != root) send(bytes, to);
    }
    if (rank_ != root) receive(bytes, root);
  }
  void send(std::span<const std::byte> bytes, std::size_t to) override {
    mail_.put(rank_, to, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  void receive(std::span<std::byte> bytes, std::size_t from) override {
    const std::string received = mail_.take(from, rank_);
    if (received.size() == bytes.size()) std::memcpy(bytes.data(), received.data(), bytes.size());
  }
  std::vector<std::string> gather(const std::string& bytes) override { return {bytes}; }
  void barrier() override {}
  bool first_to_fail() override { return true; }
  [[noreturn]] void end_all(int /*exit_code*/) override { std::abort(); }

 private:
  template <typename T>
  void add_up(std::span<T> values) {
    std::vector<T> others(values.size());
    for (std::size_t from = 1; rank_ == 0 && from < size_; ++from) {
      receive(std::as_writable_bytes(std::span(others)), from);
      for (std::size_t i = 0; i < values.size(); ++i) values[i] += others[i];
    }
    if (rank_ != 0) send(std::as_bytes(values), 0);
    broadcast(std::as_writable_bytes(values), 0);
  }

  std::size_t rank_;
  std::size_t size_;
  Mail& mail_;
};

// Returns values of very different magnitudes, so that every order of summation gives other bytes.
float value_of(std::size_t sample, std::size_t i) {
  const std::size_t mixed = (sample * 2654435761U + i * 40503U) % 9973;
  return static_cast<float>(mixed) * (sample % 3 == 0 ? 1e4F : 1e-3F) - 17.F;
}

std::vector<std::vector<float>> totals(std::size_t ranks, std::size_t samples, SumOrder order) {
  Mail mail;
  std::vector<std::vector<float>> totals(ranks);
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      ThreadRank rank(r, ranks, mail);
      ShardedSum<float> sum(50, order);
      const IndexRange shards = shards_of(r, ranks);
      for (std::size_t shard = shards.begin; shard < shards.end; ++shard) {
        const IndexRange mine = samples_of_shard(shard, samples);
        for (std::size_t s = mine.begin; s < mine.end; ++s) {
          for (std::size_t i = 0; i < 50; ++i) sum.shard()[i] += value_of(s, i);
        }
        sum.end_shard(shard);
      }
      totals[r] = sum.finish(rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return totals;
}

TEST_CASE("sums in fixed order are the same on any number of ranks, on each of them") {
  for (const std::size_t samples : {1U, 5U, 8U, 64U, 129U}) {
    const std::vector<float> expected = totals(1, samples, SumOrder::kFixed).front();
    for (const std::size_t ranks : {2U, 3U, 4U, 5U, 7U, 8U, 11U}) {
      CAPTURE(samples);
      CAPTURE(ranks);
      for (const std::vector<float>& total : totals(ranks, samples, SumOrder::kFixed)) CHECK(total == expected);
    }
  }
}

TEST_CASE("sums in any order are equal on all ranks, and equal to those in fixed order up to rounding") {
  const std::vector<float> expected = totals(1, 100, SumOrder::kFixed).front();
  const auto any = totals(3, 100, SumOrder::kAny);
  CHECK(any[0] == any[1]);
  CHECK(any[0] == any[2]);
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(any[0][i] == doctest::Approx(expected[i]).epsilon(1e-5));
}

TEST_CASE("shards cover all samples once, in order, for any number of ranks") {
  for (const std::size_t samples : {0U, 3U, 8U, 100U}) {
    for (std::size_t ranks = 1; ranks <= 10; ++ranks) {
      std::size_t next = 0;
      for (std::size_t r = 0; r < ranks; ++r) {
        const IndexRange mine = samples_of_rank(r, ranks, samples);
        CHECK(mine.begin == next);
        next = mine.end;
        std::size_t within = mine.begin;
        for (std::size_t s = shards_of(r, ranks).begin; s < shards_of(r, ranks).end; ++s) {
          CHECK(samples_of_shard(s, samples).begin == within);
          within = samples_of_shard(s, samples).end;
        }
        CHECK(within == mine.end);
      }
      CHECK(next == samples);
    }
  }
}

}  // namespace
}  // namespace ballast::jobs
