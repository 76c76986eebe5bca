#include "samples/sample_tokens.h"

namespace ballast::samples {

SampleTokens own_samples(const SampleTokens& all, const SampleSharing& sharing) {
  const jobs::IndexRange own = jobs::samples_of_rank(sharing.ranks->rank(), sharing.ranks->size(), all.count());
  return {all.ids.subspan(own.begin * all.length, own.size() * all.length), all.length, all.prefix};
}

void for_each_shard(const SampleSharing& sharing,
                    const std::function<void(std::size_t shard, jobs::IndexRange samples)>& visit) {
  const jobs::IndexRange shards = jobs::shards_of(sharing.ranks->rank(), sharing.ranks->size());
  for (std::size_t shard = shards.begin; shard < shards.end; ++shard) {
    visit(shard, jobs::samples_of_shard(shard, sharing.samples));
  }
}

}  // namespace ballast::samples
