// Sums over samples that come out the same, bit for bit, for any number of ranks that share the samples.
#ifndef BALLAST_JOBS_SHARDED_SUM_H_
#define BALLAST_JOBS_SHARDED_SUM_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ballast/ranks.h"

namespace ballast::jobs {

/// The samples of a job are cut into this many contiguous shards, whatever the number of ranks; each rank works through
/// a contiguous range of shards. A job has at most as many ranks as shards (check_sharing()).
inline constexpr std::size_t kShards = 8;

struct IndexRange {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t size() const { return end - begin; }
};

/// Part `index` of `total` things that are cut into `parts` as equal as can be.
IndexRange even_part(std::size_t total, std::size_t index, std::size_t parts);

/// The shards of a rank; the samples of a shard; the samples of a rank.
IndexRange shards_of(std::size_t rank, std::size_t ranks);
IndexRange samples_of_shard(std::size_t shard, std::size_t samples);
IndexRange samples_of_rank(std::size_t rank, std::size_t ranks, std::size_t samples);

/// Throws Error when some rank would have no samples, or there are more ranks than shards.
void check_sharing(std::size_t samples, const Ranks& ranks);

/// The least of what the ranks give: what all of them have. On every rank.
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

  /// What the present shard has added up so far, zeros at its begin.
  std::span<T> shard();

  /// Shards end in ascending order.
  void end_shard(std::size_t index);

  /// All ranks call it once, and hold the total then. This object is empty afterwards.
  std::vector<T> finish(Ranks& ranks);

 private:
  /// The sum of shards begin ... begin + width - 1; width is a power of two and divides begin.
  struct Node {
    std::size_t begin = 0;
    std::size_t width = 1;
    std::vector<T> values;
  };

  /// Adds a node after the others and merges what makes up a whole node of twice the width.
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
