#include "model/experts/expert_cache.h"

#include <algorithm>
#include <string>

#include "ballast/error.h"
#include "kernels/parallel.h"
#include "model/block/weights.h"

namespace ballast::model {

namespace {

template <typename BytesOfLinear>
std::uint64_t bytes_of(const MlpWeights& mlp, const BytesOfLinear& bytes_of_linear) {
  std::uint64_t bytes = 0;
  for_each_linear(mlp, Role::kExpertGate, Role::kExpertUp, Role::kExpertDown,
                  [&](const Linear& linear, Role) { bytes += bytes_of_linear(linear); });
  return bytes;
}

}  // namespace

class ExpertCache::LayerStore : public ExpertStore {
 public:
  LayerStore(const ExpertCache& cache, std::size_t layer) : cache_(cache), layer_(layer) {}

  std::size_t most_at_once() const override { return cache_.most_at_once(); }

  Weights get(std::span<const std::size_t> experts) const override { return cache_.get(layer_, experts); }

 private:
  const ExpertCache& cache_;
  std::size_t layer_;
};

ExpertCache::ExpertCache(std::uint64_t budget, ExpertLoader loader, std::size_t layer)
    : budget_(budget), loader_(std::move(loader)) {
  const std::size_t first = 0;
  get(layer, {&first, 1});
  figures_ = {};
  if (largest_ > budget_) {
    throw Error("expert memory",
                std::to_string(budget_) + " bytes are too few: one expert takes " + std::to_string(largest_));
  }
}

std::shared_ptr<const ExpertStore> ExpertCache::of_layer(std::size_t layer) const {
  return std::make_shared<const LayerStore>(*this, layer);
}

std::uint64_t ExpertCache::streamed_bytes() const {
  const std::lock_guard lock(mutex_);
  return streamed_;
}

ExpertFigures ExpertCache::figures() const {
  const std::lock_guard lock(mutex_);
  ExpertFigures figures = figures_;
  figures.budget = budget_;
  figures.bytes = bytes_;
  figures.in_memory = entries_.size();
  return figures;
}

std::size_t ExpertCache::most_at_once() const {
  const std::lock_guard lock(mutex_);
  return std::max<std::size_t>(1, budget_ / std::max<std::uint64_t>(1, largest_));
}

ExpertCache::Weights ExpertCache::get(std::size_t layer, std::span<const std::size_t> experts) const {
  const std::lock_guard lock(mutex_);
  Weights weights(experts.size());
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < experts.size(); ++i) {
    const auto found = by_key_.find({layer, experts[i]});
    if (found == by_key_.end()) {
      missing.push_back(i);
      continue;
    }
    entries_.splice(entries_.begin(), entries_, found->second);
    weights[i] = found->second->weights;
  }
  figures_.used += experts.size();
  figures_.found += experts.size() - missing.size();
  if (missing.empty()) return weights;

  std::vector<std::size_t> wanted;
  for (const std::size_t i : missing) wanted.push_back(experts[i]);
  make_room(missing.size() * largest_, experts.size() - missing.size());
  Weights loaded(wanted.size());
  load(layer, wanted, loaded);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    insert({layer, wanted[i]}, loaded[i]);
    weights[missing[i]] = std::move(loaded[i]);
  }
  make_room(0, experts.size());
  return weights;
}

/// Reads all missing experts at once.
void ExpertCache::load(std::size_t layer, std::span<const std::size_t> experts, Weights& weights) const {
  if (loader_.begin) loader_.begin(layer, experts);
  kernels::TaskFailure failure;
  kernels::parallel_tasks(experts.size(), kernels::available_threads(), [&](std::size_t i, std::size_t) {
    failure.keep(i, [&] { weights[i] = std::make_shared<const MlpWeights>(loader_.load(layer, experts[i])); });
  });
  failure.rethrow();
}

void ExpertCache::insert(Key key, std::shared_ptr<const MlpWeights> weights) const {
  const std::uint64_t streamed = bytes_of(*weights, [](const Linear& linear) { return linear.bytes(); });
  const std::uint64_t bytes =
      streamed + bytes_of(*weights, [](const Linear& linear) { return linear.bias.size() * sizeof(float); });
  streamed_ = std::max(streamed_, streamed);
  entries_.push_front({key, std::move(weights), bytes});
  by_key_[key] = entries_.begin();
  bytes_ += bytes;
  largest_ = std::max(largest_, bytes);
  figures_.loaded_bytes += bytes;
}

/// Makes room for `bytes`. The `kept` most recently used experts stay.
void ExpertCache::make_room(std::uint64_t bytes, std::size_t kept) const {
  while (bytes_ + bytes > budget_ && entries_.size() > kept) {
    bytes_ -= entries_.back().bytes;
    by_key_.erase(entries_.back().key);
    entries_.pop_back();
  }
}

}  // namespace ballast::model
