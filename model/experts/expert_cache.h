// A cache of experts, in a budget of memory: an expert is read when a token is routed to it.
#ifndef BALLAST_MODEL_EXPERTS_EXPERT_CACHE_H_
#define BALLAST_MODEL_EXPERTS_EXPERT_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "ballast/model_options.h"
#include "model/block/expert_store.h"

namespace ballast::model {

/// Loads experts into memory.
struct ExpertLoader {
  /// Called before some experts of a layer are loaded, so that their reading can begin. May throw Error.
  std::function<void(std::size_t layer, std::span<const std::size_t> experts)> begin;

  /// Called from several threads at once.
  std::function<MlpWeights(std::size_t layer, std::size_t expert)> load;
};

/// Keeps the most recently used experts within the budget. Thread-safe.
class ExpertCache {
 public:
  /// `budget` is in bytes of loaded experts. Loads expert 0 of `layer` to learn the size. Throws Error if it does not
  /// fit.
  ExpertCache(std::uint64_t budget, ExpertLoader loader, std::size_t layer);

  /// Returns the store of a layer's experts. Valid as long as this.
  std::shared_ptr<const ExpertStore> of_layer(std::size_t layer) const;

  /// Returns the bytes that one token's products with an expert read: the largest so far.
  std::uint64_t streamed_bytes() const;

  /// Returns the figures except the number of the model's experts.
  ExpertFigures figures() const;

 private:
  class LayerStore;
  using Key = std::pair<std::size_t, std::size_t>;  // layer, expert

  struct Entry {
    Key key;
    std::shared_ptr<const MlpWeights> weights;
    std::uint64_t bytes = 0;
  };

  using Weights = std::vector<std::shared_ptr<const MlpWeights>>;

  std::size_t most_at_once() const;
  Weights get(std::size_t layer, std::span<const std::size_t> experts) const;
  void load(std::size_t layer, std::span<const std::size_t> experts, Weights& weights) const;
  void insert(Key key, std::shared_ptr<const MlpWeights> weights) const;
  void make_room(std::uint64_t bytes, std::size_t kept) const;

  std::uint64_t budget_;
  ExpertLoader loader_;
  mutable std::mutex mutex_;          ///< also held while experts are loaded: waiting threads may need the same ones
  mutable std::list<Entry> entries_;  ///< most recently used first
  mutable std::map<Key, std::list<Entry>::iterator> by_key_;
  mutable std::uint64_t bytes_ = 0;    ///< of the entries
  mutable std::uint64_t largest_ = 0;  ///< of an expert
  mutable std::uint64_t streamed_ = 0;
  mutable ExpertFigures figures_;
};

}  // namespace ballast::model

#endif  // BALLAST_MODEL_EXPERTS_EXPERT_CACHE_H_
