// Gives access to a layer's experts when they are not all in memory.
#ifndef BALLAST_MODEL_BLOCK_EXPERT_STORE_H_
#define BALLAST_MODEL_BLOCK_EXPERT_STORE_H_

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace ballast::model {

struct MlpWeights;

/// The weights of one layer's experts. Thread-safe.
class ExpertStore {
 public:
  ExpertStore() = default;
  ExpertStore(const ExpertStore&) = delete;
  ExpertStore& operator=(const ExpertStore&) = delete;
  virtual ~ExpertStore() = default;

  /// Returns how many experts may be requested at once; at least one.
  virtual std::size_t most_at_once() const = 0;

  /// Returns the weights of some experts, in this order. They stay in memory while the pointers do. Throws Error if
  /// they cannot be read.
  virtual std::vector<std::shared_ptr<const MlpWeights>> get(std::span<const std::size_t> experts) const = 0;
};

}  // namespace ballast::model

#endif  // BALLAST_MODEL_BLOCK_EXPERT_STORE_H_
