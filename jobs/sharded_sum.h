// Sums over samples that are bit-identical for any number of ranks.
#ifndef BALLAST_JOBS_SHARDED_SUM_H_
#define BALLAST_JOBS_SHARDED_SUM_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ballast/ranks.h"

namespace ballast::jobs {

/// The number of contiguous shards into which the samples of a job are divided, for any number of ranks; each rank
/// processes a contiguous range of shards. A job has at most as many ranks as shards (check_sharing()).
inline constexpr std::size_t kShards = 8;

struct IndexRange {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t size() const { return end - begin; }
};

/// Returns part `index` of `total` items that are divided into `parts` as equal as possible.
IndexRange even_part(std::size_t total, std::size_t index, std::size_t parts);

/// Return the shards of a rank, the samples of a shard, and the samples of a rank.
IndexRange shards_of(std::size_t rank, std::size_t ranks);
IndexRange samples_of_shard(std::size_t shard, std::size_t samples);
IndexRange samples_of_rank(std::size_t rank, std::size_t ranks, std::size_t samples);

/// Throws Error if a rank would have no samples, or if there are more ranks than shards.
void check_sharing(std::size_t samples, const Ranks& ranks);

/// Returns the minimum over all ranks. Is called on every rank.
std::uint64_t least_of_ranks(Ranks& ranks, std::uint64_t value);

enum class SumOrder {
  kFixed,  ///< shards are added pairwise in a tree: the same bytes for any number of ranks, at up to 4 arrays of memory
  kAny,    ///< one array, whose sum over ranks differs by rounding with their number
};

/// Sum of an array over all shards. On every rank:
///
///     ShardedSum<float> sum(size, order);
///     for (shard in shards_of(ranks.rank(), ranks.size())) {
///       add the shard's samples to sum.shard();
///       sum.end_shard(shard);
///     }
///     std::vector<float> total = sum.finish(ranks);   // the same bytes on every rank
///
/// The bytes do not depend on the number of ranks (kFixed) as long as what is added to shard() depends on the shard's
/// samples alone: batches must not reach over the end of a shard.
template <typename T>
class ShardedSum {
 public:
  ShardedSum(std::size_t size, SumOrder order) : size_(size), order_(order) {}

  /// Returns the sum of the current shard, which begins with zeros.
  std::span<T> shard();

  /// Ends a shard. Shards end in ascending order.
  void end_shard(std::size_t index);

  /// Returns the total on every rank. All ranks call it once; this object is empty afterwards.
  std::vector<T> finish(Ranks& ranks);

 private:
  /// The sum of shards begin ... begin + width - 1; width is a power of two that divides begin.
  struct Node {
    std::size_t begin = 0;
    std::size_t width = 1;
    std::vector<T> values;
  };

  /// Appends a node and merges pairs into nodes of twice the width.
  static void append(std::vector<Node>& nodes, Node node);

  void receive_before(Ranks& ranks, std::vector<Node>& nodes) const;
  static void pass_on(Ranks& ranks, std::vector<Node>& nodes);

  std::size_t size_;
  SumOrder order_;
  std::vector<T> shard_;
  std::vector<Node> nodes_;
};

extern template class ShardedSum<float>;
extern template class ShardedSum<double>;

}  // namespace ballast::jobs

#endif  // BALLAST_JOBS_SHARDED_SUM_H_
