#include "quant/rounding/expert_moments.h"

#include <cassert>
#include <cmath>
#include <utility>

namespace ballast::quant {

Hessian shrunk(Hessian own, const Hessian& all) {
  assert(all.rows > 0 && all.cols == own.cols);
  if (own.rows >= own.cols) return own;
  const auto cols = static_cast<double>(own.cols);
  const double share = static_cast<double>(own.rows) / cols;
  const auto lacking = static_cast<double>(own.cols - own.rows);
  const auto weight = static_cast<float>(lacking / static_cast<double>(all.rows));
#pragma omp parallel for
  for (std::size_t i = 0; i < own.values.size(); ++i) own.values[i] += weight * all.values[i];
  own.rows =
      static_cast<std::uint64_t>(std::llround(cols / (share + (1 - share) * cols / static_cast<double>(all.rows))));
  return own;
}

void ExpertMoments::add(const float* rows, std::size_t tokens, std::span<const std::vector<std::size_t>> of_expert) {
  const std::vector<float>& batch = batches_.emplace_back(rows, rows + tokens * cols_);
  for (std::size_t e = 0; e < rows_.size(); ++e) {
    for (const std::size_t token : of_expert[e]) rows_[e].push_back({shards_, batch.data() + token * cols_});
  }
}

Hessian ExpertMoments::of(std::size_t expert) const {
  HessianSum sum(cols_, sharing_.order);
  const std::size_t first = jobs::shards_of(sharing_.ranks->rank(), sharing_.ranks->size()).begin;
  auto row = rows_[expert].begin();
  std::vector<float> own;
  for (std::size_t shard = 0; shard < shards_; ++shard) {
    own.clear();
    for (; row != rows_[expert].end() && row->shard == shard; ++row) {
      own.insert(own.end(), row->values, row->values + cols_);
    }
    sum.add(own.data(), own.size() / cols_);
    sum.end_shard(first + shard);
  }
  Hessian moments = sum.finish(*sharing_.ranks);
  return all_ == nullptr ? moments : shrunk(std::move(moments), *all_);
}

}  // namespace ballast::quant
