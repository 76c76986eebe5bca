#include "jobs/sharded_sum.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "ballast/error.h"

#include <array>
#include <utility>

namespace ballast::jobs {

std::uint64_t least_of_ranks(Ranks& ranks, std::uint64_t value) {
  const std::string mine(reinterpret_cast<const char*>(&value), sizeof value);
  for (const std::string& bytes : ranks.gather(mine)) {
    std::uint64_t other = 0;
    std::memcpy(&other, bytes.data(), sizeof other);
    value = std::min(value, other);
  }
  return value;
}

void check_sharing(std::size_t samples, const Ranks& ranks) {
  if (ranks.size() > kShards) {
    throw Error("mpirun", std::to_string(ranks.size()) + " ranks are more than can share the samples: start at most " +
                              std::to_string(kShards));
  }
  if (ranks.size() > 1 && samples < kShards) {
    throw Error("samples", std::to_string(samples) + " are too few to share: give at least " + std::to_string(kShards) +
                               " samples to " + std::to_string(ranks.size()) + " ranks, or start one");
  }
}

IndexRange even_part(std::size_t total, std::size_t index, std::size_t parts) {
  return {total * index / parts, total * (index + 1) / parts};
}

IndexRange shards_of(std::size_t rank, std::size_t ranks) {
  return even_part(kShards, rank, ranks);
}

IndexRange samples_of_shard(std::size_t shard, std::size_t samples) {
  return even_part(samples, shard, kShards);
}

IndexRange samples_of_rank(std::size_t rank, std::size_t ranks, std::size_t samples) {
  const IndexRange shards = shards_of(rank, ranks);
  return {samples_of_shard(shards.begin, samples).begin, samples_of_shard(shards.end, samples).begin};
}

template <typename T>
std::span<T> ShardedSum<T>::shard() {
  if (shard_.empty()) shard_.resize(size_);
  return shard_;
}

template <typename T>
void ShardedSum<T>::end_shard(std::size_t index) {
  if (order_ == SumOrder::kAny) return;
  shard();
  append(nodes_, {index, 1, std::exchange(shard_, {})});
}

template <typename T>
void ShardedSum<T>::append(std::vector<Node>& nodes, Node node) {
  while (!nodes.empty() && nodes.back().width == node.width && nodes.back().begin % (2 * node.width) == 0) {
    Node& left = nodes.back();
#pragma omp parallel for
    for (std::size_t i = 0; i < node.values.size(); ++i) left.values[i] += node.values[i];
    left.width *= 2;
    node = std::move(left);
    nodes.pop_back();
  }
  nodes.push_back(std::move(node));
}

// Ranks exchange the number of nodes, then each node's position and values.
template <typename T>
void ShardedSum<T>::receive_before(Ranks& ranks, std::vector<Node>& nodes) const {
  std::size_t count = 0;
  ranks.receive(std::as_writable_bytes(std::span(&count, 1)), ranks.rank() - 1);
  for (std::size_t i = 0; i < count; ++i) {
    std::array<std::size_t, 2> place{};
    ranks.receive(std::as_writable_bytes(std::span(place)), ranks.rank() - 1);
    nodes.push_back({place[0], place[1], std::vector<T>(size_)});
    ranks.receive(std::as_writable_bytes(std::span(nodes.back().values)), ranks.rank() - 1);
  }
}

template <typename T>
void ShardedSum<T>::pass_on(Ranks& ranks, std::vector<Node>& nodes) {
  const std::size_t count = nodes.size();
  ranks.send(std::as_bytes(std::span(&count, 1)), ranks.rank() + 1);
  for (Node& node : nodes) {
    const std::array<std::size_t, 2> place{node.begin, node.width};
    ranks.send(std::as_bytes(std::span(place)), ranks.rank() + 1);
    ranks.send(std::as_bytes(std::span(node.values)), ranks.rank() + 1);
    node.values = {};
  }
}

template <typename T>
std::vector<T> ShardedSum<T>::finish(Ranks& ranks) {
  if (order_ == SumOrder::kAny) {
    shard();
    ranks.sum(std::span(shard_));
    return std::exchange(shard_, {});
  }
  std::vector<Node> nodes;
  if (!ranks.first()) receive_before(ranks, nodes);
  for (Node& node : nodes_) append(nodes, std::move(node));
  nodes_.clear();
  const std::size_t last = ranks.size() - 1;
  std::vector<T> total;
  if (ranks.rank() == last) {
    total = std::move(nodes.front().values);  // kShards is a power of two, so one node remains
  } else {
    pass_on(ranks, nodes);
    total.resize(size_);
  }
  ranks.broadcast(std::as_writable_bytes(std::span(total)), last);
  return total;
}

template class ShardedSum<float>;
template class ShardedSum<double>;

}  // namespace ballast::jobs
