// The ranks of a job that runs in one process.
#ifndef BALLAST_JOBS_SINGLE_RANK_H_
#define BALLAST_JOBS_SINGLE_RANK_H_

#include "ballast/ranks.h"

namespace ballast::jobs {

class SingleRank : public Ranks {
 public:
  std::size_t rank() const override { return 0; }
  std::size_t size() const override { return 1; }
  void sum(std::span<float> /*values*/) override {}
  void sum(std::span<double> /*values*/) override {}
  void sum(std::span<std::uint64_t> /*values*/) override {}
  void minimum(std::span<float> /*values*/) override {}
  void maximum(std::span<float> /*values*/) override {}
  void broadcast(std::span<std::byte> /*bytes*/, std::size_t /*root*/) override {}
  void send(std::span<const std::byte> bytes, std::size_t to) override;
  void receive(std::span<std::byte> bytes, std::size_t from) override;
  std::vector<std::string> gather(const std::string& bytes) override { return {bytes}; }
  void barrier() override {}
  bool first_to_fail() override { return true; }
  [[noreturn]] void end_all(int exit_code) override;
};

}  // namespace ballast::jobs

#endif  // BALLAST_JOBS_SINGLE_RANK_H_
